# Functions for suites with two engines: node 0 is host A, node 1 host B.

# start_engines RAILS [options]: an all-reduce of two nodes over these rails, in the background. What node 0 says is in
# /run/engine0, as JSON; `wait_engines` waits for both. With `--until /run/enough` they go on until `enough_operations`.
start_engines() {
    addresses=
    for r in $1; do addresses="$addresses,10.$r.0.%"; done
    shift
    rm -rf /run/meet /run/enough
    mkdir /run/meet
    for node in 0 1; do
        RAIL_LOG=${RAIL_LOG:-warn} rail-engine bench-engine --node $node --nodes 2 --rails "${addresses#,}" --dir /run/meet \
            --transport verbs "$@" > /run/engine$node 2> /run/errors$node &
        eval "engine$node=$!"
    done
}

enough_operations() { : > /run/enough; }

wait_engines() {
    ended=0
    for pid in $engine0 $engine1; do wait "$pid" || ended=1; done
    [ $ended = 0 ] || { tail -n 5 /run/errors0 /run/errors1; return 1; }
}

# value NAME: of a number in what node 0 said.
value() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" /run/engine0; }

# wrong: elements that were wrong, of all sizes together; nothing if node 0 said nothing.
wrong() { sed -n 's/.*"mismatches":\([0-9]*\).*/\1/p' /run/engine0 | awk '{ sum += $1 } END { if (NR) print sum }'; }

# engines_run: whether both still do; of what has ended there is no program.
engines_run() { [ -e "/proc/$engine0/exe" ] && [ -e "/proc/$engine1/exe" ]; }

# operations_begin RAILS: waits until each of these rails has carried more RDMA than links need to come up.
operations_begin() {
    for r in $1; do
        begin=$(sent_packets "rxea$r")
        until [ "$(sent_packets "rxea$r")" -gt $((begin + 50)) ]; do
            engines_run || { wait_engines; fail "the engines ended before their operations began"; }
            sleep 0.05
        done
    done
}

# choose_rate RATES: shapes all rails to the first of these rates, in Mbit/s, that ib_write_bw reaches on all at once, and at which two
# engines leave the processors time (less than 1.75 of the two; from 1.8 on, what is measured is void); to the last if there is none.
# `rate` says which. How busy ib_write_bw keeps them says nothing: it asks for completions all the time.
choose_rate() {
    for rate in "$@"; do
        shape "${rate}mbit"
        sum_of_write_bw 65536 $((rate * 4)) || return 1
        busy_from
        start_engines "$RAILS" --bytes 8388608 --iterations 4 --warmup 1
        wait_engines || return 1
        busy_since
        echo "shaped to 4 x $rate Mbit/s: ib_write_bw reaches $sum, engines keep $busy processors busy"
        awk -v sum="$sum" -v most=$((4 * rate)) -v busy="$busy" 'BEGIN { exit !(sum >= 0.93 * most && busy < 1.75) }' && return 0
    done
    return 0
}
