#!/bin/sh
# Stands in for a coding agent. It reads the names of the failing tests; where amounts with one digit
# are wrong, it makes one digit count tenths.
set -eu

if grep -q 'one_digit' "$LOOPEXEC_FAILURES"; then
    changed=$(sed 's/^        1 => 1,$/        1 => 10,/' money/src/lib.rs)
    printf '%s\n' "$changed" >money/src/lib.rs
else
    echo "no idea" >&2
    exit 1
fi
