#!/bin/sh
# Stands in for a coding agent. It reads which test fails, takes the command that the test's name
# begins with, and tries another operator there: one command in each iteration.
set -eu

command=$(tr '{' '\n' <"$LOOPEXEC_FAILURES" |
    sed -n 's/.*"id": *"\([a-z]*\) .*/\1/p' | head -n 1)
echo "iteration $LOOPEXEC_ITERATION of $LOOPEXEC_ITERATIONS_MAX: '$command' fails"

case $command in
total) edit='/^total)/s/ + / * /' ;;
shipping) edit='/^shipping)/s/ -gt / -ge /' ;;
*)
    echo "no idea what to do about '$command'" >&2
    exit 1
    ;;
esac
changed=$(sed "$edit" price.sh)
printf '%s\n' "$changed" >price.sh
