# What the things of the table need: a tenant with a user, a queue, and jobs in every state.
railctl tenant create team --gpus 16
railctl tenant issue-cert ann --tenant team --out people --add-context ann
cat >team.yaml <<'Y'
apiVersion: rail/v1
kind: Queue
metadata: {name: night, tenant: team}
spec: {weight: 2}
---
apiVersion: rail/v1
kind: License
metadata: {name: matlab}
spec: {total: 4}
Y
railctl apply -f team.yaml
# Another tenant's.
job other 'echo'
railctl submit other.yaml
railctl config use ann

# It runs for as long as the bench does.
running long 'echo trouble >&2; exec sleep 100000' 'timeLimit: 86400s'
# It waits for tomorrow.
job waits 'echo tomorrow' "beginTime: $(date -u -d tomorrow +%FT%TZ)"
railctl submit waits.yaml
# These have ended: well, badly, badly twice, and four at once.
job done 'for n in 1 2 3 4 5 6 7 8 9; do echo "line $n"; done'
job failed 'echo "out of memory" >&2; exit 3'
job twice 'echo "this is try $RAIL_ATTEMPT"; exit 1' 'failure: {requeue: ON_ANY, maxRestarts: 1}'
job sweep 'echo "element $RAIL_ARRAY_INDEX"; exit "$RAIL_ARRAY_INDEX"' 'array: "0-1"'
for name in done failed twice sweep; do railctl submit "$name.yaml"; done
for name in failed twice; do in_phase "$name" FAILED; done
in_phase done COMPLETED
in_phase sweep-0 COMPLETED
in_phase sweep-1 FAILED
