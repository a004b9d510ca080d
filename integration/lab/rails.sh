# Functions for suites: four rails between the hosts A and B, which share one kernel.
#
# Rail R is a cable (veth) from aR to bR, with a Soft-RoCE device rxeaR and rxebR on its ends. Soft-RoCE knows the first
# network namespace only, so that both hosts live in it, and rules by the interface and the source address send packets over
# the cable that would otherwise take the shortest way, through the kernel.

RAILS="0 1 2 3"

fail() { echo "FAILED: $*"; exit 1; }
must() { "$@" || fail "$*"; }

# The routes of a rail's two ends; they go when a link goes down, and are put back by the same.
routes() {
    ip route replace "10.$1.0.2" dev "a$1" src "10.$1.0.1" table "10$1" 2>/dev/null
    ip route replace "10.$1.0.1" dev "b$1" src "10.$1.0.2" table "20$1" 2>/dev/null
}

# Both hosts in one kernel: what every rail needs before it is made.
make_hosts() {
    for key in net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
        net.ipv4.conf.all.accept_local=1 net.ipv4.conf.default.accept_local=1 \
        net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 \
        net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1; do
        sysctl -q -w "$key" 2>/dev/null
    done
    must ip link set lo up
    # The rules below come before the table of the machine's own addresses.
    must ip rule add pref 300 lookup local
    must ip rule del pref 0
}

# make_rail R: addresses, routes and RDMA devices of a cable that is there.
make_rail() {
    must ip addr add "10.$1.0.1/24" dev "a$1"
    must ip addr add "10.$1.0.2/24" dev "b$1"
    must ip link set "a$1" up
    must ip link set "b$1" up
    # A cable hands a packet to whichever processor sent it, and two of them overtake each other; one processor for each end keeps
    # them in order, as a NIC's queue does.
    for end in a b; do echo $((1 + $1 % 2)) > "/sys/class/net/$end$1/queues/rx-0/rps_cpus" || fail "rail $1 has no queue"; done
    routes "$1"
    must ip rule add pref "10$1" oif "a$1" lookup "10$1"
    must ip rule add pref "20$1" oif "b$1" lookup "20$1"
    must ip rule add pref "11$1" from "10.$1.0.1" iif lo lookup "10$1"
    must ip rule add pref "21$1" from "10.$1.0.2" iif lo lookup "20$1"
    must rdma link add "rxea$1" type rxe netdev "a$1"
    must rdma link add "rxeb$1" type rxe netdev "b$1"
    # The first packet of a rail waits a second for the hardware address; let it be this one.
    ping -c 1 -W 2 -I "a$1" "10.$1.0.2" > /dev/null || fail "rail $1 does not answer"
}

make_rails() {
    make_hosts
    for r in $RAILS; do
        must ip link add "a$r" mtu 4200 type veth peer name "b$r" mtu 4200
        make_rail "$r"
    done
}

# shape RATE [netem options]: both ends of every rail.
shape() {
    shaped=$1
    shift
    for r in $RAILS; do
        for end in a b; do
            must tc qdisc replace dev "$end$r" root netem rate "$shaped" limit 20000 "$@"
        done
    done
}

link_down() { must ip link set "$1" down; }

link_up() {
    must ip link set "$1" up
    routes "${1#?}"
}

# index DEVICE: of its GID that is RoCE v2 and the IPv4 address of its interface; never the same on two kernels.
gid_index() {
    for file in "/sys/class/infiniband/$1/ports/1/gid_attrs/types/"*; do
        at=${file##*/}
        grep -q 'RoCE v2' "$file" 2>/dev/null || continue
        grep -q '^0000:0000:0000:0000:0000:ffff:' "/sys/class/infiniband/$1/ports/1/gids/$at" || continue
        echo "$at"
        return 0
    done
    return 1
}

sent_packets() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"; }

# listens PORT: waits until somebody listens there.
listens() {
    tries=0
    until ss -Hltn "sport = :$1" | grep -q .; do
        tries=$((tries + 1))
        [ $tries -le 200 ] || fail "nobody listens on port $1"
        sleep 0.05
    done
}

# port_becomes DEVICE STATE
port_becomes() {
    tries=0
    until grep -q "$2" "/sys/class/infiniband/$1/ports/1/state"; do
        tries=$((tries + 1))
        [ $tries -le 100 ] || return 1
        sleep 0.05
    done
}

# sum_of_write_bw BYTES ITERATIONS: RDMA writes on all rails at once, from A to B; the sum, in Mbit/s, is in `sum`.
sum_of_write_bw() {
    clients=
    for r in $RAILS; do
        ib_write_bw -d "rxeb$r" -x "$(gid_index "rxeb$r")" -p "1850$r" -s "$1" -n "$2" -t 16 --report_gbits > "/run/server$r" 2>&1 &
    done
    for r in $RAILS; do listens "1850$r"; done
    for r in $RAILS; do
        ib_write_bw -d "rxea$r" -x "$(gid_index "rxea$r")" -p "1850$r" -s "$1" -n "$2" -t 16 --report_gbits \
            "10.$r.0.2" > "/run/client$r" 2>&1 &
        clients="$clients $!"
    done
    for pid in $clients; do wait "$pid" || { tail -n 2 /run/client*; return 1; }; done
    wait
    sum=$(awk -v bytes="$1" '$1 == bytes { sum += $4; n++ } END { if (n == 4) printf "%.1f", sum * 1000; else exit 1 }' \
        /run/client0 /run/client1 /run/client2 /run/client3) || { tail -n 2 /run/client*; return 1; }
}

# now_ms: milliseconds since the machine began, by the clock that engines tell times of (its steps are ten of them).
now_ms() { cut -d' ' -f1 /proc/uptime | tr -d . | sed 's/$/0/; s/^0*\(.\)/\1/'; }

idle_ticks() { awk '/^cpu /{print $5}' /proc/stat; }

# busy_from begins to count; busy_since says in `busy` how many of the two processors were busy since.
busy_from() {
    busy_idle=$(idle_ticks)
    busy_start=$(now_ms)
}
busy_since() {
    busy=$(awk -v idle=$(($(idle_ticks) - busy_idle)) -v ms=$(($(now_ms) - busy_start)) \
        'BEGIN { busy = 2 - idle * 10 / ms; printf "%.2f", busy < 0 ? 0 : busy }')
}
