# Class of service of NICs by the real kernel: one of each kind.
. /lab/rails.sh
. /lab/engine.sh
. /lab/nics.sh
. /lab/qos.sh
mounted debugfs /sys/kernel/debug
mounted configfs /sys/kernel/config
planned
drifts 3
refused
pulled 20
exit 0
