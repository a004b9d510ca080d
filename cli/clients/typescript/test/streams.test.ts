// Watches that are resumed, waits, and logs, against a server that answers as a test says.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import type { Transport } from "../src/core.js";
import { Client, JobFailedError, NotFoundError, NotSent, PermissionDeniedError, UnavailableError, WaitTimeoutError, type Watch } from "../src/index.js";
import { limits } from "../src/watch.js";
import { line, refusal, served, type Answer, type Server } from "./fake.js";

const standing = { ...limits };
afterEach(() => void Object.assign(limits, standing));

function event(name: string, version: number, { kind = "PUT", uid = "u", phase = "RUNNING", revision = version } = {}): string {
  const metadata = { name, tenant: "nlp", uid, resourceVersion: String(version) };
  return line({ type: kind, job: { metadata, status: { phase } }, revision: String(revision) });
}

const SYNCED = line({ type: "SYNCED", revision: "5" });
const gone = refusal(410, "gone", "REVISION_COMPACTED");

async function shown(watch: Watch<unknown>, count: number): Promise<string[]> {
  const found: string[] = [];
  while (found.length < count) {
    const one = (await watch.next()) as { type: string; job?: { metadata?: { name?: string; resourceVersion?: string } } };
    const metadata = one.job?.metadata;
    found.push(metadata ? `${one.type} ${metadata.name}:${metadata.resourceVersion}` : one.type);
  }
  return found;
}

function begins(server: Server): string[] {
  return server.asked.map((one) => one.query.get("afterRevision") ?? "0");
}

/** Events of a watch that is answered so, whence each stream begins, and the watch's revision. */
async function watched(count: number, ...answers: Answer[]): Promise<[string[], string[], string]> {
  return served(
    (_, number) => answers[Math.min(number, answers.length) - 1],
    async (server) => {
      const watch = server.client().jobs.watch({ timeoutMs: 30_000 });
      const events = await shown(watch, count);
      watch.close();
      return [events, begins(server), watch.revision];
    },
  );
}

test("a lost watch is resumed behind what was given", async () => {
  const answers = [{ parts: [event("a", 4), SYNCED] }, undefined, refusal(503, "unavailable", "NO_LEADER"), { parts: [SYNCED, event("a", 6)] }];
  const [events, from, revision] = await watched(3, ...answers);
  assert.deepEqual(events, ["PUT a:4", "SYNCED", "PUT a:6"]);
  assert.deepEqual([from, revision], [["0", "5", "5", "5"], "5"], "more may have changed in revision 6");
});

test("an error whose text is cut is a lost connection", async () => {
  const cut = (code: number): Answer => ({ code, parts: ['{"error":{"code":'], then: "cut" });
  const [events, from] = await watched(3, { parts: [event("a", 4), SYNCED] }, cut(503), cut(410), { parts: [SYNCED, event("a", 6)] });
  assert.deepEqual(events, ["PUT a:4", "SYNCED", "PUT a:6"]);
  assert.deepEqual(from, ["0", "5", "5", "5"]);
});

test("a snapshot that is lost begins anew", async () => {
  // In the order of names: `a` changed last, and `b` is not given before the stream is lost.
  const whole = [event("a", 4), event("b", 2), event("c", 3), SYNCED];
  const [events, from, revision] = await watched(4, { parts: [whole[0] as string], then: "cut" }, { parts: whole, then: "stay" });
  assert.deepEqual(events, ["PUT a:4", "PUT b:2", "PUT c:3", "SYNCED"]);
  assert.deepEqual([from, revision], [["0", "0"], "5"]);
});

test("a revision that changed much is given whole", async () => {
  const deleted = event("g", 1, { kind: "DELETE", revision: 7 });
  const first = { parts: [event("g", 1), SYNCED, deleted, event("a", 7)] };
  const [events, from] = await watched(6, first, { parts: [SYNCED, deleted, event("a", 7), event("b", 7), event("c", 8)], then: "stay" as const });
  assert.deepEqual(events, ["PUT g:1", "SYNCED", "DELETE g:1", "PUT a:7", "PUT b:7", "PUT c:8"]);
  assert.deepEqual(from, ["0", "6"]);
});

test("what vanished while nobody watched is deleted", async () => {
  const [events, from] = await watched(
    8,
    { parts: [event("a", 4), event("b", 3), event("c", 2), SYNCED] },
    gone,
    // Lost before it is complete: `c` may still come.
    { parts: [event("a", 4), event("b", 8, { uid: "another" })], then: "cut" },
    { parts: [event("a", 4), event("b", 8, { uid: "another" }), line({ type: "SYNCED", revision: "9" })] },
    { parts: [line({ type: "SYNCED", revision: "9" }), event("d", 10)], then: "stay" },
  );
  assert.deepEqual(events, ["PUT a:4", "PUT b:3", "PUT c:2", "SYNCED", "DELETE b:3", "PUT b:8", "DELETE c:2", "PUT d:10"]);
  assert.deepEqual(from, ["0", "5", "0", "0", "9"]);
});

test("lines may be cut anywhere, within characters as well", async () => {
  const bytes = Buffer.from(event("ä", 4) + SYNCED + event("b", 6));
  const parts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += 7) parts.push(bytes.subarray(at, at + 7));
  const [events] = await watched(3, { parts: parts as unknown as string[] });
  assert.deepEqual(events, ["PUT ä:4", "SYNCED", "PUT b:6"]);
});

test("an error in the stream is an error", async () => {
  const last = line({ error: { code: 403, class: "denied", reason: "REVOKED", message: "no" } });
  await served(
    () => ({ parts: [SYNCED, last] }),
    async (server) => {
      const watch = server.client().jobs.watch();
      await watch.next();
      await assert.rejects(watch.next(), PermissionDeniedError);
    },
  );
});

test("a watch is ended by its limit, by close, and by a signal", async () => {
  await served(
    () => ({ parts: [SYNCED], then: "stay" }),
    async (server) => {
      const client = server.client();
      const limited = client.jobs.watch({ timeoutMs: 1_000 });
      await limited.next();
      await assert.rejects(limited.next(), WaitTimeoutError);
      const closed = client.jobs.watch();
      await closed.next();
      const waiting = closed.next();
      closed.close();
      assert.equal(await waiting, undefined);
      const ending = new AbortController();
      const aborted = client.jobs.watch({ signal: ending.signal });
      await aborted.next();
      const failing = aborted.next();
      ending.abort(new Error("enough"));
      await assert.rejects(failing, /enough/);
      assert.equal(server.asked.length, 3, "none was opened again");
    },
  );
});

test("close wakes who opens a watch, and who waits before that", async () => {
  for (const retry of [{}, { firstMs: 60_000, longestMs: 60_000 }]) {
    let asked = () => undefined as void;
    const came = new Promise<void>((resolve) => (asked = resolve));
    // The first is never answered; the second fails at once, so that it waits for long.
    const transport: Transport = () => {
      asked();
      return "firstMs" in retry ? Promise.reject(new NotSent("no")) : new Promise(() => undefined);
    };
    const watch = new Client({ controller: "https://a:1", transport, retry }).jobs.watch();
    const waiting = watch.next();
    await came;
    setImmediate(() => watch.close());
    assert.equal(await waiting, undefined);
  }
});

test("a silent stream is opened anew, and a controller that stays away ends a watch", async () => {
  limits.silent = 300;
  const stays = (...parts: string[]): Answer => ({ parts, then: "stay" });
  const [events, from] = await watched(3, stays(event("a", 4)), stays(event("a", 4), SYNCED), stays(SYNCED, event("a", 6)));
  assert.deepEqual(events, ["PUT a:4", "SYNCED", "PUT a:6"]);
  assert.deepEqual(from, ["0", "0", "5"]);
  limits.away = 50;
  await served(
    () => undefined,
    async (server) => assert.rejects(server.client().jobs.watch().next(), UnavailableError),
  );
});

/** Gives a running job, then these streams. */
function waiting(...streams: Answer[]): (asked: unknown, number: number) => Answer {
  const job: Answer = { json: { metadata: { name: "a", tenant: "nlp", uid: "u" }, status: { phase: "RUNNING" } } };
  const answers = [job, ...streams];
  return (_, number) => answers[Math.min(number, answers.length) - 1];
}

test("a wait ends with the job of its uid, or says how it failed", async () => {
  const parts = [event("a", 4, { phase: "FAILED", uid: "earlier" }), event("a", 5), SYNCED, event("a", 6, { phase: "COMPLETED" })];
  await served(waiting({ parts }), async (server) => {
    const job = await server.client().job("a");
    assert.deepEqual([(await job.wait()).status?.phase, job.ended], ["COMPLETED", true]);
  });
  await served(waiting({ parts: [event("a", 5, { phase: "FAILED" })] }), async (server) => {
    const job = await server.client().job("a");
    await assert.rejects(job.wait(), (error) => error instanceof JobFailedError && error.phase === "FAILED");
    assert.equal((await job.wait({ check: false })).status?.phase, "FAILED");
  });
});

test("a wait for a job that is deleted, and one that takes too long", async () => {
  const begun: Answer = { parts: [event("a", 5), SYNCED] };
  const unnamed = line({ type: "DELETE", job: { metadata: { name: "a", tenant: "nlp" } }, revision: "7" });
  const ways: Answer[][] = [
    [{ parts: [event("a", 5), SYNCED, event("a", 7, { kind: "DELETE" })] }],
    [{ parts: [SYNCED] }],
    [begun, gone, { parts: [SYNCED], then: "stay" }],
    [begun, gone, { parts: [event("a", 8, { uid: "another" }), SYNCED], then: "stay" }],
    [{ parts: [event("a", 5), SYNCED, unnamed], then: "stay" }],
  ];
  for (const streams of ways) {
    await served(waiting(...streams), async (server) => {
      const job = await server.client().job("a");
      await assert.rejects(job.wait({ timeoutMs: 20_000 }), NotFoundError);
    });
  }
  await served(waiting({ parts: [event("a", 5), SYNCED], then: "stay" }), async (server) => {
    const job = await server.client().job("a");
    await assert.rejects(job.wait({ timeoutMs: 100 }), (error) => error instanceof WaitTimeoutError && error.job?.status?.phase === "RUNNING");
  });
});

function chunk(rank: number, text: string, stream = "STDOUT"): string {
  return line({ rank, stream, data: Buffer.from(text).toString("base64") });
}

test("logs are text rank after rank", async () => {
  const parts = [chunk(1, "b\nbb"), chunk(0, "a\n"), chunk(0, "dropped", "NOTE"), chunk(1, "b\n"), chunk(0, "e\n", "STDERR")];
  await served(
    (asked) => (asked.target.includes("/logs") ? { parts } : { json: { metadata: { name: "a" } } }),
    async (server) => {
      const job = await server.client().job("a");
      assert.equal(await job.logs(), "[0] a\n[0] e\n[1] b\n[1] bbb\n");
      assert.equal(await job.logs({ stream: "STDERR", ranks: [0] }), "e\n");
    },
  );
});

/** The status of a job whose attempts before this one are remembered. */
function state(attempt: number, phase = "RUNNING"): object {
  return { phase, attempt, pastAttempts: Array.from({ length: attempt - 1 }, (_, past) => ({ attempt: past + 1 })) };
}

/** What is given of logs that come so, and the parameters by which each stream was asked for. */
async function followed(states: object[], ...streams: Answer[]): Promise<[string, string[]]> {
  const asked: string[] = [];
  const answer = (one: { target: string; query: URLSearchParams }): Answer => {
    if (!one.target.includes("/logs")) {
      return { json: { metadata: { name: "a" }, status: states.length > 1 ? states.shift() : states[0] } };
    }
    asked.push(["attempt", "follow"].flatMap((name) => (one.query.has(name) ? [`${name}=${one.query.get(name)}`] : [])).join(" "));
    return streams[asked.length - 1];
  };
  return served(answer, async (server) => {
    const job = await server.client().job("a");
    let text = "";
    for await (const part of job.followLogs({ timeoutMs: 30_000 })) text += Buffer.from(part.data).toString();
    return [text, asked];
  });
}

test("followed logs that were lost go on where they were", async () => {
  const [first, done] = [state(1), state(1, "COMPLETED")];
  const [text, asked] = await followed(
    [first, first, first, first, done],
    { parts: [chunk(0, "one\ntw")], then: "cut" },
    { parts: [chunk(0, "one\n"), chunk(0, "two\nthree\n")] },
  );
  assert.deepEqual([text, asked], ["one\ntwo\nthree\n", ["follow=true", "follow=true"]]);
});

test("a later attempt is not taken for the one that was lost", async () => {
  const [first, second, done] = [state(1), state(2), state(2, "COMPLETED")];
  const [text, asked] = await followed(
    [first, first, second, second, done],
    { parts: [chunk(0, "begin 1\n")], then: "cut" },
    { parts: [chunk(0, "begin 1\nend 1\n")] },
    { parts: [chunk(0, "begin 2\nend 2\n")] },
  );
  assert.equal(text, "begin 1\nend 1\nbegin 2\nend 2\n");
  assert.deepEqual(asked, ["follow=true", "attempt=1", "follow=true"]);
});
