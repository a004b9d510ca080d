"""Runs schemathesis against the controller's OpenAPI document: what the document allows must be taken, what it does not allow must be
refused, and every answer must be one that it describes.

Run by rest.rs; the environment says where the controller is and whose certificate opens it. Schemathesis loads this file as its hooks.
RAIL_TEST_SEED draws other cases than those of every run (7), and RAIL_TEST_SECONDS searches longer than 30 seconds: how far a run of the
tests gets depends on the machine, so that a new row of BEYOND is worth an hour of both.
"""

import datetime
import json
import os
import re
import ssl
import subprocess
import sys

# Refusals of what the document allows, that no JSON Schema says: the field, the message, and why not.
BEYOND = [
    # One field depends on another one of the same request.
    (r"uid", r"is required with force", "depends on force"),
    (r"tenant", r"is required for this role|an administrator belongs to no tenant", "depends on role"),
    (r"metadata\.tenant|tenant", r"administrator|is required|name the tenant", "depends on who calls"),
    (r"metadata\.name", r"is required, or metadata\.generateName", "one of two"),
    (r"priority", r"give a priority, a time limit", "one of several"),
    (r"name", r"is not allowed|must be a fabric's|characters; at most", "depends on kind"),
    (r"noTimeLimit|minNodes|nodes|priority|queue", r"goes without|of a job|several|at least|more than", "depends on what else is asked"),
    (r"name|array", r"is another question|ask one of them", "one of two"),
    (r"spec\.(labels|taints)", r"is not changed unless", "depends on parts"),
    (r"spec\.(patience|fullDelayGpuHours)", r"is for objective", "depends on objective"),
    (r"spec\.limit", r"is less than", "depends on guaranteed"),
    (r"spec\.parent", r"is the queue itself", "depends on the name"),
    (r"spec\.quota\.guaranteed\.gpus", r"are more than the quota", "depends on gpus"),
    (r"spec\.(nodes|count|podsAtMost|tenants)", r"name the nodes|give either|goes with|no job runs|whose jobs", "one of several"),
    (r"spec\.job\.(priority|timeLimit)\w+", r"is more than|is not from|is longer than", "depends on the other bound"),
    (r"spec\.preemption\.gracePeriod", r"is longer than", "depends on job.gracePeriodMax"),
    (r"spec\.start", r"is in the past|would be over already", "depends on the time"),
    (r"data", r"is new, and there are no values", "depends on what is there"),
    (r"soak", r"must be less than confirmWithin", "depends on confirmWithin"),
    (r".*spec\.url", r"is http, so", "depends on allowInsecure"),
    (r".*spec\.(beginTime|startBefore|deadline)", r"is one moment", "templates have no moments"),
    (r".*(gang|components|rails|placement|failure|preemption|collective|expectedDuration|deadline|startBefore|after|array|allocation)\b.*", r"", "parts of a job that contradict each other"),
    (r".*(command|allocation)\.(argv|env\w*).*", r"must name a program|is too large|is required", "depends on all of it"),
    (r"spec\.asic", r"is required on|must be empty on", "depends on nos"),
    # A language of its own.
    (r"spec\.asic", r"there is no ASIC", "names of a table"),
    (r"spec\.loopback", r"", "addresses that an interface can have"),
    (r"spec\.management\.endpoint", r"must be HOST:PORT", "a host and a port"),
    (r".*spec\.cron", r"", "cron"),
    (r".*spec\.timeZone", r"time zone|zone", "names of a database"),
    (r".*spec\.url", r"", "URLs"),
    (r".*spec\.secret", r"is not `whsec_`", "bytes in base64"),
    (r".*spec\.(exclude|nodes).*|elements", r"", "lists of names and of elements"),
    (r"spec\.\w+\[\d+\].*|spec\.rails.*|spec.*", r"rail|leaf|node|list|cable|switch|name|pod|twice|spine|NIC|is required", "fabrics hang together"),
    (r"\w+(/.*)?", r"^[A-Z]\w+: ", "fabrics hang together"),
    (r"document", r"", "profiles of class of service are documents themselves"),
    (r"csrPem", r"", "certificate requests"),
    # The last line of a long list of violations, which says how many were left out of it; it never stands alone.
    (r"", r"^and \d+ more$", "a count"),
    # What only the controller can make.
    (r"pageToken", r"", "sealed by the controller"),
    (r"(metadata\.)?labels.*|set_?[lL]abels.*|removeLabels.*", r"", "bounded in bytes, not in characters"),
]

SEED = os.environ.get("RAIL_TEST_SEED", "7")
SECONDS = int(os.environ.get("RAIL_TEST_SECONDS", "30"))

# Calls that are left out, and why.
LEFT_OUT = {
    "/v1/jobs:watch": "a stream without an end",
    "/v1/nodes:watch": "a stream without an end",
    "/v1/webhooks/{name}:test": "would call hosts outside of the test",
}


def is_beyond(response):
    violations = json.loads(response.content)["error"].get("violations", [])
    known = [any(re.fullmatch(f, v["field"]) and re.search(m, v["message"]) for f, m, _ in BEYOND) for v in violations]
    return bool(known) and all(known)


# Enumerations, and numbers of 64 bits: canonical JSON takes numbers for both, too.
TEXTS = set(
    "action arrange avoidDrained certification concurrency dtype isolation objective onRailLoss op operator pattern protection reduce replace"
    " requeue role when within bytes ifVersion memoryPerNode speedMbps storedBytes".split()
)


def is_canonical(value):
    """Whether a body is one that canonical JSON takes though the document does not say it: it holds a null, which is a field that is not
    given, whatever its type, or a number where the document has a text."""
    if isinstance(value, dict):
        numbers = any(name in TEXTS and type(inner) is int for name, inner in value.items())
        return numbers or any(map(is_canonical, value.values()))
    return value is None or isinstance(value, list) and any(map(is_canonical, value))


def hooks():
    import schemathesis
    from hypothesis import strategies
    from schemathesis.specs.openapi import checks

    # Times of the wire begin in 1970.
    first, last = datetime.datetime(1970, 1, 1), datetime.datetime(9999, 12, 30)
    times = strategies.datetimes(min_value=first, max_value=last, timezones=strategies.just(datetime.timezone.utc))
    schemathesis.openapi.format("date-time", times.map(lambda time: time.isoformat().replace("+00:00", "Z")))

    @schemathesis.hook
    def map_query(context, query):
        # What a dry run makes cannot be read afterwards. Phases that do not follow links have it.
        return {name: value for name, value in query.items() if name != "dryRun"} if query else query

    @schemathesis.check
    def takes_what_the_document_allows(context, response, case):
        # 422 is what is sound, but cannot be on this cluster.
        if response.status_code == 422 or response.status_code == 400 and is_beyond(response):
            return None
        return checks.positive_data_acceptance(context, response, case)

    @schemathesis.check
    def refuses_what_the_document_forbids(context, response, case):
        if is_canonical(case.body if isinstance(case.body, (dict, list)) else {}):
            return None
        return checks.negative_data_rejection(context, response, case)


def run(base, token, phases, seconds):
    command = ["schemathesis", "run", f"{base}/v1/openapi.json", "--tls-verify", os.environ["RAIL_CA"]]
    command += ["-H", f"Authorization: Bearer {token}", "--phases", phases, "--max-time", str(seconds), "--seed", SEED]
    # The controller cuts a connection whose calls it has to refuse again and again for want of a credential, and some checks ask for that.
    command += ["--continue-on-failure", "--no-color", "--request-timeout", "10", "--request-retries", "3"]
    command += ["--exclude-checks", "positive_data_acceptance,negative_data_rejection"]
    for path in LEFT_OUT:
        command += ["--exclude-path", path]
    room = os.path.dirname(os.path.abspath(__file__))
    environment = {key: value for key, value in os.environ.items() if key not in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")}
    environment |= {"SCHEMATHESIS_HOOKS": "rest_schema", "PYTHONPATH": room, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    cases = re.search(r"(\d+) generated", done.stdout)
    if done.returncode != 0 or not cases:
        print(f"seed {SEED}, {phases}", done.stdout[-20_000:], done.stderr[-4_000:])
        sys.exit(1)
    return int(cases.group(1))


def enough(base, token, phases, seconds, least):
    """So many cases at least: a machine with other work makes fewer of them a second, and is given more time."""
    for longer in (1, 2, 4):
        cases = run(base, token, phases, seconds * longer)
        if cases >= least:
            return cases
    raise AssertionError(f"{phases}: {cases} cases, and {least} were wanted")


def main():
    import httpx

    base = os.environ["RAIL_REST"]
    tls = ssl.create_default_context(cafile=os.environ["RAIL_CA"])
    tls.load_cert_chain(os.environ["RAIL_CERT"], os.environ["RAIL_KEY"])
    made = httpx.post(f"{base}/v1/tokens", json={"user": "schemathesis-probe", "role": "ADMIN"}, verify=tls).json()
    token = made["token"]
    cases = [enough(base, token, "examples,coverage", SECONDS * 3 // 2, 100), enough(base, token, "fuzzing,stateful", SECONDS, 10)]
    print(cases, "all as expected")


if __name__ == "__main__":
    main()
else:
    hooks()
