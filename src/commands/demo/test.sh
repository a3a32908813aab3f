#!/bin/sh
# The tests of price.sh. Prints TAP; ends with 1 when a test failed.
count=0
failed=0

# is NAME EXPECTED COMMAND [ARGUMENT]...
is() {
    name=$1
    expected=$2
    shift 2
    count=$((count + 1))
    got=$("$@" 2>&1)
    if [ "$got" = "$expected" ]; then
        echo "ok $count - $name"
    else
        failed=$((failed + 1))
        echo "not ok $count - $name"
        printf '  ---\n  message: "%s: expected %s, got %s"\n  ...\n' "$*" "$expected" "$got"
    fi
}

is "total of three at 2.50" 750 sh price.sh total 3 250
is "total of two at 0.02" 4 sh price.sh total 2 2
is "shipping below 50.00 costs 4.99" 499 sh price.sh shipping 4999
is "shipping from 50.00 on is free" 0 sh price.sh shipping 5000

echo "1..$count"
[ "$failed" -eq 0 ]
