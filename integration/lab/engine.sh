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
