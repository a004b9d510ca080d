// All of it against a running controller, whose configuration RAIL_CONFIG names. Left out where RAIL_TEST_LIVE is not set.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect as dial, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { rootCertificates } from "node:tls";
import * as railyard from "../src/index.js";
import { connect, load } from "../src/node.js";

const skip = process.env["RAIL_TEST_LIVE"] ? false : "no running controller is named";
const WAIT = { timeoutMs: 60_000 };

test("jobs: submit, wait, logs, list, cancel, errors", { skip }, async () => {
  const client = connect();
  const job = await client.submit("echo out of $RANK; echo err >&2", { nodes: 2, gpusPerNode: 1, name: "ts-first", labels: { team: "x" } });
  assert.equal((await job.wait(WAIT)).status?.phase, "COMPLETED");
  assert.equal(await job.logs(), "[0] out of 0\n[0] err\n[1] out of 1\n[1] err\n");
  assert.equal(await job.logs({ ranks: [1], stream: "STDOUT" }), "out of 1\n");

  const followed = await client.submit(["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.1; done"]);
  let text = "";
  for await (const part of followed.followLogs(WAIT)) text += Buffer.from(part.data).toString();
  assert.equal(text, "1\n2\n3\n");

  const failed = await client.submit("exit 3");
  await assert.rejects(failed.wait(WAIT), (error) => error instanceof railyard.JobFailedError && /status 3/.test(error.message));

  const names = (await client.jobs.listAll({ pageSize: 1 }).all()).map((one) => one.metadata?.name);
  assert.ok(names.includes("ts-first") && names.length === new Set(names).size && names.length >= 3, String(names));
  const page = await client.jobs.list({ pageSize: 1 });
  assert.ok(page.jobs?.length === 1 && page.nextPageToken);

  const wrong = await client.submit("true", { spec: { gang: { node: 2 } } as object }).catch((error: unknown) => error);
  assert.ok(wrong instanceof railyard.InvalidRequestError && wrong.violations[0]?.field === "spec.gang.node", String(wrong));
  await assert.rejects(client.submit("true", { name: "ts-first" }), railyard.AlreadyExistsError);
  await assert.rejects(client.job("nothing"), (error) => error instanceof railyard.NotFoundError && error.reason === "JOB_NOT_FOUND");

  const sleeper = await client.submit("sleep 300", { name: "ts-sleeper" });
  await sleeper.waitFor(["RUNNING"], WAIT);
  await assert.rejects(sleeper.wait({ timeoutMs: 200 }), railyard.WaitTimeoutError);
  await sleeper.cancel("1s");
  await assert.rejects(sleeper.wait(WAIT), (error) => error instanceof railyard.JobFailedError && error.phase === "CANCELLED");
  await sleeper.delete();
  await assert.rejects(sleeper.refresh(), railyard.NotFoundError);
});

/** Passes TLS on, and cuts all connections when it is asked to. */
async function cutting(host: string, port: number): Promise<{ port: number; cut: () => number; end: () => void }> {
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = dial(port, host);
    for (const one of [near, far]) {
      open.add(one);
      one.on("error", () => undefined).on("close", () => open.delete(one));
    }
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    const { size } = open;
    for (const one of open) one.destroy();
    return size;
  };
  return { port: (server.address() as AddressInfo).port, cut, end: () => (cut(), void server.close()) };
}

test("a watch whose connection is cut loses nothing", { skip }, async () => {
  const found = load();
  const direct = connect();
  const endpoint = new URL(found.controller.find((one) => one.startsWith("https:")) as string);
  const proxy = await cutting(endpoint.hostname, Number(endpoint.port));
  const client = connect({ controller: `https://127.0.0.1:${proxy.port}`, retry: { firstMs: 10 } });
  const watch = client.jobs.watch(WAIT);
  while ((await watch.next())?.type !== "SYNCED");
  const made: string[] = [];
  const completed = new Set<string>();
  const seen = new Set<string>();
  for (let round = 0; round < 3; round += 1) {
    // Changed while nothing is connected, and while it is.
    assert.ok(proxy.cut() >= 2, "there was a connection to cut");
    const jobs = await Promise.all([1, 2].map((number) => direct.submit("true", { name: `ts-cut-${round}-${number}` })));
    made.push(...jobs.map((one) => one.name));
    while (!made.every((name) => completed.has(name))) {
      const event = await watch.next();
      if (!event?.job) continue;
      const { name = "", resourceVersion } = event.job.metadata ?? {};
      const key = `${event.type} ${name} ${resourceVersion}`;
      assert.ok(!seen.has(key), `${key} was given twice`);
      seen.add(key);
      if (event.job.status?.phase === "COMPLETED") completed.add(name);
    }
  }
  watch.close();
  proxy.end();
});

test("apply: dry run, difference, refusal", { skip }, async () => {
  const client = connect();
  const queue = { kind: "Queue", metadata: { name: "ts-night" }, spec: { weight: 2 } };
  const command = { argv: ["true"] };
  const job = { kind: "Job", metadata: { name: "ts-applied" }, spec: { gang: { nodes: 1 }, rails: { none: true }, timeLimit: "5m", command } };
  const secret = { kind: "Secret", metadata: { name: "ts-key" }, data: { a: "not shown" } };
  const outcomes = (changes: railyard.Changes) => changes.all.map((one) => one.outcome);
  const plan = await client.apply([queue, job, secret], { dryRun: true });
  assert.deepEqual(outcomes(plan), ["CREATED", "CREATED", "CREATED"]);
  assert.ok(!`${plan}${plan.all.map((one) => one.diff())}`.includes("not shown"));
  await assert.rejects(client.queues.get("ts-night"), railyard.NotFoundError);
  assert.deepEqual(outcomes(await client.apply([queue, job, secret])), ["CREATED", "CREATED", "CREATED"]);
  const again = await client.apply([queue, job, secret], { dryRun: true });
  assert.deepEqual([outcomes(again), again.changed], [["UNCHANGED", "UNCHANGED", "UNCHANGED"], false], String(again));

  const changed = { ...queue, spec: { weight: 5 } };
  const difference = await client.apply(changed, { dryRun: true });
  assert.deepEqual(difference.all[0]?.fields, [{ path: "spec.weight", before: 2, after: 5 }]);
  assert.match(difference.all[0]?.diff() ?? "", /-    "weight": 2\n\+    "weight": 5\n/);
  await client.apply(changed);
  assert.equal((await client.queues.get("ts-night")).spec?.weight, 5);

  const other = { ...job, spec: { ...job.spec, timeLimit: "6m" } };
  await assert.rejects(client.apply([{ ...queue, metadata: { name: "ts-never" } }, other]), railyard.ApplyRefusedError);
  await assert.rejects(client.queues.get("ts-never"), railyard.NotFoundError);
});

test("identities: tokens, unix sockets, certificates of others", { skip }, async () => {
  const client = connect();
  assert.equal((await client.health.get()).nodesReady, 2);
  for (const controller of load().controller) assert.equal((await connect({ controller }).health.get()).nodesReady, 2, controller);
  const issued = await client.tenants.issueToken({ tenant: "dev", user: "ann", role: "USER" });
  const ann = connect({ token: issued.token ?? "" });
  assert.equal((await ann.tenants.whoAmI()).user, "ann");
  await assert.rejects(ann.tenants.apply({ metadata: { name: "mine" } }), railyard.PermissionDeniedError);
  const nobody = connect({ token: `rail-user-v1.${"0".repeat(16)}.${"1".repeat(64)}` });
  await assert.rejects(nobody.jobs.list(), (error) => error instanceof railyard.UnauthenticatedError && !error.message.includes("1111"));
  // An authority of the Internet is none of the controller's.
  const folder = mkdtempSync(join(tmpdir(), "railyard-"));
  writeFileSync(join(folder, "ca.pem"), rootCertificates[0] ?? "");
  const untrusted = connect({ ca: join(folder, "ca.pem") });
  await assert.rejects(untrusted.health.get(), (error) => error instanceof railyard.TlsError && error.reason === "CERTIFICATE_NOT_TRUSTED");
  rmSync(folder, { recursive: true });
});

