#!/bin/sh
# Stands in for a coding agent. It reads what the test of a single unit expected and what it got,
# and puts the expected factor where the wrong one stands.
set -eu

factors=$(tr '{' '\n' <"$LOOPEXEC_FAILURES" | grep '"id": *"1[a-z]"' |
    sed -n 's/.*expected \([0-9]*\), got \([0-9]*\).*/\1 \2/p' | head -n 1)
expected=${factors% *}
got=${factors#* }
echo "a factor should be $expected, not $got"
changed=$(sed "s/number \* $got)/number * $expected)/" duration.sh)
printf '%s\n' "$changed" >duration.sh
