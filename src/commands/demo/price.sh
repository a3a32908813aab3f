#!/bin/sh
# Prices in cents.
#   price.sh total QUANTITY UNIT_PRICE
#   price.sh shipping TOTAL
case ${1-} in
total) echo $(($2 + $3)) ;;
shipping) if [ "$2" -gt 5000 ]; then echo 0; else echo 499; fi ;;
*)
    echo "usage: price.sh total QUANTITY UNIT_PRICE, or price.sh shipping TOTAL" >&2
    exit 2
    ;;
esac
