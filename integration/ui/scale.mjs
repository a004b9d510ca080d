// Measures the pages with much in them: the map of 125,024 servers of 8 rails, and a list of 10,000 jobs. A small server stands in for the
// controller: it gives the built pages and answers what they ask for. Prints figures, as JSON too; ends with 1 where a goal is missed and
// UI_JUDGE is set.
//
// UI_CHROMIUM: the browser; UI_ASSETS: the built pages; UI_SECONDS: how long each thing is done; UI_SHOTS: where pictures go.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import { loadavg, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const { UI_CHROMIUM: executablePath = "/usr/bin/chromium", UI_SHOTS: shots, UI_JUDGE: judge } = process.env;
const ASSETS = process.env.UI_ASSETS ?? join(dirname(fileURLToPath(import.meta.url)), "../../controller/ui/assets");
const SECONDS = Number(process.env.UI_SECONDS ?? 5);
/** The longest wait for anything, in milliseconds. */
const LIMIT = 180_000;
const [PODS, NODES, RAILS, JOBS] = [3907, 32, 8, 10_000];
/** What is to be reached: milliseconds, and frames a second. */
const GOALS = { firstPictureMs: 2000, pan: 30, zoom: 30, close: 30, scroll: 60 };

/** The fabric as `/ui/map` tells it; `controller/api/src/map.rs` says the form. */
export function map(changed = 0) {
  const [count, leaves] = [PODS * NODES, Array.from({ length: PODS * RAILS }, (_, at) => `pod${Math.floor(at / RAILS)}-leaf${at % RAILS}`)];
  const pods = Array.from({ length: PODS }, (_, at) => [`pod${at}`, NODES]);
  let head = JSON.stringify({ rails: RAILS, nodes: count, pods, leaves, runs: PODS * RAILS, findings: [], findingsLeftOut: 0 });
  head += " ".repeat((4 - (head.length % 4)) % 4);
  const start = Buffer.alloc(12);
  start.write("RMAP");
  start.writeUInt32LE(1, 4);
  start.writeUInt32LE(head.length, 8);
  const runs = new Uint32Array(2 * PODS * RAILS);
  for (let rail = 0, at = 0; rail < RAILS; rail += 1) {
    for (let pod = 0; pod < PODS; pod += 1) [runs[at++], runs[at++]] = [pod * RAILS + rail + 1, NODES];
  }
  const ports = Buffer.alloc(count * RAILS, 1);
  for (let at = changed; at < ports.length; at += 977) ports[at] = at % 3 ? 2 : 3;
  const free = Buffer.from(Array.from({ length: count }, (_, at) => at % 9));
  const names = Array.from({ length: count }, (_, at) => `rack${Math.floor(at / NODES)}-gpu${at % NODES}\n`).join("");
  return Buffer.concat([start, Buffer.from(head), Buffer.from(runs.buffer), ports, Buffer.alloc(count, 8), free, Buffer.alloc(count, 1), Buffer.from(names)]);
}

function job(at, phase = ["PENDING", "RUNNING", "COMPLETED", "FAILED"][at % 4]) {
  return {
    metadata: { name: `job-${at}`, tenant: `t${at % 20}`, uid: `u${at}`, resourceVersion: String(at + 1) },
    spec: { gang: { nodes: 1 + (at % 64), gpusPerNode: 8 }, queue: "default" },
    status: {
      phase,
      submitTime: new Date(1.7e12 + at * 1000).toISOString(),
      submitter: { user: `user${at % 50}` },
      reasons: [{ code: "GangCapacity", message: `${at} nodes more must become free` }],
    },
  };
}

/** The answers of a controller, as far as these two pages ask. `churn`: jobs that change, each second. */
function answer(request, response, large, churn) {
  const path = new URL(request.url, "https://localhost").pathname;
  const send = (kind, body, headers = {}) => response.writeHead(200, { "content-type": kind, ...headers }).end(body);
  const json = (value) => send("application/json", JSON.stringify(value));
  const asset = { "/ui/app.js": "text/javascript", "/ui/app.css": "text/css", "/ui/icon.svg": "image/svg+xml" }[path];
  if (asset) return send(asset, readFileSync(join(ASSETS, path.slice(4))));
  if (path === "/ui/map") {
    if (request.headers["if-none-match"] === large.tag) return response.writeHead(304).end();
    return send("application/octet-stream", large.bytes, { etag: large.tag, "cache-control": "no-store" });
  }
  if (path === "/ui/events") {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const put = (one, revision) => `id: ${revision}.1\nevent: jobs\ndata: ${JSON.stringify({ type: "PUT", revision: String(revision), job: one })}\n\n`;
    const kinds = new URL(request.url, "https://localhost").searchParams.get("kinds").split(",");
    if (kinds.includes("jobs")) response.write(Array.from({ length: JOBS }, (_, at) => put(job(at), at + 1)).join(""));
    response.write(`id: ${JOBS + 1}.0\nevent: synced\ndata: ${JSON.stringify({ kinds })}\n\n`);
    let revision = JOBS + 1;
    const timer = setInterval(() => {
      for (let at = 0; at < churn() / 10; at += 1) response.write(put(job((revision * 7919) % JOBS, "RUNNING"), (revision += 1)));
    }, 100);
    return response.on("close", () => clearInterval(timer));
  }
  if (path.startsWith("/ui")) return send("text/html; charset=utf-8", readFileSync(join(ASSETS, "index.html")));
  if (path === "/v1/whoami") return json({ identity: "admin/root", user: "root", role: "ADMIN", mayCall: [] });
  if (path === "/v1/health") return json({ nodesReady: PODS * NODES, nodesTotal: PODS * NODES });
  if (path === "/v1/rails") return json({ rails: Array.from({ length: RAILS }, (_, rail) => ({ rail, nodes: PODS * NODES, nodesUp: PODS * NODES, leaves: [] })) });
  return response.writeHead(404, { "content-type": "application/json" }).end(JSON.stringify({ error: { code: 404, message: `no ${path}`, status: "NOT_FOUND" } }));
}

/** The pages take encrypted connections only; the key is of this run. */
async function serve(churn) {
  const folder = mkdtempSync(join(tmpdir(), "railyard-scale-"));
  try {
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
    execFileSync("openssl", [...made, "-keyout", key, "-out", cert], { stdio: "ignore" });
    const large = { bytes: map(), tag: 'W/"0"' };
    const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => answer(request, response, large, churn));
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    return { server, large, url: `https://localhost:${server.address().port}` };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** CPU seconds of all of a browser's processes, by their kind. */
async function used(browser) {
  const client = await browser.newBrowserCDPSession();
  const { processInfo } = await client.send("SystemInfo.getProcessInfo");
  await client.detach();
  const found = { browser: 0, renderer: 0, GPU: 0 };
  for (const one of processInfo) found[one.type] = (found[one.type] ?? 0) + one.cpuTime;
  return found;
}

/** CPU seconds of the page's main thread so far. */
async function main(client) {
  const { metrics } = await client.send("Performance.getMetrics");
  const by = Object.fromEntries(metrics.map((one) => [one.name, one.value]));
  return { task: by.TaskDuration, script: by.ScriptDuration, layout: by.LayoutDuration, style: by.RecalcStyleDuration };
}

/** Does a thing at each frame for some seconds; `step` is the text of a function of the frame's number. */
async function frames(browser, page, name, step) {
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const [before, mainBefore] = [await used(browser), await main(client)];
  const found = await page.evaluate(
    async ({ step, seconds }) => {
      const act = (0, eval)(`(${step})`);
      const begin = performance.now();
      let [count, longest, last, inside] = [0, 0, begin, 0];
      while (performance.now() - begin < seconds * 1000) {
        const at = performance.now();
        act(count);
        inside += performance.now() - at;
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        longest = Math.max(longest, now - last);
        [last, count] = [now, count + 1];
      }
      return { count, rate: count / ((performance.now() - begin) / 1000), longest, inside: inside / count };
    },
    { step: String(step), seconds: SECONDS },
  );
  const [after, mainAfter] = [await used(browser), await main(client)];
  await client.detach();
  const each = (seconds) => Number(((seconds * 1000) / found.count).toFixed(2));
  const cpu = Object.fromEntries(Object.keys(before).map((kind) => [kind, each(after[kind] - before[kind])]));
  const thread = Object.fromEntries(Object.keys(mainAfter).map((part) => [part, each(mainAfter[part] - mainBefore[part])]));
  const result = { framesPerSecond: Number(found.rate.toFixed(1)), longestMs: Math.round(found.longest), cpuMsOfAFrame: { ...cpu, mainThread: thread }, load: loadavg()[0] };
  console.log(`measured: ${name}: ${result.framesPerSecond} frames a second, the longest ${result.longestMs} ms; CPU of a frame in ms: ${JSON.stringify(result.cpuMsOfAFrame)}; load ${result.load}`);
  return result;
}

async function open(browser, faults) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1440, height: 900 }, bypassCSP: true });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT);
  page.on("pageerror", (error) => faults.push(String(error.stack)));
  await page.addInitScript(() => sessionStorage.setItem("railyard.token", "measured"));
  return page;
}

async function picture(page, name) {
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`) });
}

/** Moves the mouse over the map as whoever drags it does. */
const PAN = (count) => {
  const canvas = document.querySelector(".map canvas");
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2 + 200 * Math.sin(count / 20), box.top + box.height / 2 + 100 * Math.cos(count / 20)];
  const event = (kind) => canvas.dispatchEvent(new PointerEvent(kind, { pointerId: 1, clientX: x, clientY: y, bubbles: true }));
  if (!count) {
    canvas.setPointerCapture = () => undefined;
    event("pointerdown");
  }
  event("pointermove");
};
const ZOOM = (count) => {
  const canvas = document.querySelector(".map canvas");
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, cancelable: true };
  canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: count % 120 < 60 ? -60 : 60 }));
};
const SCROLL = (count) => {
  document.querySelector(".list").scrollTop += count % 2000 < 1000 ? 240 : -240;
};

async function fabric(browser, url, faults) {
  const page = await open(browser, faults);
  const [begun, before] = [Date.now(), await used(browser)];
  await page.goto(`${url}/ui/fabric`, { waitUntil: "commit" });
  // From the beginning of the navigation on, with the download of the pages.
  const handle = await page.waitForFunction(() => Number(document.querySelector(".map canvas")?.dataset.painted) > 0 && performance.now(), undefined, { polling: "raf" });
  const firstPictureMs = Math.round(await handle.jsonValue());
  console.log(`measured: the first picture of ${PODS * NODES} servers with ${RAILS} rails ${firstPictureMs} ms after the navigation began (${Date.now() - begun} ms by the clock of this program)`);
  // What of it was waiting for the answer, and what the browser's processes took of a processor.
  const [asked, came] = await page.evaluate(() => {
    const [found] = performance.getEntriesByType("resource").filter((one) => one.name.endsWith("/ui/map"));
    return [Math.round(found.startTime), Math.round(found.responseEnd)];
  });
  const after = await used(browser);
  const cpu = Object.fromEntries(Object.keys(before).map((kind) => [kind, Math.round((after[kind] - before[kind]) * 1000)]));
  console.log(`measured: of these the fabric was asked for after ${asked} ms, and there after ${came} ms; CPU in ms: ${JSON.stringify(cpu)}`);
  await picture(page, "scale-fabric");
  const zoom = await frames(browser, page, "zoom", ZOOM);
  await page.click(".map-tools button:last-child");
  const pan = await frames(browser, page, "pan, all in sight", PAN);
  // Near enough that ports are drawn one by one.
  await page.evaluate(() => {
    const canvas = document.querySelector(".map canvas");
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent("pointercancel", { pointerId: 1 }));
    const scale = Math.log(10 / 0.55) / 0.0016;
    canvas.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + 400, clientY: box.top + 300, deltaY: -scale, cancelable: true }));
  });
  const close = await frames(browser, page, "pan, close", PAN);
  await picture(page, "scale-fabric-close");
  await page.context().close();
  return { firstPictureMs, firstPictureCpuMs: cpu, zoom, pan, close };
}

async function jobs(browser, url, faults, churning) {
  const page = await open(browser, faults);
  await page.goto(`${url}/ui/jobs`);
  const handle = await page.waitForFunction(() => document.querySelector(".bar [role=status]")?.textContent === "10,000 jobs" && performance.now(), undefined, { polling: "raf" });
  const allMs = Math.round(await handle.jsonValue());
  console.log(`measured: 10,000 jobs are there ${allMs} ms after the navigation began`);
  const scroll = await frames(browser, page, "scroll", SCROLL);
  churning(100);
  const scrollChanging = await frames(browser, page, "scroll while 100 jobs change each second", SCROLL);
  churning(0);
  const rows = await page.evaluate(() => document.querySelectorAll(".list-body .row").length);
  console.log(`measured: ${rows} rows are drawn`);
  await picture(page, "scale-jobs");
  await page.context().close();
  return { allMs, rows, scroll, scrollChanging };
}

if (shots) mkdirSync(shots, { recursive: true });
const faults = [];
let churn = 0;
const { server, url } = await serve(() => churn);
// Who is root, as tests in a container are, has no sandbox of Chromium's.
const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath, args: [...sandbox, "--disable-dev-shm-usage"], timeout: LIMIT });
const only = process.argv[2];
const found = {};
try {
  if (only !== "jobs") found.fabric = await fabric(browser, url, faults);
  if (only !== "fabric") found.jobs = await jobs(browser, url, faults, (rate) => (churn = rate));
} finally {
  await browser.close();
  server.closeAllConnections();
  server.close();
}
console.log(JSON.stringify(found));
for (const fault of faults) console.log(`FAULT ${fault}`);
const missed = [];
const hold = (what, good) => good || missed.push(what);
if (found.fabric) {
  hold("first picture", found.fabric.firstPictureMs <= GOALS.firstPictureMs);
  for (const one of ["pan", "zoom", "close"]) hold(one, found.fabric[one].framesPerSecond >= GOALS[one]);
}
// A frame more or less at the ends of the time.
if (found.jobs) hold("scroll", found.jobs.scroll.framesPerSecond >= GOALS.scroll - 1);
for (const one of missed) console.log(`MISSED ${one}`);
process.exitCode = faults.length || (judge && missed.length) ? 1 : 0;
