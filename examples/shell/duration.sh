#!/bin/sh
# Prints how many seconds a duration such as 1h30m5s has.
seconds=0
rest=${1-}
while [ -n "$rest" ]; do
    number=${rest%%[!0-9]*}
    rest=${rest#"$number"}
    unit=${rest%"${rest#?}"}
    rest=${rest#?}
    case ${number:+$unit} in
    h) seconds=$((seconds + number * 3600)) ;;
    m) seconds=$((seconds + number * 6)) ;;
    s) seconds=$((seconds + number)) ;;
    *)
        echo "duration.sh: not a duration: ${1-}" >&2
        exit 2
        ;;
    esac
done
echo "$seconds"
