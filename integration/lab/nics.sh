# Functions for suites with the lab's own NICs (labnic): nic0 and nic1 on one cable, nic2 and nic3 on another.

DATA=/run/agent
LABNIC=/sys/kernel/debug/labnic

# make_nics [module parameters]: anew, as a NIC is before anybody sets it; nothing was applied to it yet.
make_nics() {
    grep -q '^labnic ' /proc/modules && must rmmod labnic
    must insmod /lab/labnic.ko "$@"
    for nic in nic0 nic1 nic2 nic3; do must ip link set "$nic" up; done
    rm -rf $DATA
    mkdir $DATA
}

mounted() { grep -q " $2 " /proc/mounts || must mount -t "$1" none "$2"; }

# qos ACTION ...: what it says is in /run/said; gives its exit status.
qos() { rail-node-agent qos --data-dir $DATA "$@" > /run/said 2>&1 < /dev/null; }

# expect STATUS WORDS ACTION ...: the agent exits so and says these words.
expect() {
    wanted=$1 words=$2
    shift 2
    qos "$@"
    status=$?
    [ $status = "$wanted" ] || { cat /run/said; fail "qos $* exits with $status, not $wanted"; }
    grep -q -- "$words" /run/said || { cat /run/said; fail "qos $* does not say '$words'"; }
}

# state NIC: all of it, as `dcb`, `ethtool` and the kernel's files tell it.
state() {
    for object in pfc ets maxrate buffer app dcbx; do dcb -j $object show dev "$1" || return 1; done
    ethtool -a "$1" | tr '\n' ' '
    cat "/sys/class/net/$1/mtu"
}

# is NIC STATE WHAT: fails unless the NIC is so.
is() { [ "$(state "$1")" = "$2" ] || { state "$1"; echo "wanted: $2"; fail "$3"; }; }

# soon_is NIC STATE MS: waits so long at most; how long it took is in `took`.
soon_is() {
    since=$(now_ms)
    until [ "$(state "$1" 2>/dev/null)" = "$2" ]; do
        [ $(($(now_ms) - since)) -lt "$3" ] || return 1
        sleep 0.02
    done
    took=$(($(now_ms) - since))
}

# What the default profile is in the words of `dcb` and `ethtool` (iproute2 6.1). The class that is strict reports 100 %, as mlx5's do.
PFC='{"pfc_cap":8,"macsec_bypass":false,"delay":40,"prio_pfc":[false,false,false,true,false,false,false,false]}'
ETS='"tc_bw":[50,0,0,50,0,0,100,0],"pg_bw":[0,0,0,0,0,0,0,0],"tc_tsa":["ets","ets","ets","ets","ets","ets","strict","ets"],"prio_tc":[0,0,0,3,0,0,6,0]'
APP="{\"dscp_prio\":[$(seq 0 63 | awk '{ printf "%s[%d,%d]", (NR == 1 ? "" : ","), $1, int($1 / 8) }')]}"
DCBX='{"host":true,"cee":true,"ieee":true}'

# looks_right NIC: as the default profile says, in the words of those tools.
looks_right() {
    [ "$(dcb -j pfc show dev "$1")" = "$PFC" ] || fail "dcb says of $1: $(dcb -j pfc show dev "$1")"
    dcb -j ets show dev "$1" | grep -qF "$ETS" || fail "dcb says of $1: $(dcb -j ets show dev "$1")"
    [ "$(dcb -j app show dev "$1")" = "$APP" ] || fail "dcb says of $1: $(dcb -j app show dev "$1")"
    [ "$(dcb -j dcbx show dev "$1")" = "$DCBX" ] || fail "dcb says of $1: $(dcb -j dcbx show dev "$1")"
    ethtool -a "$1" | grep -q 'RX:.*on\|TX:.*on' && fail "ethtool says that $1 has global pause"
    [ "$(cat "/sys/class/net/$1/mtu")" = 9000 ] || fail "the MTU of $1 is $(cat "/sys/class/net/$1/mtu")"
}
