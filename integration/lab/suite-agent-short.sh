# The agent on a server by the real kernel: what it says of it, and that it keeps class of service.
. /lab/rails.sh
. /lab/nics.sh
. /lab/qos.sh
. /lab/agent.sh
mounted debugfs /sys/kernel/debug
mounted configfs /sys/kernel/config
kept
make_server
inventory "at first"
exit 0
