// Calls: what is sent, errors, retries, limits, pages, apply; against a server that answers as a test says.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as railyard from "../src/index.js";
import { backoff, RETRY, type Transport } from "../src/core.js";
import { unified } from "../src/diff.js";
import { described, type SubmitOptions } from "../src/jobs.js";
import { refusal, served, type Answer } from "./fake.js";

const { Client, ApiError, ConfigError, ConflictError, DeadlineExceededError, InvalidRequestError, NotFoundError, UnavailableError } = railyard;
const job: Answer = { json: { metadata: { name: "a", tenant: "nlp", uid: "u" } } };

test("a submit is sent with the tenant and one request id, however often", async () => {
  await served(
    (_, number) => (number < 3 ? undefined : job),
    async (server) => {
      const made = await server.client().submit("true", { nodes: 2, gpusPerNode: 1, spec: { gang: { minNodes: 1 }, failure: {} } });
      assert.equal(String(made), "nlp/a");
      const ids = new Set(server.asked.map((one) => one.query.get("requestId")));
      assert.equal(ids.size, 1);
      const [sent] = server.asked;
      assert.deepEqual([sent?.method, sent?.query.get("onBehalfOf"), sent?.headers["grpc-timeout"]], ["POST", "nlp", "30000m"]);
      const body = sent?.body as { spec: unknown };
      const gang = { nodes: 2, gpusPerNode: 1, minNodes: 1 };
      assert.deepEqual(body.spec, { gang, command: { argv: ["/bin/sh", "-c", "true"] }, failure: {} });
    },
  );
});

test("only one server without GPUs, when all is merged, has no rails", () => {
  const rails = (options: SubmitOptions) => described("true", options).spec?.rails;
  assert.deepEqual([rails({}), rails({ spec: { queue: "q" } })], [{ none: true }, { none: true }]);
  assert.deepEqual(rails({ nodes: 2, spec: { gang: { nodes: 1 } } }), { none: true });
  for (const gang of [{ nodes: 2 }, { gpusPerNode: 8 }]) assert.equal(rails({ spec: { gang } }), undefined);
  assert.deepEqual(rails({ spec: { rails: { required: 2 } } }), { required: 2 });
});

test("what would be done twice is not sent again where the answer was lost", async () => {
  await served(
    () => undefined,
    async (server) => {
      await assert.rejects(server.client().tenants.issueToken({ user: "ann", role: "USER" }), UnavailableError);
      assert.equal(server.asked.length, 1);
    },
  );
});

test("what surely was not sent goes to the next controller, and is sent again", async () => {
  const asked: string[] = [];
  const transport: Transport = async (endpoint) => {
    asked.push(endpoint);
    if (endpoint !== "https://b:1" || asked.length < 4) throw new railyard.NotSent(`${endpoint}: refused`);
    return Response.json({ id: "t" });
  };
  const client = new Client({ controller: ["https://a:1", "https://b:1"], transport, retry: { firstMs: 1 } });
  await client.tenants.issueToken({ user: "ann", role: "USER" });
  assert.deepEqual(asked, ["https://a:1", "https://b:1", "https://a:1", "https://b:1"]);
  const refused: Transport = async () => Promise.reject(new railyard.NotSent("a: self-signed", "CERTIFICATE_NOT_TRUSTED"));
  const untrusted = new Client({ controller: "https://a:1", transport: refused });
  await assert.rejects(untrusted.health.get(), railyard.TlsError);
});

test("of several failures the one that may go well counts", async () => {
  const ways: Record<string, Error> = { "https://a:1": new TypeError("cut"), "https://b:1": new railyard.NotSent("b", "CERTIFICATE_NOT_TRUSTED") };
  for (const controller of [["https://a:1", "https://b:1"], ["https://b:1", "https://a:1"]]) {
    const transport: Transport = async (endpoint) => Promise.reject(ways[endpoint]);
    const client = new Client({ controller, transport, retry: { attempts: 1 } });
    await assert.rejects(client.health.get(), (error) => error instanceof UnavailableError && error.reason === "CONNECTION_LOST");
  }
});

test("the policy of retries", () => {
  const away = new UnavailableError("no");
  const late = new railyard.OverloadedError("later", { retryAfterMs: 500 });
  assert.deepEqual([1, 2, 5].map((made) => backoff(RETRY, made, 0, away, 0.5)), [75, 150, undefined]);
  assert.equal(backoff(RETRY, 1, 0, late, 0), 500);
  assert.equal(backoff(RETRY, 1, 14_900, late, 0), undefined, "not within the time for all of it");
  assert.equal(backoff(RETRY, 1, 0, new railyard.OverloadedError("no"), 0), undefined);
  assert.equal(backoff(RETRY, 1, 0, new NotFoundError("no"), 0), undefined);
});

test("errors have classes, reasons and fields", async () => {
  const violations = [{ field: "spec.gang", message: "no" }];
  const answers: [Answer, new (message: string) => InstanceType<typeof ApiError>, number][] = [
    [refusal(400, "invalid", "INVALID_BODY", { violations, status: "INVALID_ARGUMENT" }), InvalidRequestError, 400],
    [refusal(404, "not-found", "JOB_NOT_FOUND"), NotFoundError, 404],
    [refusal(409, "conflict", "VERSION"), ConflictError, 409],
    [refusal(418, "from-a-later-release", "X"), InvalidRequestError, 418],
    [{ code: 404, json: "no error of the API" }, NotFoundError, 404],
  ];
  for (const [answer, kind, code] of answers) {
    await served(
      () => answer,
      async (server) => {
        const error = await server.client().jobs.get("a").catch((found: unknown) => found);
        assert.ok(error instanceof kind && error instanceof ApiError, String(error));
        assert.equal(error.code, code);
        if (code === 400) assert.deepEqual([error.violations, error.reason, error.operation], [violations, "INVALID_BODY", "getJob"]);
      },
    );
  }
});

test("no error shows a token", async () => {
  const secret = `rail-user-v1.${"0".repeat(16)}.${"1".repeat(64)}`;
  for (const token of [`${secret}\n`, `"${secret}" `, secret, async () => `${secret} x`]) {
    const transport: Transport = async (_, __, sent) => fetch("http://127.0.0.1:1/", { headers: sent.headers });
    const client = new Client({ controller: "https://a:1", token, transport, retry: { attempts: 1 } });
    const error = await client.health.get().catch((found: unknown) => found);
    assert.ok(error instanceof ApiError || error instanceof ConfigError);
    assert.ok(!`${error} ${error.stack} ${JSON.stringify(error)}`.includes("1111"), String(error));
  }
  for (const scheme of ["https", "http"]) {
    assert.throws(() => new Client({ controller: `${scheme}://user:${secret}@a:1` }), (error) => !String(error).includes("1111"));
  }
  assert.throws(() => new Client({ controller: "http://a:1" }), ConfigError);
});

test("a limit may be longer than a timer, or none", async () => {
  await served(
    () => job,
    async (server) => {
      for (const timeoutMs of [2 ** 31, 1e12, Infinity]) await server.client({ retry: { attempts: 1 } }).jobs.get("a", { timeoutMs });
    },
  );
});

test("a call is ended by its limit and by its signal", async () => {
  await served(
    () => ({ parts: [" "], then: "stay" }),
    async (server) => {
      await assert.rejects(server.client().jobs.get("a", { timeoutMs: 50 }), DeadlineExceededError);
      const ending = new AbortController();
      const call = server.client().jobs.get("a", { signal: ending.signal });
      ending.abort(new Error("enough"));
      await assert.rejects(call, /enough/);
      await assert.rejects(server.client().jobs.get("a", { signal: AbortSignal.abort(new Error("before")) }), /before/);
    },
  );
});

test("a list comes page by page", async () => {
  const pages: Answer[] = [
    { json: { jobs: [{ metadata: { name: "a" } }, { metadata: { name: "b" } }], nextPageToken: "t" } },
    { json: { nextPageToken: "u" } },
    { json: { jobs: [{ metadata: { name: "c" } }] } },
  ];
  await served(
    (_, number) => pages[number - 1],
    async (server) => {
      const names: unknown[] = [];
      for await (const one of server.client().jobs.listAll({ phases: ["RUNNING", "PENDING"] })) names.push(one.metadata?.name);
      assert.deepEqual(names, ["a", "b", "c"]);
      assert.deepEqual(server.asked.map((one) => one.query.get("pageToken")), [null, "t", "u"]);
      assert.equal(server.asked[0]?.query.get("phases"), "RUNNING,PENDING");
    },
  );
});

test("a dry run says what would change, and a refusal applies nothing", async () => {
  const queue = { kind: "Queue", metadata: { name: "night" }, spec: { weight: 5 } };
  const meant = { ...queue, metadata: { name: "night", tenant: "nlp" } };
  const answer = (asked: { target: string }): Answer => {
    if (asked.target.includes(":plan")) return { json: { documents: [{ outcome: "CHANGED", document: { queue: meant } }] } };
    return { json: { ...meant, metadata: { ...meant.metadata, uid: "u" }, spec: { weight: 2 }, status: {} } };
  };
  await served(answer, async (server) => {
    const plan = await server.client().apply(queue, { dryRun: true });
    assert.deepEqual(plan.all[0]?.fields, [{ path: "spec.weight", before: 2, after: 5 }]);
    assert.equal(String(plan), "queue/nlp/night changed\n  spec.weight: 2 -> 5");
    assert.match(plan.all[0]?.diff() ?? "", /^--- queue\/nlp\/night as it is\n\+\+\+ queue\/nlp\/night\n@@ -5,6 \+5,6 @@\n/);
    assert.deepEqual(server.asked[0]?.body, { documents: [{ queue: meant }], onBehalfOf: "nlp" });
    assert.equal(server.asked.length, 2);
  });
  const refused = { outcome: "REFUSED", refusal: { code: 400, class: "invalid", reason: "X", message: "no" } };
  await served(
    () => ({ json: { documents: [refused] } }),
    async (server) => {
      await assert.rejects(server.client().apply([queue]), (error) => error instanceof railyard.ApplyRefusedError && /no \[X\]/.test(error.message));
      assert.equal(server.asked.length, 1);
      await assert.rejects(server.client().apply({ kind: "Queu" }), /kind `Queu` is not made by a document; Fabric, /);
    },
  );
});

test("differences are those of diff -u", () => {
  const numbers = Array.from({ length: 20 }, (_, at) => String(at));
  const other = numbers.map((one) => (one === "3" ? "three" : one)).filter((one) => one !== "15");
  const expected =
    "--- a\n+++ b\n@@ -1,7 +1,7 @@\n 0\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -13,7 +13,6 @@\n 12\n 13\n 14\n-15\n 16\n 17\n 18\n";
  assert.equal(unified(numbers, other, "a", "b"), expected);
  assert.equal(unified([], ["x"], "a", "b"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
  assert.equal(unified(["x"], ["x"], "a", "b"), "");
});
