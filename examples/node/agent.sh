#!/bin/sh
# Stands in for a coding agent. It reads which test fails and gives the library the option that
# writes units out.
set -eu

if grep -q 'the unit is written out' "$LOOPEXEC_FAILURES"; then
    changed=$(sed 's/ms(time)/ms(time, { long: true })/' src/wait.js)
    printf '%s\n' "$changed" >src/wait.js
else
    echo "no idea" >&2
    exit 1
fi
