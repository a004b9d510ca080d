#!/bin/sh
# The guest's first process: makes the machine usable, runs the suite that the kernel's command line names, and tells the
# emulator how that ended.
export PATH=/lab/bin:/bin:/sbin HOME=/root
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /dev/shm
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
# Into a folder of its own: a shell of busybox would prefer its own `ip`.
/bin/busybox --install -s /bin 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
ulimit -l unlimited
ulimit -c 0

# Tells how the suite ended, which ends the emulator; a status is at most 100.
finish() {
    [ "$1" -gt 100 ] && set -- 100
    printf "$(printf '\\%03o' "$1")" | dd of=/dev/port bs=1 seek=$((0x501)) 2>/dev/null
    # Only where the emulator has no such door.
    reboot -f
}

while read -r module; do
    insmod "/lab/modules/$module.ko" || { echo "module $module cannot be loaded"; finish 90; }
done < /lab/modules/order

suite=$(tr ' ' '\n' < /proc/cmdline | sed -n 's/^suite=//p')
echo "linux $(uname -r), up $(cut -d' ' -f1 /proc/uptime) s, suite $suite"
[ -f "/lab/suite-$suite.sh" ] || { echo "there is no suite $suite"; finish 91; }
sh "/lab/suite-$suite.sh" 2>&1
status=$?
echo "suite $suite ended with $status, up $(cut -d' ' -f1 /proc/uptime) s"
finish $status
