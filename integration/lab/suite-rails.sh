# The rails themselves: every later suite builds on what this one shows. Nothing here is about speed: an emulated machine
# beside others has none.
. /lab/rails.sh
make_rails

for r in $RAILS; do
    state=$(cat "/sys/class/infiniband/rxea$r/ports/1/state")
    [ "$state" = "4: ACTIVE" ] || fail "rxea$r is $state"
    at=$(gid_index "rxea$r") || fail "rxea$r has no GID of RoCE v2 and IPv4"
    to=$(gid_index "rxeb$r") || fail "rxeb$r has no GID of RoCE v2 and IPv4"
    before=$(sent_packets "rxea$r")
    ibv_rc_pingpong -d "rxeb$r" -g "$to" -n 20 -p "1851$r" > /run/server 2>&1 &
    listens "1851$r"
    ibv_rc_pingpong -d "rxea$r" -g "$at" -n 20 -p "1851$r" "10.$r.0.2" > /run/client 2>&1 \
        || { cat /run/client; fail "rail $r carries nothing"; }
    wait
    packets=$(($(sent_packets "rxea$r") - before))
    [ "$packets" -ge 20 ] || fail "rail $r: only $packets packets went over it"
    echo "rail $r: GID $at, $packets packets, $(sed -n 's/.*iters in.*= \(.*\) usec.*/\1/p' /run/client) us a round"
done

shape 100mbit
sum_of_write_bw 16384 100 || fail "RDMA writes"
echo "RDMA writes on all rails at once: $sum Mbit/s of 400"

link_down b1
port_becomes rxea1 DOWN || fail "rail 1 is up although its other end is down"
port_becomes rxea2 ACTIVE || fail "rail 2 went with rail 1"
link_up b1
port_becomes rxea1 ACTIVE || fail "rail 1 does not come back"
ping -c 1 -W 10 -I a1 10.1.0.2 > /dev/null || fail "rail 1 is back and carries nothing"
echo "rail 1: lost and back"
exit 0
