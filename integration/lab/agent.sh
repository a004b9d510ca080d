# Steps of the suite `agent`: rail-node-agent on host A, over four Soft-RoCE rails and the lab's own NICs, with a controller that it tells.

CLUSTER=/run/controller
CONTROLLER=https://127.0.0.1:7443
# Of both hosts in one kernel only A's addresses: rails 0 to 3 are Soft-RoCE, 4 and 5 the lab's own NICs, whose counters are a driver's.
RULE='subnet:10.{k}.0.0/31'
DEVICES='rxea0 rxea1 rxea2 rxea3 nic0 nic2'

ctl() { railctl --controller $CONTROLLER --ca $CLUSTER/ca.pem --cert $CLUSTER/admin.pem --key $CLUSTER/admin.key "$@"; }

# patiently SECONDS COMMAND ...: until it holds; how long that was is in `took`, ms.
patiently() {
    since=$(now_ms)
    limit=$1
    shift
    until "$@"; do
        [ $(($(now_ms) - since)) -lt $((limit * 1000)) ] || return 1
        sleep 0.05
    done
    took=$(($(now_ms) - since))
}

# gid_at DEVICE ADDRESS: the index of the GID of RoCE v2 that an IPv4 address is.
gid_at() {
    gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(echo "$2" | tr . ' '))
    for file in "/sys/class/infiniband/$1/ports/1/gid_attrs/types/"*; do
        grep -q 'RoCE v2' "$file" 2> /dev/null && grep -qx "$gid" "/sys/class/infiniband/$1/ports/1/gids/${file##*/}" && echo "${file##*/}"
    done
}

# make_server [module parameters]: rails 0 to 5 of host A.
make_server() {
    make_nics "$@"
    make_rails
    must ip addr add 10.4.0.1/24 dev nic0
    must ip addr add 10.5.0.1/24 dev nic2
    # As after years: near the end of its bits, and far from 0.
    echo 18446744073709551610 > $LABNIC/nic2/rx_discards_phy
    echo 50 > $LABNIC/nic2/link_down_events_phy
}

start_cluster() {
    must rail-controller init --data-dir $CLUSTER 2> /run/init.log
    rail-controller run --data-dir $CLUSTER --listen 127.0.0.1:7443 > /run/controller.log 2>&1 &
    controller=$!
    patiently 60 test -s $CLUSTER/controller.json || { tail -n 5 /run/controller.log; fail "the controller does not start"; }
    ctl node token n1 -o json > /run/token || fail "no token"
}

# of_token FIELD
of_token() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" /run/token; }

start_agent() {
    rail-node-agent run --controller $CONTROLLER --node n1 --join-token "$(of_token token)" --ca-pin "$(of_token caPin)" \
        --data-dir $DATA --rails "$RULE" --metrics 127.0.0.1:9464 --no-cgroups --ranks-as-root --engine /lab/bin/rail-node-agent > /run/agent.log 2>&1 &
    agent=$!
    patiently 60 all_watched || { tail -n 5 /run/agent.log; fail "the agent does not watch all rails"; }
    echo "the agent has joined and watches six rails, $took ms after its start"
}

metrics() { wget -q -O - http://127.0.0.1:9464/metrics 2> /dev/null; }

# series NAME LABEL ...: the values of those that have these labels.
series() {
    metrics > /run/metrics || return 1
    grep "^rail_$1{" /run/metrics > /run/series
    shift
    for label in "$@"; do
        grep -F "$label" /run/series > /run/some
        mv /run/some /run/series
    done
    sed 's/.*} //' /run/series
}

all_watched() { [ "$(series nic_score | wc -l)" = 6 ]; }

# What is wrong, as "device condition" in order.
conditions() {
    metrics > /run/metrics || fail "the agent's metrics do not answer"
    sed -n 's/^rail_nic_condition{\(.*\)} .*/,\1/p' /run/metrics \
        | sed 's/.*,device="\([^"]*\)".*/\1 &/; s/^\([^ ]*\) .*,condition="\([^"]*\)".*/\1 \2/' | sort
}

is_wrong() { conditions | grep -qx "$1"; }

# looks N: so many looks of the agent at its counters have passed, and it has told of them.
looks() { sleep $(($1 + 5)); }

# nothing_wrong WHEN PATTERN: with NICs other than these.
nothing_wrong() {
    all_watched || fail "$1: the agent does not watch all rails"
    all=$(conditions | grep -vE "^($2)\$")
    [ -z "$all" ] || { metrics | grep '^rail_nic_[ce]'; fail "$1: $all"; }
}

# changed KIND MORE_THAN
changes() { metrics | sed -n "s/^rail_inventory_changes_total{change=\"$1\"} //p" | grep . || echo 0; }
changed() { [ "$(changes "$1")" -gt "$2" ]; }

# The NICs of an inventory, a line each and one for each GID: what a person reads there and what the system's tools say.
told_nics() {
    awk '
        function whole(gid,    dotted, quad, halves, left, right, i, text) {
            dotted = gid
            if (gid ~ /\./) {
                sub(/.*:/, "", dotted)
                split(dotted, quad, ".")
                sub(/[0-9]+\.[0-9.]*$/, sprintf("%02x%02x:%02x%02x", quad[1], quad[2], quad[3], quad[4]), gid)
            }
            split(gid, halves, "::")
            n = split(halves[1], left, ":")
            m = split(halves[2], right, ":")
            for (i = 1; i <= 8; i++) text = text ":" substr("0000" (i <= n ? left[i] : i > 8 - m ? right[i - 8 + m] : "0"), \
                length("0000" (i <= n ? left[i] : i > 8 - m ? right[i - 8 + m] : "0")) - 3)
            return substr(text, 2)
        }
        { gsub(/[",]/, ""); key = $1; value = $2 }
        key == "device:" { device = value }
        key == "netdev:" && !in_gids { netdev = value }
        key == "rail:" { rail = value }
        key == "address:" { address = value }
        key == "mtu:" { mtu = value }
        key == "speedMbps:" { speed = value }
        key == "up:" { up = value }
        key == "gidIndex:" { at = value }
        key == "driver:" { driver = value; state = "none" }
        key == "state:" { state = value }
        key == "gids:" { in_gids = 1 }
        in_gids && key == "index:" { index_ = value }
        in_gids && key == "gid:" { gid = whole(value) }
        in_gids && key == "type:" { print device, "gid", index_, gid, value }
        key == "railReason:" {
            in_gids = 0
            print device, "rail", rail, netdev, address, "mtu", mtu, "speed", speed, "up", up, state, "at", at, driver
        }' "$1" | sort
}

seen_nics() {
    for device in $DEVICES; do
        case $device in
            rxe*)
                netdev=$(rdma link show "$device/1" | sed -n 's/.* netdev //p' | tr -d ' ')
                state=$(rdma link show "$device/1" | sed -n 's/.* state \([A-Z]*\) .*/\1/p')
                driver=rdma_rxe
                speed=$(awk '{ print $1 * 1000 }' "/sys/class/infiniband/$device/ports/1/rate")
                for file in "/sys/class/infiniband/$device/ports/1/gid_attrs/types/"*; do
                    kind=$(cat "$file" 2> /dev/null) || continue
                    echo "$device gid ${file##*/} $(cat "/sys/class/infiniband/$device/ports/1/gids/${file##*/}") $kind"
                done | sed 's/RoCE v2$/ROCE_V2/; s/IB\/RoCE v1$/ROCE_V1/'
                ;;
            *) netdev=$device state=none driver=mlx5_core at=-1 speed=$(cat "/sys/class/net/$device/speed") ;;
        esac
        address=$(ip -o -4 addr show dev "$netdev" | sed -n 's/.* inet \(10\.[0-9.]*\).*/\1/p' | head -n 1)
        [ $state = none ] || at=$(gid_at "$device" "$address")
        link=$(ip -o link show dev "$netdev")
        up=false
        case $link in *LOWER_UP*) up=true ;; esac
        mtu=$(echo "$link" | sed -n 's/.* mtu \([0-9]*\).*/\1/p')
        rail=$(echo "$address" | cut -d. -f2)
        echo "$device rail $rail $netdev $address mtu $mtu speed $speed up $up $state at $at $driver"
    done | sort
}

inventory() {
    rail-node-agent inventory --rails "$RULE" > /run/inventory 2> /run/findings || fail "inventory"
    told_nics /run/inventory > /run/told
    seen_nics > /run/seen
    diff /run/seen /run/told || { cat /run/inventory; fail "the inventory is not what rdma, ip and sysfs say ($1)"; }
    echo "$1: $(grep -c ' rail ' /run/told) NICs and $(grep -c ' gid ' /run/told) GIDs as rdma, ip and sysfs say"
}

# What the agent hears of, and how soon: a poll would see it up to half a minute later.
moved_gid() {
    before=$(gid_at rxea0 10.0.0.1) many=$(changes NicGidIndex)
    # The address takes the first entry that is free, which is another one by then.
    must ip addr add 192.0.2.1/32 dev a0
    must ip addr del 10.0.0.1/24 dev a0
    must ip addr add 192.0.2.2/32 dev a0
    must ip addr add 10.0.0.1/24 dev a0
    routes 0
    after=$(gid_at rxea0 10.0.0.1)
    [ "$after" != "$before" ] || fail "the GID is still at $before"
    patiently 20 changed NicGidIndex "$many" || fail "the agent does not hear that a GID moved"
    echo "the GID of rail 0 moved from $before to $after: heard after $took ms"
    inventory "with a GID elsewhere"
}

lost_link() {
    many=$(changes NicDown)
    link_down b1
    patiently 20 changed NicDown "$many" || fail "the agent does not hear that a link went down"
    down=$took
    patiently 20 is_wrong 'rxea1 LinkDown' || fail "a link that is down is not wrong"
    [ "$(series nic_unfit 'device="rxea1"')" = 1 ] || fail "a rail that is down is fit for jobs"
    inventory "with a link down"
    many=$(changes NicUp)
    link_up b1
    patiently 20 changed NicUp "$many" || fail "the agent does not hear that a link came up"
    echo "rail 1 lost and back: heard after $down and $took ms"
}

# What counters do that means nothing.
false_alarms() {
    expected='rxea1 (LinkDown|Flapping)'
    nic=$LABNIC/nic2
    echo 3 > $nic/rx_discards_phy
    looks 2
    nothing_wrong "a counter of 64 bits went round" "$expected"
    echo 24 > $nic/told
    looks 3
    echo 900000000 > $nic/rx_prio3_pause_duration
    echo 59 > $nic/told
    looks 3
    nothing_wrong "counters were away, and are back, one far ahead" "$expected"
    must ip link set nic2 name up5
    patiently 20 changed NicAdded 0 || fail "the agent does not see a NIC renamed"
    looks 3
    nothing_wrong "a NIC was renamed" "$expected"
    must rmmod labnic
    must insmod /lab/labnic.ko
    must ip link set nic0 up
    must ip link set nic1 up
    must ip link set nic2 up
    must ip link set nic3 up
    must ip addr add 10.4.0.1/24 dev nic0
    must ip addr add 10.5.0.1/24 dev nic2
    looks 5
    # That long away is Gone, and over only once it has lasted; a counter that began again is nothing.
    nothing_wrong "a driver was loaded anew" "$expected|nic[02] Gone"
    patiently 90 eval '! conditions | grep -q Gone' || { conditions; fail "a NIC that is back stays Gone"; }
    echo "no alarm for counters that went round, were away, began again, nor for a NIC renamed"
}

# What the lab's driver and Soft-RoCE count, as the agent tells it.
found() {
    echo 8 > $LABNIC/nic0/storm
    patiently 30 is_wrong 'nic0 Storm' || fail "a storm of pauses is not found"
    [ "$(series nic_unfit 'device="nic0"')" = 1 ] || fail "a rail in a storm is fit for jobs"
    echo "a storm of pauses on rail 4: found after $took ms"

    must tc qdisc replace dev a2 root netem loss 3%
    ib_write_bw -d rxeb2 -x "$(gid_at rxeb2 10.2.0.2)" -p 18520 -s 16384 -n 200 -t 16 > /run/server 2>&1 &
    server=$!
    listens 18520
    ib_write_bw -d rxea2 -x "$(gid_at rxea2 10.2.0.1)" -p 18520 -s 16384 -n 200 -t 16 10.2.0.2 > /run/client 2>&1 \
        || { tail -n 2 /run/client; fail "RDMA writes with loss"; }
    wait $server
    must tc qdisc del dev a2 root
    looks 2
    lost=0
    for pair in loss_out:rcvd_seq_err timeout:completer_retry_err loss_back:duplicate_request dead_qp:retry_exceeded_err; do
        told=$(series nic_events_total 'device="rxea2"' "event=\"${pair%%:*}\"")
        counted=$(cat "/sys/class/infiniband/rxea2/ports/1/hw_counters/${pair#*:}")
        [ "$told" = "$counted" ] || fail "$pair: the agent tells $told, Soft-RoCE counts $counted"
        lost=$((lost + counted))
    done
    [ $lost -gt 0 ] || fail "Soft-RoCE counts no loss where 3 % are lost"
    echo "loss on rail 2: $lost events of Soft-RoCE's hw_counters told as they are"
    nothing_wrong "at the end" 'rxea1 (LinkDown|Flapping)|rxea2 .*|nic0 Storm'
}

# The controller knows it too.
told() {
    patiently 30 eval 'ctl describe node n1 > /run/node 2>&1 && grep -q Storm /run/node' \
        || { cat /run/node; tail -n 3 /run/controller.log; fail "the controller is not told of the storm"; }
    grep Storm /run/node
    ctl health
}
