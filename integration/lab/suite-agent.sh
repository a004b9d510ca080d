# The agent on a server by the real kernel: what it says of it, hears, counts and keeps.
. /lab/rails.sh
. /lab/nics.sh
. /lab/qos.sh
. /lab/agent.sh
mounted debugfs /sys/kernel/debug
mounted configfs /sys/kernel/config
kept
make_server
inventory "at first"
start_cluster
start_agent
looks 2
nothing_wrong "nothing has happened" none
moved_gid
lost_link
false_alarms
found
told
kill $agent
wait $agent
kill $controller
exit 0
