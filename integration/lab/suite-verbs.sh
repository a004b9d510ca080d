# Two engines all-reduce over verbs on four rails; every element of every result is checked.
. /lab/rails.sh
. /lab/engine.sh
make_rails
shape 40mbit

for r in $RAILS; do eval "before$r=$(sent_packets "rxea$r")"; done
start_engines "$RAILS" --bytes 8,65536,1048576 --iterations 5 --warmup 1 --verify
wait_engines || fail "all-reduce"
cat /run/engine0
[ "$(wrong)" = 0 ] || fail "wrong elements"
for r in $RAILS; do
    packets=$(($(sent_packets "rxea$r") - before$r))
    [ "$packets" -ge 100 ] || fail "rail $r: only $packets packets were RDMA's"
    echo "rail $r: $packets packets"
done

# While operations go on: a link that is cut at one end and then at another, and packets that vanish without a word.
start_engines "$RAILS" --bytes 262144 --warmup 3 --until /run/enough --verify
operations_begin "$RAILS"
link_down b1
sleep 0.6
link_up b1
link_down a2
sleep 0.6
link_up a2
must tc qdisc replace dev a3 root netem loss 100%
sleep 0.6
must tc qdisc replace dev a3 root netem rate 40mbit limit 20000
operations_begin 3
engines_run || fail "the engines ended before all rails were cut"
enough_operations
wait_engines || fail "all-reduce with rails cut"
cat /run/engine0
[ "$(wrong)" = 0 ] || fail "wrong elements"

# Two rails, four queue pairs a link. Each has a memory window, so that nobody but its peer may write there.
RAIL_LOG=debug
start_engines "0 1" --bytes 262144 --iterations 5 --warmup 1 --pairs 4 --verify
wait_engines || fail "all-reduce over several queue pairs"
! grep "not be given back" /run/errors0 /run/errors1 || fail "something was not given back"
grep -q "channel joined.*windows=4" /run/errors0 || { cat /run/errors0; fail "no memory windows"; }
[ "$(wrong)" = 0 ] || fail "wrong elements"
