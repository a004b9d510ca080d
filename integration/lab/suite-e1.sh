# Row E1: the bus bandwidth of a 16 MiB all-reduce over four shaped rails against the sum of ib_write_bw on the four at once, in
# turns, so that both see the same machine. Two nodes: what each sends is what it reduces, so bus bandwidth is the rate of one way.
. /lab/rails.sh
. /lab/engine.sh
make_rails
choose_rate 40 30 20 15 || fail "ib_write_bw or the engines ended badly while a rate was chosen"
for turn in 1 2 3; do
    sum_of_write_bw 65536 $((rate * 8)) || fail "ib_write_bw"
    busy_from
    start_engines "$RAILS" --bytes 16777216 --iterations 3 --warmup 1 --budget-ms 100000
    wait_engines || fail "all-reduce"
    busy_since
    awk -v sum="$sum" -v bus="$(value bus_bw)" -v rate="$rate" -v busy="$busy" 'BEGIN {
        printf "result {\"share\":%.2f,\"ours\":%.2f,\"ib_write_bw\":%.2f,\"shaped\":%d,\"busy\":%.2f}\n", \
            100 * bus * 8000 / sum, bus * 8000, sum, 4 * rate, busy
    }'
done
# What was measured is right, too: once more, every element checked.
start_engines "$RAILS" --bytes 16777216 --iterations 3 --warmup 1 --budget-ms 1 --verify
wait_engines || fail "all-reduce"
[ "$(wrong)" = 0 ] || fail "wrong elements"
