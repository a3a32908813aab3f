#!/bin/sh
# The tests of duration.sh. Prints TAP; ends with 1 when a test failed.
count=0
failed=0

# seconds EXPECTED DURATION
seconds() {
    count=$((count + 1))
    got=$(sh duration.sh "$2" 2>&1)
    if [ "$got" = "$1" ]; then
        echo "ok $count - $2"
    else
        failed=$((failed + 1))
        echo "not ok $count - $2"
        printf '  ---\n  message: "expected %s, got %s"\n  ...\n' "$1" "$got"
    fi
}

seconds 1 1s
seconds 60 1m
seconds 3600 1h
seconds 5405 1h30m5s
seconds "duration.sh: not a duration: 5" 5

echo "1..$count"
[ "$failed" -eq 0 ]
