#!/bin/sh
# What `cargo xtask lab image` runs in the image's own file tree, which nobody can write to, with the image's own shell. `controller`: as the chart's pod
# of a controller, without rights; a test of the chart holds that commands are the chart's own. `agent`: as root, as pods of agents are.
set -eu
export HOME=/tmp PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

step() { echo "$*"; }
fail() {
    echo "wrong: $*" >&2
    tail -n 30 /tmp/*.log >&2 || true
    exit 1
}

# Waits for something, two minutes at most.
await() {
    tries=0
    until "$@" > /tmp/await.log 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 120 ] || fail "never came true: $*"
        sleep 1
    done
}

# As the container `authority` of a pod.
authority() (
    umask 077
    from=/etc/railyard/authority
    mkdir -p /var/lib/rail-controller/state
    cd /var/lib/rail-controller/state
    # Of a change of the authority that is on its way. A folder that has ca.pem, which comes last, goes on by itself.
    for file in ca.next.key ca.old.key ca.cross.pem ca.retired.pem; do
      if [ -e "$from/$file" ] && ! [ -e ca.pem ]; then cp "$from/$file" "$file.new" && mv "$file.new" "$file"; fi
    done
    for file in ca.key store.keys ca.pem; do
      [ -e "$file" ] || { cp "$from/$file" "$file.new" && mv "$file.new" "$file"; }
    done
)

controller() {
    [ "$(id -u)" = 65532 ] || fail "not the user of the pod"
    step "every program runs"
    for program in rail-controller rail-node-agent rail-engine rail-dra-driver rail-operator railctl; do
        $program --version || fail "$program"
    done
    # It is for the agent alone, and says so.
    rail-rank 2> /tmp/rank.log && fail "rail-rank"
    grep -q 'started by rail-node-agent' /tmp/rank.log || fail "rail-rank"
    step "an authority is taken from a Secret"
    rail-controller init --data-dir /tmp/authority --admin-out /tmp/first > /tmp/init.log 2>&1 || fail "init"
    for file in ca.pem ca.key store.keys; do cp "/tmp/authority/$file" /etc/railyard/authority/; done
    authority || fail "authority"
    step "the controller, as its pod starts it"
    rail-controller run \
        --data-dir=/var/lib/rail-controller/state \
        --cluster=rail \
        --store=embedded \
        --listen=0.0.0.0:7443 \
        --metrics=127.0.0.1:7444 \
        --server-name=railyard-controller \
        --server-name=railyard-controller.railyard \
        --server-name=railyard-controller.railyard.svc \
        --server-name=railyard-controller.railyard.svc.cluster.local \
        --log-level=info \
        --log-format=json > /tmp/controller.log 2>&1 &
    pid=$!
    await rail-controller probe --metrics=127.0.0.1:7444 live
    await rail-controller probe --metrics=127.0.0.1:7444 ready
    step "the first administrator, as the chart's notes say"
    rail-controller init --data-dir /var/lib/rail-controller/state --admin-out /tmp/admin > /tmp/init.log 2>&1 || fail "init"
    mkdir -m 700 /tmp/mine
    for file in ca.pem admin.pem admin.key; do cat "/tmp/admin/$file" > "/tmp/mine/$file"; done
    rm -r /tmp/admin
    cmp /tmp/mine/ca.pem /tmp/authority/ca.pem || fail "it has another authority than the Secret's"
    railctl login rail --controller https://127.0.0.1:7443 --ca /tmp/mine/ca.pem --cert /tmp/mine/admin.pem --key /tmp/mine/admin.key ||
        fail "login"
    railctl get nodes || fail "get nodes"
    step "it ends when it is told to"
    kill $pid
    wait $pid || fail "the controller ended with $?"
}

agent() {
    [ "$(id -u)" = 0 ] || fail "not root"
    step "every program and library finds its libraries"
    loader=
    for path in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.*; do [ ! -e "$path" ] || loader=$path; done
    checked=0
    for file in $(find /usr -xdev -type f); do
        [ "$(od -A n -t x1 -N 4 "$file")" = " 7f 45 4c 46" ] || continue
        "$loader" --list "$file" > /tmp/libraries.log 2>&1 || grep -q 'statically linked' /tmp/libraries.log || fail "$file"
        if grep 'not found' /tmp/libraries.log; then fail "$file"; fi
        checked=$((checked + 1))
    done
    step "$checked of them"
    [ $checked -gt 20 ] || fail "too few"
    step "every name of busybox is one of its applets"
    for file in /usr/bin/*; do
        [ "$(readlink "$file" || true)" != busybox ] || /usr/bin/busybox --list | grep -qxF "${file##*/}" || fail "$file"
    done
    step "what an agent asks is there"
    getent passwd root rail || fail "accounts"
    id -G rail || fail "id"
    rail-node-agent isolation --rank-uids 200000-265535 > /tmp/isolation.log 2>&1 || fail "isolation"
    grep -c 'BEGIN CERTIFICATE' /etc/ssl/certs/ca-certificates.crt || fail "no authorities"
}

"$1"
step "done"
