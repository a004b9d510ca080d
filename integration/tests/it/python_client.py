"""Drives a real cluster with railyard.client, as its users do.

Run by python_client.rs, which says in the environment where railctl's configuration is; the argument is the part that is run.
"""

import asyncio
import json
import os
import pathlib
import re
import select
import socket
import ssl
import sys
import threading
import time

import railyard
from railyard.client import (
    AlreadyExists,
    ApplyRefused,
    AsyncClient,
    Client,
    FunctionFailed,
    InvalidRequest,
    JobFailed,
    Named,
    NotFound,
    PermissionDenied,
    RetryPolicy,
    Settings,
    TlsError,
    Unauthenticated,
    WaitTimeout,
)
from railyard.client._core import Operation
from railyard.client._http import run

WAIT = 60


def raised(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"{call} did not raise {kind.__name__}")


def jobs(client):
    job = railyard.submit(
        "echo out of $RANK; echo err >&2", nodes=2, gpus_per_node=1, name="first", labels={"team": "x"}
    )
    assert job.name == "first" and job.wait(WAIT)["status"]["phase"] == "COMPLETED", job
    assert job.logs() == "[0] out of 0\n[0] err\n[1] out of 1\n[1] err\n", job.logs()
    assert job.logs(1, stream="STDOUT") == "out of 1\n"
    followed = client.submit(["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.1; done"]).follow_logs(timeout=WAIT)
    assert b"".join(part.data for part in followed) == b"1\n2\n3\n"

    failed = client.submit("echo no; exit 3")
    error = raised(JobFailed, failed.wait, WAIT)
    assert error.phase == "FAILED" and "status 3" in str(error), error
    assert failed.wait(check=False)["status"]["exits"][0]["code"] == 3

    error = raised(InvalidRequest, client.submit, "true", spec={"gang": {"node": 2}})
    assert error.violations[0].field == "spec.gang.node" and "nodes" in error.violations[0].message, error
    assert (error.code, error.status, error.reason) == (400, "INVALID_ARGUMENT", "INVALID_BODY"), error
    error = raised(InvalidRequest, client.submit, "true", nodes=0)
    assert any(violation.field == "spec.gang.nodes" for violation in error.violations), error.violations

    sleeper = client.submit("sleep 300", name="sleeper", time_limit="5m")
    sleeper.wait_for("RUNNING", timeout=WAIT)
    assert sleeper.document["spec"]["timeLimit"] == "300s"
    assert raised(WaitTimeout, sleeper.wait, 0.2).job["status"]["phase"] == "RUNNING"
    sleeper.cancel("1s")
    assert raised(JobFailed, sleeper.wait, WAIT).phase == "CANCELLED"
    sleeper.delete()
    raised(NotFound, sleeper.refresh)
    raised(NotFound, client.job, "sleeper")


def idempotent(client):
    first = client.submit("true", name="twice", request_id="r1")
    again = client.submit("true", name="twice", request_id="r1")
    assert first.uid == again.uid
    raised(AlreadyExists, client.submit, "true", name="twice")

    settings = client.settings
    endpoint = next(one for one in settings.controller if one.host)
    with Cutting(endpoint.host, endpoint.port) as proxy:
        through = Settings.load(controller=f"https://127.0.0.1:{proxy.port}")
        with Client(settings=through, retry=RetryPolicy(first=0.01)) as behind:
            job = behind.submit("true", name="answer-lost")
    assert proxy.cut == 1 and proxy.passed == 1, (proxy.cut, proxy.passed)
    found = [one for one in client.jobs.list_all() if one["metadata"]["name"] == "answer-lost"]
    assert [one["metadata"]["uid"] for one in found] == [job.uid], found


class Cutting:
    """Passes TLS on, but for what the server answers on the first connection: the call is done, and its answer is lost."""

    def __init__(self, host, port):
        self.to = (host, port)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.cut, self.passed = 0, 0

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def serve(self):
        while True:
            try:
                near, _ = self.socket.accept()
            except OSError:
                return
            with near, socket.create_connection(self.to) as far:
                if self.cut:
                    self.passed += 1
                    self.between(near, far, False)
                else:
                    self.between(near, far, True)
                    self.cut += 1

    def between(self, near, far, cutting):
        """Bytes both ways. A client that goes on after the server's part of the handshake has sent its call."""
        answered = asked = False
        lost = 0
        while True:
            ready, _, _ = select.select([near, far], [], [], 1.0 if asked and cutting else 10.0)
            if not ready:
                return
            for one in ready:
                data = one.recv(65536)
                if not data:
                    return
                if one is near:
                    asked = asked or answered
                    far.sendall(data)
                elif asked and cutting:
                    lost += len(data)
                else:
                    answered = True
                    near.sendall(data)


def functions(client):
    python = sys.executable
    job = client.submit(Named("os.path:join"), args=["a", "b"], nodes=2, gpus_per_node=1, python=python)
    assert job.results(WAIT) == ["a/b", "a/b"]
    wrong = client.submit(Named("json:loads"), args=["{"], python=python)
    error = raised(FunctionFailed, wrong.result, 0, WAIT)
    assert "JSONDecodeError" in str(error) and "Traceback" in error.remote_traceback, error
    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        print("skipped: cloudpickle is not installed: functions are not sent by value")
        return
    base = 10

    def function(more):
        print("hello")
        return {"rank": int(os.environ["RANK"]), "sum": base + more}

    # Ranks look for cloudpickle where this program does.
    path = ":".join(path for path in sys.path if path)
    job = client.submit(function, args=[5], nodes=2, gpus_per_node=2, python=python, env={"PYTHONPATH": path})
    assert job.results(WAIT) == [{"rank": rank, "sum": 15} for rank in range(4)]
    assert job.logs(0) == "hello\n", job.logs(0)


def applied(client):
    queue = {"kind": "Queue", "metadata": {"name": "night"}, "spec": {"weight": 2}}
    job = {
        "kind": "Job",
        "metadata": {"name": "applied"},
        "spec": {
            "gang": {"nodes": 1},
            "rails": {"none": True},
            "queue": "night",
            "timeLimit": "5m",
            "command": {"argv": ["true"]},
        },
    }
    secret = {"kind": "Secret", "metadata": {"name": "key"}, "data": {"a": "not shown"}}
    documents = [queue, job, secret]
    plan = client.apply(documents, dry_run=True)
    assert [one.outcome for one in plan] == ["CREATED"] * 3 and "not shown" not in str(plan), plan
    raised(NotFound, client.queues.get, "night")
    assert [one.outcome for one in client.apply(documents)] == ["CREATED"] * 3
    again = client.apply(documents, dry_run=True)
    assert [one.outcome for one in again] == ["UNCHANGED"] * 3 and not again.changed, str(again)

    changed = {**queue, "spec": {"weight": 5}}
    plan = client.apply(changed, dry_run=True)
    assert [(one.path, one.before, one.after) for one in plan[0].fields] == [("spec.weight", 2, 5)], plan
    assert '-    "weight": 2\n+    "weight": 5\n' in plan[0].diff(), plan[0].diff()
    assert client.queues.get("night")["spec"]["weight"] == 2
    client.apply(changed)
    assert client.queues.get("night")["spec"]["weight"] == 5

    other = {**job, "spec": {**job["spec"], "timeLimit": "6m"}}
    plan = client.apply(other, dry_run=True)
    assert plan[0].outcome == "REFUSED" and plan[0].refusal.reason == "NAME_TAKEN", plan
    assert '"timeLimit": "360s"' in plan[0].diff()
    new = {**queue, "metadata": {"name": "never"}}
    refused = raised(ApplyRefused, client.apply, [new, other])
    assert len(refused.changes.refused) == 1
    raised(NotFound, client.queues.get, "never")
    error = raised(InvalidRequest, client.apply, {**queue, "spec": {"weigth": 1}})
    assert error.violations[0].field == "documents[0].queue.spec.weigth", error.violations


def samples(client):
    """The repository's samples of every kind, applied twice: the second time they are there."""
    try:
        import yaml  # noqa: F401
    except ImportError:
        print("skipped: PyYAML is not installed: documents of YAML are not applied")
        return
    deploy = pathlib.Path(__file__).parents[3] / "deploy"
    folders = ["queues", "licenses", "schedules", "secrets", "switches", "webhooks"]
    files = [file for folder in folders for file in sorted((deploy / folder).glob("*.yaml"))]
    files += [deploy / "jobs/dependency.yaml", deploy / "jobs/hello.yaml"]
    first = client.apply(files)
    kinds = {one.kind for one in first}
    assert len(kinds) >= 10 and {one.outcome for one in first} == {"CREATED"}, str(first)
    again = client.apply(files)
    assert not again.changed and len(again) == len(first), str(again)
    plan = client.apply(
        {"kind": "Tenant", "metadata": {"name": "research"}, "spec": {"quota": {"gpus": 1}}}, dry_run=True
    )
    assert plan.refused[0].refusal.violations[0].field.startswith("spec.quota"), str(plan)


def identities(client):
    wrong = "rail-user-v1." + "0" * 16 + "." + "1" * 64
    with Client(token=wrong) as api:
        assert raised(Unauthenticated, api.jobs.list).code == 401
    issued = client.tenants.issue_token(tenant="dev", user="ann", role="USER")
    with Client(token=issued["token"]) as api:
        assert api.tenants.who_am_i()["user"] == "ann"
        denied = raised(PermissionDenied, api.tenants.apply, {"metadata": {"name": "mine"}})
        assert denied.status == "PERMISSION_DENIED", denied
        assert api.submit("true", name="of-ann").wait(WAIT)["status"]["submitter"]["user"] == "ann"
    # Authorities of the Internet are none of the controller's.
    places = [
        ssl.get_default_verify_paths().cafile or "",
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/cert.pem",
    ]
    others = next((place for place in places if os.path.exists(place)), None)
    if others is None:
        print(
            "skipped: this machine has no authorities of the Internet: a controller of another authority is not tried"
        )
    else:
        with Client(ca=others) as api:
            assert raised(TlsError, api.health.get).reason == "CERTIFICATE_NOT_TRUSTED"
    for endpoint in client.settings.controller:
        with Client(controller=str(endpoint)) as api:
            assert api.health.get()["nodesReady"] == 2


async def asynchronous():
    async with AsyncClient() as client:
        made = await asyncio.gather(*[client.submit(f"echo {number}") for number in range(4)])
        await asyncio.gather(*[job.wait(WAIT) for job in made])
        assert await asyncio.gather(*[job.logs() for job in made]) == [f"{number}\n" for number in range(4)]
        failed = await client.submit("exit 1")
        try:
            await failed.wait(WAIT)
            raise AssertionError("it failed")
        except JobFailed:
            pass
        try:
            await client.submit("true", spec={"gangs": {}})
            raise AssertionError("it is wrong")
        except InvalidRequest as error:
            assert error.violations[0].field == "spec.gangs", error
        job = await client.submit("echo a; sleep 0.3; echo b")
        assert "".join([part.text async for part in job.follow_logs(timeout=WAIT)]) == "a\nb\n"
        job = await client.submit(Named("os.path:basename"), args=["/a/b"], python=sys.executable)
        assert await job.result(timeout=WAIT) == "b"
        async with client.jobs.watch(timeout=WAIT) as watch:
            async for event in watch:
                if event["type"] == "SYNCED":
                    break
        plan = await client.apply({"kind": "Queue", "metadata": {"name": "async"}, "spec": {}}, dry_run=True)
        assert [one.outcome for one in plan] == ["CREATED"], str(plan)
        sleeper = await client.submit("sleep 300")
        await sleeper.cancel()
        assert (await sleeper.wait(WAIT, check=False))["status"]["phase"] == "CANCELLED"


def everything():
    with Client() as client:
        assert client.health.get()["nodesReady"] == 2
        assert len(client.nodes.list_all()) == 2 and client.tenants.get("dev")["metadata"]["name"] == "dev"
        for part in (jobs, idempotent, functions, applied, samples, identities):
            part(client)
    asyncio.run(asynchronous())


def document():
    """Writes the OpenAPI document into the file that the second argument names."""
    with Client() as client:
        found = run(client._core.call(Operation("getOpenApi", "GET", "/v1/openapi.json", True), {}, {}))
    pathlib.Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")


def restarted():
    """The controller is killed and started again while this waits, watches and submits."""
    done = os.environ["RAIL_TEST_FILE"]
    with Client(retry=RetryPolicy(attempts=100, longest=0.5, within=WAIT)) as client:
        job = client.submit(f"until [ -e {done} ]; do sleep 0.1; done; echo over", name="outlives")
        job.wait_for("RUNNING", timeout=WAIT)
        watch = client.jobs.watch(name="outlives", timeout=WAIT)
        assert next(watch)["type"] == "PUT" and next(watch)["type"] == "SYNCED"
        ended, parts = [], []
        threads = [
            threading.Thread(target=lambda: ended.append(job.wait(WAIT))),
            threading.Thread(target=lambda: parts.extend(client.job("outlives").follow_logs(timeout=WAIT))),
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        print("ready", flush=True)
        assert sys.stdin.readline() == "killed\n"
        during = client.submit("true", name="meanwhile")
        versions = []
        for event in watch:
            versions.append(int(event["job"]["metadata"]["resourceVersion"]))
            if event["job"]["status"]["phase"] == "COMPLETED":
                break
        watch.close()
        for thread in threads:
            thread.join(WAIT)
        assert len(set(versions)) == len(versions) and versions == sorted(versions), versions
        assert ended and ended[0]["status"]["phase"] == "COMPLETED", ended
        assert b"".join(part.data for part in parts) == b"over\n", parts
        during.wait(WAIT)
        names = [one["metadata"]["name"] for one in client.jobs.list_all()]
        assert names.count("meanwhile") == 1, names


def page():
    """Runs the blocks of Python of the book's page, each as a program of its own."""
    text = pathlib.Path(os.environ["RAIL_TEST_PAGE"]).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5, len(blocks)
    for block in blocks:
        print(f"----\n{block}", flush=True)
        exec(compile(block, "docs/python-client.md", "exec"), {"__name__": "page"})


{"document": document, "everything": everything, "restarted": restarted, "page": page}[sys.argv[1]]()
print("all as expected")
