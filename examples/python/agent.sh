#!/bin/sh
# Stands in for a coding agent. It reads which test fails, and what the function under test does
# with its values: a median needs them in order.
set -eu

if grep -q 'test_median' "$LOOPEXEC_FAILURES"; then
    changed=$(sed 's/ordered = list(values)/ordered = sorted(values)/' src/calc/__init__.py)
    printf '%s\n' "$changed" >src/calc/__init__.py
else
    echo "no idea" >&2
    exit 1
fi
