# Row E2: fifty rails cut in the middle of operations, half by a lost carrier, half silently, each mended and used again before
# the next; every element of every result is checked.
. /lab/rails.sh
. /lab/engine.sh
make_rails
shape 100mbit
start_engines "$RAILS" --bytes 262144 --iterations 100000 --warmup 5 --budget-ms "${BUDGET:-120000}" --verify --times
sleep 3
cuts=0
while [ $cuts -lt 50 ] && engines_run; do
    r=$((cuts * 7 % 4))
    end=$([ $((cuts / 4 % 2)) = 0 ] && echo a || echo b)
    before=$(sent_packets "rxea$r")
    if [ $((cuts % 2)) = 0 ]; then
        link_down "$end$r"
        sleep 0.4
        link_up "$end$r"
    else
        must tc qdisc replace dev "$end$r" root netem loss 100%
        sleep 0.4
        must tc qdisc replace dev "$end$r" root netem rate 100mbit limit 20000
    fi
    cuts=$((cuts + 1))
    tries=0
    # Used again, or for a while not: a rail that flaps is left alone for longer and longer.
    until [ "$(sent_packets "rxea$r")" -gt $((before + 200)) ] || [ $tries -ge 30 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    sleep 0.3
done
engines_run || echo "the engines ended after $cuts cuts"
wait_engines || fail "after $cuts cuts: an operation failed"
[ "$(value mismatches)" = 0 ] || fail "wrong elements"
sed 's/.*"times_us":\[\([^]]*\)\].*/\1/' /run/engine0 | tr ',' '\n' | sort -n | awk -v cuts="$cuts" '
    { time[NR] = $1 }
    END {
        median = time[int((NR + 1) / 2)]
        printf "result {\"cuts\":%d,\"operations\":%d,\"wrong\":0,\"median_ms\":%.1f,\"p99_ms\":%.1f,\"longest_ms\":%.1f}\n", \
            cuts, NR, median / 1000, time[int(NR * 0.99) + 1] / 1000, time[NR] / 1000
    }'
[ "$cuts" -ge 50 ] || fail "only $cuts cuts while operations went on"
