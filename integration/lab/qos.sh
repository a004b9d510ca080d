# Steps of the suites on class of service, by the real kernel and the lab's own NICs. What `dcb`, `ethtool` and `ip` say is compared with
# what the agent says.

# Planned, applied and read back; `right` is then what a NIC is that is as the default profile says, `factory` what it was.
planned() {
    make_nics
    factory=$(state nic0)
    expect 3 '1 edit, worst effect: hitless; 5 withheld' plan --device nic0
    expect 3 '6 edits, worst effect: traffic loss' plan --device nic0 --drained
    is nic0 "$factory" "a plan"
    expect 0 'done, and read back' apply --device nic0 --drained
    looks_right nic0
    expect 0 'as the profile says' diff --device nic0
    expect 0 'nic0: profile roce-lossless, 6 edit(s)' status
    right=$(state nic0)
    expect 3 'not drained' rollback --device nic0
    is nic0 "$right" "a refused rollback"
    expect 0 'done, and read back' rollback --device nic0 --drained
    is nic0 "$factory" "taken back"
    expect 0 'done, and read back' apply --device nic0 --drained
    is nic0 "$right" "applied again"
    echo "planned, applied, read back as dcb and ethtool show it, taken back"
}

# What others change, and the item by which the agent names it. `dcb` reads ETS and sends it back whole, but not with more than 100 % in
# all: so what the strict class reports is sent as 0.
all_drifts() {
    cat << 'END'
pfc:          dcb pfc set dev nic0 prio-pfc all:off
dscp 26:      dcb app add dev nic0 dscp-prio 26:0
global-pause: ethtool -A nic0 rx on tx on
pfc:          dcb pfc set dev nic0 prio-pfc 4:on
cable-length: dcb pfc set dev nic0 delay 7
tc-bw 0:      dcb ets set dev nic0 tc-bw 0:60 3:40 6:0
tc-tsa 6:     dcb ets set dev nic0 tc-tsa 6:ets tc-bw 6:0
prio-tc 3:    dcb ets set dev nic0 tc-bw 6:0 prio-tc 3:0
ets-willing:  dcb ets set dev nic0 willing on tc-bw 6:0
dscp 48:      dcb app del dev nic0 dscp-prio 48:6
trust:        dcb app flush dev nic0 dscp-prio
mtu:          ip link set nic0 mtu 1500
END
}

# drifts N: the first so many of them are found, named and mended.
drifts() {
    all_drifts | head -n "$1" > /run/drifts
    while IFS= read -r line; do
        item=${line%%:*}
        command=${line#*:}
        sh -c "$command" || fail "$command"
        [ "$(state nic0)" != "$right" ] || fail "$command changes nothing"
        qos diff --device nic0
        [ $? = 3 ] || { cat /run/said; fail "$command: not found"; }
        sed -n 's/^ *\([^ ]*\( [0-9][0-9]*\)*\)  .*/\1/p' /run/said | grep -qxF "$item" || { cat /run/said; fail "$command: $item is not named"; }
        expect 0 'done, and read back' apply --device nic0 --drained
        is nic0 "$right" "$command: not mended"
    done < /run/drifts
    echo "$(wc -l < /run/drifts) changes by dcb, ethtool and ip found, named and mended"
}

# What the default profile leaves alone: rates, which this driver keeps in steps, and buffers.
more() {
    echo '{"maxRate":[0,0,0,12345678,0,0,40000000,0],"buffer":{"prioBuffer":[0,0,0,1,0,0,0,0],"size":[131072,131072,0,0,0,0,0,0]}}' > /run/more.json
    expect 0 'done, and read back' apply --device nic0 --drained --profile /run/more.json
    dcb -j maxrate show dev nic0 | grep -qF '[0,0,0,12300000,0,0,40000000,0]' || fail "dcb says: $(dcb -j maxrate show dev nic0)"
    dcb -j buffer show dev nic0 | grep -qF '"prio_buffer":[0,0,0,1,0,0,0,0],"buffer_size":[131072,131072,0,0,0,0,0,0]' \
        || fail "dcb says: $(dcb -j buffer show dev nic0)"
    expect 0 'as the profile says' diff --device nic0 --profile /run/more.json
    expect 0 'done, and read back' rollback --device nic0 --drained
    is nic0 "$right" "rates and buffers taken back"
    echo "rates in the driver's steps, and buffers"
}

# A trial: nobody confirms it; somebody does, from elsewhere.
trial() {
    make_nics
    expect 3 'it waits to be confirmed' apply --device nic0 --drained --confirm-within 2
    is nic0 "$factory" "a trial that nobody confirms"
    rail-node-agent qos apply --device nic0 --drained --confirm-within 60 --data-dir $DATA < /dev/null > /run/trial 2>&1 &
    trial=$!
    soon_is nic0 "$right" 20000 || { cat /run/trial; fail "a trial is not applied"; }
    tries=0
    until qos confirm; do
        tries=$((tries + 1))
        [ $tries -le 100 ] || { cat /run/said; fail "a trial cannot be confirmed"; }
        sleep 0.1
    done
    wait $trial || { cat /run/trial; fail "a trial that was confirmed fails"; }
    is nic0 "$right" "a trial that was confirmed"
    echo "a trial ends by its time, and stays if it is confirmed"
}

# Another program, or the firmware, owns class of service.
refused() {
    printf '#!/bin/sh\nsleep 1000\n' > /run/lldpad
    chmod +x /run/lldpad
    /run/lldpad &
    lldpad=$!
    must dcb pfc set dev nic0 prio-pfc all:off
    changed=$(state nic0)
    until grep -q lldpad "/proc/$lldpad/comm"; do sleep 0.01; done
    expect 3 'lldpad (pid' plan --device nic0 --drained
    expect 3 'lldpad (pid' apply --device nic0 --drained
    is nic0 "$changed" "an apply beside lldpad"
    kill $lldpad
    wait $lldpad 2> /dev/null
    make_nics firmware=1 driver=bnxt_en
    must ip link set nic0 mtu 9000
    changed=$(state nic0)
    expect 3 'an LLDP agent in the firmware owns it' apply --device nic0 --drained
    is nic0 "$changed" "an apply to a NIC whose firmware owns DCB"
    echo "refused beside lldpad and where the firmware owns DCB"
}

# pulled AFTER: a NIC is pulled out at this change of an apply to two. The other one is done, and the agent says which is not; when it
# is back it is mended.
pulled() {
    make_nics
    echo "$1" > $LABNIC/nic0/pull
    qos apply --device nic0,nic2 --drained
    status=$?
    [ $status = 3 ] || { cat /run/said; fail "pulled out after $1 changes: exit status $status"; }
    [ -e /sys/class/net/nic0 ] && fail "nic0 was not pulled out"
    told=$(grep '^rail-node-agent qos: nic0: .*ENODEV' /run/said) || { cat /run/said; fail "pulled out after $1 changes: not told"; }
    looks_right nic2
    expect 3 'nic0: .*OUT OF SERVICE' status
    rm -rf /run/kept
    mv $DATA /run/kept
    make_nics
    rm -rf $DATA
    mv /run/kept $DATA
    expect 0 'done, and read back' apply --device nic0 --drained
    looks_right nic0
    expect 0 'nic0: profile' status
    grep 'OUT OF SERVICE' /run/said | grep -q 'nic0' && fail "nic0 is mended and yet out of service"
    echo "pulled out at change $1: $told"
}

# The agent keeps it so by itself, while no controller can be reached: what others change is mended as the kernel tells of it. How long that
# takes is told by the driver's clock. A look by `state` starts nine programs: in an emulated machine that takes longer than a heal, and
# seconds where others use its processors.
kept() {
    make_nics
    must rdma link add rxe0 type rxe netdev nic0
    expect 0 'done, and read back' apply --device nic0 --drained
    looks_right nic0
    right=$(state nic0)
    echo '{}' > /run/profile.json
    # Its first look mends this; what is measured finds it awake.
    must dcb app add dev nic0 dscp-prio 26:0
    rail-node-agent run --controller https://127.0.0.1:1 --node lab --join-token none --ca-pin "sha256:$(printf '%064d' 0)" \
        --data-dir $DATA --qos-profile /run/profile.json --ranks-as-root --engine /lab/bin/rail-node-agent > /run/agent.log 2>&1 &
    agent=$!
    soon_is nic0 "$right" 20000 || { tail -n 5 /run/agent.log; state nic0; fail "what was changed before the agent began is not mended"; }
    slowest=0 seen=0 many=0
    while IFS= read -r line; do
        echo 0 > $LABNIC/nic0/first
        sh -c "$line" || fail "$line"
        soon_is nic0 "$right" 10000 || { tail -n 5 /run/agent.log; state nic0; fail "$line: not mended by the agent"; }
        healed=$((($(cat $LABNIC/nic0/last) - $(cat $LABNIC/nic0/first)) / 1000000))
        [ $healed -gt $slowest ] && slowest=$healed
        [ "$took" -gt $seen ] && seen=$took
        many=$((many + 1))
    done << 'END'
dcb app add dev nic0 dscp-prio 26:0
dcb app del dev nic0 dscp-prio 48:6
dcb ets set dev nic0 tc-bw 0:60 3:40 6:0
dcb pfc set dev nic0 delay 7
ethtool -A nic0 rx on tx on
END
    # The agent's own words: heard of by an event; one may have met the poll.
    events=$(grep -cE 'class of service was mended .*cause=(Dcb|Pause) ' /run/agent.log)
    [ "$events" -ge $((many - 1)) ] || { grep mended /run/agent.log; fail "of $many changes only $events were heard of as they happened"; }
    times=$(sed -nE 's/.*cause=(Dcb|Pause) waited_ms=([0-9]+) took_ms=([0-9]+).*/\2+\3/p' /run/agent.log | tr '\n' ' ')
    echo "$many changes mended as the kernel told of them: the slowest after $slowest ms by the driver's clock (dcb and ethtool show it after $seen)"
    echo "the agent waited and worked, read back, ms: $times"
    must dcb pfc set dev nic0 prio-pfc all:off
    tries=0
    until grep -q 'class of service is not as the profile says' /run/agent.log; do
        tries=$((tries + 1))
        [ $tries -le 200 ] || { tail -n 5 /run/agent.log; fail "the agent does not tell what it may not mend"; }
        sleep 0.05
    done
    # It has never joined, so it does not know whether jobs run here.
    [ "$(dcb -j pfc show dev nic0)" != "$PFC" ] || fail "the agent made a link flap under jobs"
    kill $agent
    wait $agent
    echo "what would harm traffic is told, and left"
}

# statistic NIC NAME
statistic() { ethtool -S "$1" | sed -n "s/^ *$2: //p"; }

# Two engines on two rails of these NICs, set by the agent: the marks of their packets on the wire, and the data class that they are in.
wire() {
    make_nics
    must ip link set nic0 down
    must ip link set nic0 name a0
    must ip link set nic1 down
    must ip link set nic1 name b0
    make_hosts
    must ip link set a0 mtu 4200
    must ip link set b0 mtu 4200
    must ip link set a0 up
    must ip link set b0 up
    make_rail 0
    echo '{"mtu":4200}' > /run/profile.json
    expect 0 'done, and read back' apply --device a0,b0 --drained --profile /run/profile.json
    routes 0
    must ping -c 1 -W 5 -I a0 10.0.0.2 > /dev/null
    must tc qdisc add dev b0 clsact
    roce="protocol ip flower ip_proto udp dst_port 4791"
    must tc filter add dev b0 ingress pref 1 $roce ip_tos 106/0xff action pass
    must tc filter add dev b0 ingress pref 2 $roce action pass
    lossless=$(statistic b0 rx_prio3_bytes)
    start_engines 0 --bytes 65536,1048576 --iterations 4 --warmup 1 --verify
    wait_engines || fail "all-reduce"
    [ "$(wrong)" = 0 ] || fail "wrong elements"
    marked=$(tc -s filter show dev b0 ingress pref 1 | sed -n 's/.*Sent [0-9]* bytes \([0-9]*\) pkt.*/\1/p')
    others=$(tc -s filter show dev b0 ingress pref 2 | sed -n 's/.*Sent [0-9]* bytes \([0-9]*\) pkt.*/\1/p')
    [ "$marked" -gt 500 ] || fail "only $marked packets of RDMA are DSCP 26 and ECT(0)"
    [ "$others" = 0 ] || fail "$others packets of RDMA are not DSCP 26 and ECT(0)"
    lossless=$(($(statistic b0 rx_prio3_bytes) - lossless))
    [ $lossless -gt 4000000 ] || fail "only $lossless bytes came on priority 3"
    for priority in 1 2 4 5 6 7; do
        [ "$(statistic b0 rx_prio${priority}_bytes)" -lt 10000 ] || fail "RDMA on priority $priority"
    done
    echo "$marked packets of RDMA with DSCP 26 and ECT(0), none without; $lossless bytes on priority 3"
    # A full queue marks what may be marked, and loses nothing.
    must tc qdisc replace dev a0 root handle 1: tbf rate 30mbit burst 32kb latency 400ms
    must tc qdisc add dev a0 parent 1:1 handle 10: red limit 4mb min 20kb max 60kb avpkt 4200 burst 20 probability 1 ecn bandwidth 30mbit
    start_engines 0 --bytes 1048576 --iterations 3 --warmup 1 --verify
    wait_engines || fail "all-reduce through a full queue"
    [ "$(wrong)" = 0 ] || fail "wrong elements"
    ce=$(statistic b0 rx_prio3_marked)
    [ "$ce" -gt 20 ] || { tc -s qdisc show dev a0; fail "only $ce packets came with CE"; }
    echo "$ce packets came with CE through a full queue, none wrong"
}
