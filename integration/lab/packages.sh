#!/bin/bash
# What `cargo xtask lab packages` runs in a clean root of Debian that has no systemd running and no network but its own loopback: packages of
# revision 1 in /trial/1 are installed and used, revision 2 in /trial/2 takes their place, all of it is removed and purged, and nothing may be left.
# Services are started as their units say: command, user, state, variables, capabilities. Prints `seconds: N`, from install to verified job.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
UNITS=/usr/lib/systemd/system
URL=https://127.0.0.1:7443
cd /root

step() { echo "$*"; }
fail() {
    echo "wrong: $*" >&2
    tail -n 30 /trial/*.log >&2 || true
    exit 1
}

# Waits for something, thirty seconds at most.
await() {
    for _ in $(seq 300); do
        "$@" > /dev/null 2>&1 && return
        sleep 0.1
    done
    fail "never came true: $*"
}

# Every file with kind, permissions and owner, and every account; but for what apt, dpkg and shadow's tools remember of what they did.
listing() {
    find / -xdev \( -path /trial -o -path /root -o -path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path '/var/lib/dpkg/*-old' \
        -o -path '/etc/*-' -o -path /proc -o -path /sys -o -path /dev \) -prune -o -printf '%y %m %u:%g %p %l\n' | sort
    cat /etc/passwd /etc/group /etc/shadow /etc/gshadow /etc/subuid /etc/subgid 2> /dev/null || true
}

setting() { sed -n "s/^$2=//p" "$UNITS/$1"; }

# Becomes the program of a unit, as systemd would.
exec_unit() {
    local unit=$1 state line command user capability bounds=-all
    state=/var/lib/$(setting "$unit" StateDirectory)
    user=$(setting "$unit" User)
    user=${user:-root}
    install -d -m "$(setting "$unit" StateDirectoryMode)" -o "$user" -g "$user" "$state"
    set -a
    while read -r line; do
        eval "${line//%l/$(hostname -s)}"
    done < <(setting "$unit" Environment)
    line=$(setting "$unit" EnvironmentFile)
    # shellcheck disable=SC1090
    . "${line#-}"
    set +a
    command=$(setting "$unit" ExecStart)
    command=${command//'${STATE_DIRECTORY}'/$state}
    for capability in $(setting "$unit" CapabilityBoundingSet | tr 'A-Z' 'a-z'); do
        bounds+=,+${capability#cap_}
    done
    line=$(setting "$unit" UMask)
    umask "${line:-0022}"
    # shellcheck disable=SC2086
    exec setpriv --reuid "$user" --regid "$user" --init-groups --inh-caps=-all --bounding-set="$bounds" --no-new-privs $command
}

start() {
    exec_unit "$1" > "/trial/$1.log" 2>&1 &
    echo $! > "/trial/$1.pid"
}

stop() {
    kill "$(cat "/trial/$1.pid")"
    wait "$(cat "/trial/$1.pid")" || true
}

apt() { apt-get --yes --quiet "$@" > /trial/apt.log 2>&1 || fail "apt-get $*"; }

# Lists of accounts are there on any machine that has ever had a user.
touch /etc/subuid /etc/subgid
listing > /trial/before

step "install"
begun=$(date +%s.%N)
apt install /trial/1/*.deb
step "start the controller"
echo RAIL_CONTROLLER_SERVER_NAME=127.0.0.1 >> /etc/railyard/controller.env
rail-controller init --data-dir /var/lib/rail-controller --admin-out admin > /trial/init.log 2>&1 || fail "init"
chown -R rail: /var/lib/rail-controller
start rail-controller.service
await test -e /var/lib/rail-controller/controller.json
await railctl login rail --controller $URL --ca admin/ca.pem --cert admin/admin.pem --key admin/admin.key
step "enrol a server"
railctl node token n0 > join
{
    echo RAIL_CONTROLLER=$URL
    awk '$1 == "token" { print "RAIL_JOIN_TOKEN=" $2 } $1 == "ca-pin" { print "RAIL_CA_PIN=" $2 }' join
} >> /etc/railyard/agent.env
start rail-node-agent.service
await railctl get node n0
railctl wait node n0 --for ready --timeout 60s > /dev/null || fail "n0 is not ready"
railctl get nodes -o wide
step "the first job"
railctl tenant create nlp --gpus 8 > /dev/null
railctl tenant issue-cert ann --tenant nlp --role user --out ann --add-context ann > /dev/null
cat > hello.yaml << 'EOF'
apiVersion: rail/v1
kind: Job
metadata: {name: hello}
spec:
  gang: {nodes: 1, gpusPerNode: 0, ranksPerNode: 2}
  rails: {none: true}
  timeLimit: 5m
  command:
    argv: [sh, -c, "echo rank $RANK of $WORLD_SIZE as uid $(id -u)"]
EOF
railctl --context ann submit hello.yaml --wait --timeout 2m || fail "the job"
railctl --context ann logs hello > logs
# Each rank has run, as a user of the range that the package has entered.
for rank in 0 1; do
    grep -Eq "rank $rank of 2 as uid 2[0-9]{5}\$" logs || fail "rank $rank: $(cat logs)"
done
echo "seconds: $(echo "$(date +%s.%N) $begun" | awk '{ printf "%.1f", $1 - $2 }')"
grep -q '^railyard:200000:65536$' /etc/subuid || fail "no range in /etc/subuid"
rail-node-agent isolation --rank-uids 200000-265535 > /trial/isolation || fail "isolation"

step "upgrade under it"
systemctl --quiet enable rail-controller rail-node-agent
apt install /trial/2/*.deb
[ "$(dpkg-query -W -f '${Version}' railyard-controller)" = "$(dpkg-deb -f /trial/2/railyard-controller_*.deb Version)" ] || fail "not upgraded"
grep -q RAIL_JOIN_TOKEN /etc/railyard/agent.env || fail "the upgrade has taken a setting"
railctl get nodes | grep -q n0 || fail "the controller that ran is gone"
stop rail-node-agent.service
stop rail-controller.service
start rail-controller.service
start rail-node-agent.service
await railctl wait node n0 --for ready --timeout 1s
railctl get nodes | grep -q n0 || fail "the upgraded controller has lost n0"
railctl --context ann logs hello | grep -q 'rank 1 of 2' || fail "the job's output is lost"

step "remove"
stop rail-node-agent.service
stop rail-controller.service
apt remove railyard-controller railyard-agent railyard-cli railyard-switch-agent railyard-slurm
[ ! -e /usr/bin/railctl ] && [ ! -e /usr/lib/railyard ] || fail "programs are left"
[ -e /var/lib/rail-controller/ca.pem ] && [ -e /etc/railyard/agent.env ] || fail "state or settings went without a purge"
[ -z "$(find /etc/systemd -name 'rail*')" ] || fail "it would still start with the machine"
step "purge"
apt purge railyard-controller railyard-agent railyard-cli railyard-switch-agent railyard-slurm
listing > /trial/after
diff /trial/before /trial/after > /trial/left || fail "left, or lost: $(cat /trial/left)"
step "nothing is left"
