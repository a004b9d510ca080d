# Two engines all-reduce over verbs on four rails; every element of every result is checked.
. /lab/rails.sh
. /lab/engine.sh
make_rails
shape 100mbit

for r in $RAILS; do eval "before$r=$(sent_packets "rxea$r")"; done
start_engines "$RAILS" --bytes 8,65536,4194304 --iterations 5 --warmup 1 --verify
wait_engines || fail "all-reduce"
cat /run/engine0
for r in $RAILS; do
    packets=$(($(sent_packets "rxea$r") - before$r))
    [ "$packets" -ge 100 ] || fail "rail $r: only $packets packets were RDMA's"
    echo "rail $r: $packets packets"
done

# A link that is cut, at one end and then at another, while operations go on.
start_engines "$RAILS" --bytes 1048576 --iterations 60 --warmup 1 --budget-ms 60000 --verify --times
sleep 2
link_down b1
sleep 1
link_up b1
link_down a2
sleep 1
link_up a2
wait_engines || fail "all-reduce with links cut"
cat /run/engine0
[ "$(value mismatches)" = 0 ] || fail "wrong elements"

# Packets that vanish without a word.
start_engines "$RAILS" --bytes 1048576 --iterations 40 --warmup 1 --budget-ms 60000 --verify
sleep 2
must tc qdisc replace dev a3 root netem loss 100%
sleep 1
must tc qdisc replace dev a3 root netem rate 100mbit limit 20000
wait_engines || fail "all-reduce with a silent rail"
cat /run/engine0
[ "$(value mismatches)" = 0 ] || fail "wrong elements"

# A link with several queue pairs, and one rail only.
start_engines "0 1" --bytes 1048576 --iterations 5 --warmup 1 --pairs 4 --verify
wait_engines || fail "all-reduce over several queue pairs"
[ "$(value mismatches)" = 0 ] || fail "wrong elements"
