# Class of service of NICs by the real kernel, all of it.
. /lab/rails.sh
. /lab/engine.sh
. /lab/nics.sh
. /lab/qos.sh
mounted debugfs /sys/kernel/debug
mounted configfs /sys/kernel/config
planned
drifts 100
more
trial
refused
# At the first change, among the entries of the map, at ETS, and at PFC.
for change in 1 20 66 67; do pulled $change; done
wire
exit 0
