# Row E2: fifty rails cut in the middle of operations, half by a lost carrier, half silently, each mended and used again before
# the next; every element of every result is checked. What it cost is judged from the times of all operations, and of the cuts.
. /lab/rails.sh
. /lab/engine.sh
make_rails
choose_rate 40 25 15 || fail "ib_write_bw"
start_engines "$RAILS" --bytes 262144 --warmup 5 --until /run/enough --verify --times
operations_begin "$RAILS"
busy_from
sleep 2
cuts=0
while [ $cuts -lt 50 ] && engines_run; do
    r=$(((cuts * 7 + cuts / 4) % 4))
    end=$([ $((cuts / 4 % 2)) = 0 ] && echo a || echo b)
    at=$(now_ms)
    if [ $((cuts % 2)) = 0 ]; then
        kind=carrier
        link_down "$end$r"
        sleep 0.6
        link_up "$end$r"
    else
        kind=silent
        must tc qdisc replace dev "$end$r" root netem loss 100%
        sleep 0.6
        must tc qdisc replace dev "$end$r" root netem rate "${rate}mbit" limit 20000
    fi
    echo "result {\"cut\":\"$kind\",\"end\":\"$end$r\",\"at_ms\":$at,\"mended_ms\":$(now_ms)}"
    before=$(sent_packets "rxea$r")
    cuts=$((cuts + 1))
    tries=0
    # Used again, or for a while not: a rail that flaps is left alone for longer and longer.
    until [ "$(sent_packets "rxea$r")" -gt $((before + 100)) ] || [ $tries -ge 40 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    sleep 0.6
done
engines_run || echo "the engines ended after $cuts cuts"
busy_since
enough_operations
errors=0
wait_engines || errors=1
echo "result {\"busy\":$busy,\"shaped\":$((4 * rate)),\"errors\":$errors}"
echo "result $(cat /run/engine0)"
[ $errors = 0 ] || fail "after $cuts cuts: an operation failed"
[ "$(wrong)" = 0 ] || fail "wrong elements"
[ "$cuts" -ge 50 ] || fail "only $cuts cuts while operations went on"
