# Row E2: fifty rails cut in the middle of operations, half by a lost carrier, half silently, each mended and used again before
# the next; every element of every result is checked. What it cost is judged from the times of all operations, and of the cuts.
# Between them as many times a cable is cut over which nothing goes: what operations take longer then is the machine's doing.
. /lab/rails.sh
. /lab/engine.sh
make_rails
choose_rate 40 30 20 15 || fail "ib_write_bw or the engines ended badly while a rate was chosen"
must ip link add spare0 type veth peer name spare1
must ip addr add 10.99.0.1/24 dev spare0
must ip link set spare0 up
must ip link set spare1 up
start_engines "$RAILS" --bytes 262144 --warmup 5 --until /run/enough --verify --times
operations_begin "$RAILS"
busy_from

# A program that starts takes an emulated processor for as long as some operations last, and so does a shell within the shell. What cuts
# and mends is there before, and is told what to do by pipes; so is what tells the time.
mkfifo /run/ip /run/tc /run/ticks
ip -force -batch - < /run/ip > /dev/null &
tc -force -batch - < /run/tc > /dev/null &
exec 8> /run/ip 9> /run/tc
# ticks N: waits for N times 50 ms.
ticks() { ticks=$1; while [ "$ticks" -gt 0 ]; do read -r _ <&7; ticks=$((ticks - 1)); done; }
now() { read -r now _ < /proc/uptime; now=${now%.*}${now#*.}0; }
sent() { read -r sent < "/sys/class/infiniband/rxea$1/ports/1/hw_counters/sent_pkts"; }
down() { echo "link set $1 down" >&8; }
# up DEVICE FROM TO TABLE: with the link its routes went.
up() { printf 'link set %s up\nroute replace %s dev %s src %s table %s\n' "$1" "$3" "$1" "$2" "$4" >&8; }
loses() { echo "qdisc replace dev $1 root netem loss 100%" >&9; }
carries() { echo "qdisc replace dev $1 root netem rate ${rate}mbit limit 20000" >&9; }
# What was done once is quick the next time.
for _ in 1 2; do
    down spare0
    loses spare0
    sleep 0.5
    up spare0 10.99.0.1 10.99.0.2 1099
    carries spare0
    sleep 0.5
done
ping -n -i 0.05 127.0.0.1 > /run/ticks &
exec 7< /run/ticks
ticks 20

# The first cut of each kind is not counted: code that an emulator meets for the first time it has to translate.
turns=-3
cuts=-2
while [ $cuts -lt 50 ] && engines_run; do
    r=$((((cuts + 4) * 7 + cuts / 4) % 4))
    case $((cuts / 4 % 2)) in 0) end=a$r from=10.$r.0.1 to=10.$r.0.2 table=10$r ;; *) end=b$r from=10.$r.0.2 to=10.$r.0.1 table=20$r ;; esac
    now
    at=$now
    case $(((turns + 3) % 3)) in
        0) kind=carrier ;;
        1) kind=silent ;;
        *) kind=none end=spare0 from=10.99.0.1 to=10.99.0.2 table=1099 ;;
    esac
    if [ $kind = silent ]; then
        loses $end
        ticks 12
        carries $end
    else
        down $end
        ticks 12
        up $end $from $to $table
    fi
    now
    [ $cuts -lt 0 ] || echo "result {\"cut\":\"$kind\",\"end\":\"$end\",\"at_ms\":$at,\"mended_ms\":$now}"
    turns=$((turns + 1))
    if [ $kind != none ]; then
        cuts=$((cuts + 1))
        sent $r
        before=$sent
        tries=0
        # Used again, or for a while not: a rail that flaps is left alone for longer and longer.
        until sent $r && [ "$sent" -gt $((before + 100)) ] || [ $tries -ge 40 ]; do
            ticks 1
            tries=$((tries + 1))
        done
    fi
    ticks 14
done
engines_run || echo "the engines ended after $cuts cuts"
busy_since
enough_operations
errors=0
wait_engines || errors=1
echo "result {\"busy\":$busy,\"shaped\":$((4 * rate)),\"errors\":$errors}"
echo "result $(cat /run/engine0)"
[ $errors = 0 ] || fail "after $cuts cuts: an operation failed"
[ "$(wrong)" = 0 ] || fail "wrong elements"
[ "$cuts" -ge 50 ] || fail "only $cuts cuts while operations went on"
