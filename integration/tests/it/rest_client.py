"""Generates a client from the controller's OpenAPI document and drives the main job with it.

Run by rest.rs; the environment says where the controller is and whose certificate opens it.
"""

import json
import os
import pathlib
import ssl
import subprocess
import sys
import time

import httpx

base = os.environ["RAIL_REST"]
tls = ssl.create_default_context(cafile=os.environ["RAIL_CA"])
tls.load_cert_chain(os.environ["RAIL_CERT"], os.environ["RAIL_KEY"])

document = httpx.get(f"{base}/v1/openapi.json", verify=tls).json()
assert document["openapi"].startswith("3.1"), document["openapi"]
pathlib.Path("openapi.json").write_text(json.dumps(document))
generate = ["openapi-python-client", "generate", "--path", "openapi.json", "--output-path", "railyard_rest", "--meta", "none"]
subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
sys.path.insert(0, ".")

from railyard_rest import Client  # noqa: E402
from railyard_rest.api.health import get_health  # noqa: E402
from railyard_rest.api.job import create_job, delete_job, explain_job, get_job, list_jobs, plan_job  # noqa: E402
from railyard_rest.api.node import list_nodes  # noqa: E402
from railyard_rest.api.tenant import apply_tenant, get_tenant, who_am_i  # noqa: E402
from railyard_rest.models import Job, Tenant  # noqa: E402

client = Client(base_url=base, verify_ssl=tls, raise_on_unexpected_status=True)


def job(name, nodes=2, gpus=1):
    return Job.from_dict(
        {
            "apiVersion": "rail/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "gang": {"nodes": nodes, "gpusPerNode": gpus},
                "collective": {"op": "ALL_REDUCE", "bytes": "65536", "iterations": 2, "verify": True},
            },
        }
    )


def done(answer, status):
    assert answer.status_code == status, (answer.status_code, answer.content)
    return answer.parsed


health = done(get_health.sync_detailed(client=client), 200)
assert health.nodes_ready == 2, health
assert len(done(list_nodes.sync_detailed(client=client), 200).nodes) == 2
assert done(who_am_i.sync_detailed(client=client), 200).role == "ADMIN"

tenant = Tenant.from_dict({"metadata": {"name": "vision"}, "spec": {"quota": {"gpus": 2}}})
done(apply_tenant.sync_detailed(client=client, body=tenant), 200)
assert done(get_tenant.sync_detailed("vision", client=client), 200).spec.quota.gpus == 2

planned = done(plan_job.sync_detailed(client=client, body=job("sum"), on_behalf_of="vision"), 200)
assert len(planned.placement.nodes) == 2, planned

first = done(create_job.sync_detailed(client=client, body=job("sum"), on_behalf_of="vision", request_id="r1"), 200)
again = done(create_job.sync_detailed(client=client, body=job("sum"), on_behalf_of="vision", request_id="r1"), 200)
assert first.metadata.uid == again.metadata.uid, "the same request gives the same job"
taken = create_job.sync_detailed(client=client, body=job("sum"), on_behalf_of="vision", request_id="r2")
assert taken.status_code == 409, taken
impossible = create_job.sync_detailed(client=client, body=job("big", gpus=9), on_behalf_of="vision", request_id="r3")
assert impossible.status_code == 422, (impossible.status_code, impossible.content)

deadline = time.monotonic() + 60
while True:
    seen = done(get_job.sync_detailed("sum", client=client, tenant="vision"), 200)
    if seen.status.phase in ("COMPLETED", "FAILED", "CANCELLED"):
        break
    assert time.monotonic() < deadline, seen
    time.sleep(0.05)
assert seen.status.phase == "COMPLETED", seen
assert seen.status.result.verified, seen
assert done(explain_job.sync_detailed("sum", client=client, tenant="vision"), 200).phase == "COMPLETED"
assert [one.metadata.name for one in done(list_jobs.sync_detailed(client=client, tenant="vision"), 200).jobs] == ["sum"]

log = httpx.get(f"{base}/v1/jobs/sum/logs", params={"tenant": "vision"}, headers={"Accept": "text/plain"}, verify=tls)
assert log.status_code == 200 and "verified" in log.text, (log.status_code, log.text)

# The same strictness and the same words as gRPC and railctl.
typo = httpx.post(f"{base}/v1/jobs", json={"spec": {"gang": {"node": 2}}}, verify=tls)
assert typo.status_code == 400 and "nodes" in typo.text, (typo.status_code, typo.text)
missing = httpx.get(f"{base}/v1/jobs/nothing", params={"tenant": "vision"}, verify=tls)
assert missing.status_code == 404, (missing.status_code, missing.text)

# Without a certificate: refused.
bare = ssl.create_default_context(cafile=os.environ["RAIL_CA"])
denied = httpx.get(f"{base}/v1/jobs", verify=bare)
assert denied.status_code in (401, 403), (denied.status_code, denied.text)

done(delete_job.sync_detailed("sum", client=client, tenant="vision"), 200)
assert get_job.sync_detailed("sum", client=client, tenant="vision").status_code == 404
print("all as expected")
