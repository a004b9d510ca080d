# Functions for suites with two engines: node 0 is host A, node 1 host B.

# start_engines RAILS [options]: an all-reduce of two nodes over these rails, in the background. What node 0 says is in
# /run/engine0, as JSON; `wait_engines` waits for both.
start_engines() {
    addresses=
    for r in $1; do addresses="$addresses,10.$r.0.%"; done
    shift
    rm -rf /run/meet
    mkdir /run/meet
    for node in 0 1; do
        RAIL_LOG=${RAIL_LOG:-warn} rail-engine bench-engine --node $node --nodes 2 --rails "${addresses#,}" --dir /run/meet \
            --transport verbs "$@" > /run/engine$node 2> /run/errors$node &
        eval "engine$node=$!"
    done
}

wait_engines() {
    ended=0
    for pid in $engine0 $engine1; do wait "$pid" || ended=1; done
    [ $ended = 0 ] || { tail -n 5 /run/errors0 /run/errors1; return 1; }
}

# value NAME: of a number in what node 0 said.
value() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" /run/engine0; }

# engines_run: whether both still do.
engines_run() { kill -0 "$engine0" 2>/dev/null && kill -0 "$engine1" 2>/dev/null; }
