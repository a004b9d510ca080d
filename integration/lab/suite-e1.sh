# Row E1: the bus bandwidth of a 16 MiB all-reduce over four shaped rails against the sum of ib_write_bw on the four at once, in
# turns, so that both see the same machine. Two nodes: what each sends is what it reduces, so bus bandwidth is the rate of one way.
. /lab/rails.sh
. /lab/engine.sh
make_rails
rate=${RATE:-40}
shape "${rate}mbit"
for turn in 1 2 3; do
    sum_of_write_bw 65536 60 || fail "ib_write_bw"
    idle=$(awk '/^cpu /{print $5}' /proc/stat)
    start=$(cut -d' ' -f1 /proc/uptime)
    start_engines "$RAILS" --bytes 16777216 --iterations 3 --warmup 1 --budget-ms 100000 --verify
    wait_engines || fail "all-reduce"
    [ "$(value mismatches)" = 0 ] || fail "wrong elements"
    idle=$(($(awk '/^cpu /{print $5}' /proc/stat) - idle))
    bus=$(value bus_bw)
    awk -v sum="$sum" -v bus="$bus" -v rate="$rate" -v idle="$idle" -v start="$start" -v now="$(cut -d' ' -f1 /proc/uptime)" 'BEGIN {
        ours = bus * 8000
        printf "result {\"share\":%.2f,\"ours\":%.2f,\"ib_write_bw\":%.2f,\"shaped\":%d,\"busy\":%.2f}\n", \
            100 * ours / sum, ours, sum, 4 * rate, 2 - idle / 100 / (now - start)
    }'
done
