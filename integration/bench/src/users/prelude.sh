# What scripts of the table may call.

# The cluster's administrator; railctl itself is ann, a user of tenant `team`.
admin() { railctl --context "$ADMIN" --tenant team "$@"; }

# job NAME SCRIPT [LINE OF SPEC]...: a job file NAME.yaml, of one node and one GPU where no line says otherwise.
job() {
  local name=$1 script=$2
  shift 2
  {
    printf 'apiVersion: rail/v1\nkind: Job\nmetadata: {name: %s}\nspec:\n' "$name"
    [[ " $*" == *' gang:'* || " $*" == *' components:'* ]] || printf '  gang: {nodes: 1, gpusPerNode: 1}\n'
    [[ " $*" == *' rails:'* || " $*" == *' components:'* || " $*" == *'nodes: '[2-9]* ]] || printf '  rails: {none: true}\n'
    [[ " $*" == *' timeLimit:'* ]] || printf '  timeLimit: 600s\n'
    for line in "$@"; do printf '  %s\n' "$line"; done
    printf '  command:\n    argv:\n    - sh\n    - -c\n    - |\n'
    sed 's/^/      /' <<<"$script"
  } >"$name.yaml"
}

# soon COMMAND...: again and again until it succeeds; the script's own time limit ends what never comes.
soon() { until "$@" 2>/dev/null; do sleep 0.02; done; }

# says TEXT COMMAND...: whether the command prints the text, however it ends.
says() {
  local text=$1 said
  shift
  said=$("$@" 2>&1) || true
  [[ $said == *"$text"* ]]
}

# refused COMMAND...: whether it fails, as it must. (What `set -e` makes of `! COMMAND` is nothing.)
refused() {
  if "$@"; then
    echo "this should have failed: $*" >&2
    return 1
  fi
}

# in_phase JOB PHASE: until it is so.
in_phase() { soon says "\"phase\": \"$2\"" railctl get jobs "$1" -o json; }

# running NAME SCRIPT [LINE OF SPEC]...: a job that has written the word `begun`.
running() {
  local name=$1 script=$2
  shift 2
  job "$name" "echo begun; $script" "$@"
  railctl submit "$name.yaml" >&2
  soon says begun railctl logs "$name"
}

# gone JOB...: ended and deleted, whatever they were.
gone() {
  for name in "$@"; do
    admin cancel "$name" --grace 1s --wait >&2 || true
    admin delete job "$name" >&2 || true
  done
}

# of_context FIELD: what the context in use says.
of_context() {
  local name
  name=$(sed -nE 's/^currentContext: "?([^"]*)"?$/\1/p' "$RAIL_CONFIG")
  awk -v name="\"$name\":" '$1 == name {on = 1; next} /^  "/ {on = 0} on' "$RAIL_CONFIG" | sed -nE "s/^ *$1: *//p" | tr -d '[]"'
}

# rest ARGUMENT...: curl with the credentials of the context in use; rest_at: where the API is.
rest() { curl -s --cacert "$(of_context ca)" --cert "$(of_context cert)" --key "$(of_context key)" "$@"; }
rest_at() { of_context controller | tr ', ' '\n\n' | grep -m 1 '^https:'; }
