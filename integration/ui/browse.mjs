// Visits every page of a real controller with a real browser: as nobody, as an administrator, and as a viewer. Ends with 1 where something is
// not as it should be, and says what.
//
// UI_URL: the controller; UI_ADMIN, UI_VIEWER: tokens; UI_TENANT: whose jobs; UI_JOB: one of them; UI_CHROMIUM: the browser; UI_SHOTS: where pictures go.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const { UI_URL: url, UI_ADMIN: admin, UI_VIEWER: viewer, UI_TENANT: tenant, UI_JOB: job, UI_CHROMIUM: executablePath, UI_SHOTS: shots } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** The longest wait for anything, in milliseconds. */
const LIMIT = 180_000;
const PAGES = ["fabric", "jobs", `jobs/${tenant}/${job}`, "queue", "tenants", "rollouts", "audit", "doctor"];

const faults = [];
const check = (good, what) => {
  if (!good) faults.push(what);
  console.log(`${good ? "ok" : "NOT OK"}: ${what}`);
};

/** A window whose console is watched; `refusals` are the states of answers that are expected, of which a browser says that they are errors. */
async function open(browser, token, { refusals = [], ...options } = {}) {
  // The controller's certificate is of the cluster's own authority, which the browser does not know; axe is put into the page from outside.
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1440, height: 900 }, ...options });
  if (token) await context.addInitScript((token) => sessionStorage.setItem("railyard.token", token), token);
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT);
  page.on("pageerror", (error) => faults.push(`${page.url()}: ${error.stack}`));
  page.on("console", (message) => {
    const refusal = Number(/status of (\d+)/.exec(message.text())?.[1]);
    if (message.type() === "error" && !refusals.includes(refusal)) faults.push(`${page.url()}: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith("data:")) faults.push(`a request outside: ${request.url()}`);
  });
  return page;
}

/** The page, when what it asks for has come. Sign-in is none of them, and a page with an error is not as it should be. */
async function visit(page, path) {
  await page.goto(`${url}/ui/${path}`);
  await page.waitForFunction(() => {
    const come = document.querySelector(".frame main h1") && !/asking for/.test(document.querySelector("main").textContent);
    return come || document.querySelector("main [role=alert], #token");
  });
  const errors = await page.evaluate(() => [...document.querySelectorAll("main [role=alert]")].map((one) => one.textContent));
  if (errors.length) faults.push(`${path}: an error is shown: ${errors}`);
  if (!(await page.$(".frame main h1"))) throw new Error(`${path}: the page is not shown, but: ${await page.textContent("main")}`);
}

/** What axe finds that is serious, by WCAG 2.2 A and AA. */
async function accessible(page, what) {
  const found = await page.evaluate(async (source) => {
    // Not a script of the page, so that its policy, which stays as it is, has nothing to say about it.
    (0, eval)(source);
    return window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
  }, axe).catch(async () => {
    // Where the policy refuses eval, the browser itself runs it.
    const client = await page.context().newCDPSession(page);
    await client.send("Runtime.evaluate", { expression: axe });
    const ran = await client.send("Runtime.evaluate", {
      expression: 'axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] })',
      awaitPromise: true,
      returnByValue: true,
    });
    return ran.result.value;
  });
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  check(!serious.length, `${what}: axe finds nothing serious${serious.map((one) => `\n  ${one.id}: ${one.nodes.slice(0, 4).map((node) => `${node.html} ${node.any?.[0]?.message ?? ""}`).join("\n    ")}`).join("")}`);
}

async function picture(page, name) {
  if (shots) await page.screenshot({ path: `${shots}/${name.replaceAll("/", "-")}.png` });
}

async function asNobody(browser) {
  const page = await open(browser, undefined, { refusals: [401, 403] });
  await page.goto(`${url}/ui`);
  await page.waitForSelector("#token");
  check(new URL(page.url()).pathname === "/ui/", "/ui leads to /ui/");
  await accessible(page, "sign-in");
  await picture(page, "sign-in");
  await page.fill("#token", "not-a-token");
  await page.keyboard.press("Enter");
  await page.waitForSelector("[role=alert]");
  await page.fill("#token", admin);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".frame main h1")?.textContent === "Fabric");
  check(true, "a token signs in");
  await page.context().close();
}

/** A token that expires meanwhile leads to sign-in, with the reason, and nothing is asked any more. */
async function expired(browser) {
  const page = await open(browser, admin, { refusals: [401] });
  await visit(page, "doctor");
  const body = JSON.stringify({ error: { code: 401, message: "the token has expired", status: "UNAUTHENTICATED" } });
  // Whether there is single sign-on is asked when somebody has to sign in.
  const offered = page.waitForResponse("**/ui/login");
  await page.route("**/v1/**", (route) => route.fulfill({ status: 401, contentType: "application/json", body }));
  await page.waitForSelector("#token");
  await offered;
  const words = await page.textContent("main");
  check(/signed out.*the token has expired/.test(words), "a token that has expired leads to sign-in, with the reason");
  check((await page.evaluate(() => sessionStorage.length)) === 0, "it is forgotten");
  let asked = 0;
  page.on("request", () => (asked += 1));
  // Longer than any poll of that page.
  await page.waitForTimeout(6000);
  check(!asked, `nothing is asked with it any more (${asked})`);
  await page.context().close();
}

async function everyPage(browser, colorScheme) {
  const page = await open(browser, admin, { colorScheme });
  for (const path of PAGES) {
    await visit(page, path);
    await accessible(page, `${path}, ${colorScheme}`);
    await picture(page, `${colorScheme}-${path}`);
  }
  await page.context().close();
}

/** A window of 1280 at a zoom of 400 %. */
async function narrow(browser) {
  const page = await open(browser, admin, { viewport: { width: 320, height: 640 } });
  for (const path of PAGES) {
    await visit(page, path);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 320, `${path}: nothing sticks out of a window of 320 (${wide})`);
    await picture(page, `narrow-${path}`);
  }
  await page.context().close();
}

async function deepLinks(page) {
  await visit(page, `jobs?phase=RUNNING,PENDING&q=tenant%3A${tenant}&sort=name`);
  const state = () => page.evaluate(() => [document.querySelector("#job-search").value, [...document.querySelectorAll(".choice input:checked")].map((one) => one.parentElement.textContent.trim().split(" ")[0]), document.querySelector(".sort select").value]);
  const first = JSON.stringify(await state());
  check(first === JSON.stringify([`tenant:${tenant}`, ["pending", "running"], "name"]), `filters are in the address: ${first}`);
  await page.reload();
  await page.waitForSelector("#job-search");
  check(JSON.stringify(await state()) === first, "filters are there after a reload");
}

/** A job that is submitted is seen without asking again. */
async function live(page) {
  await visit(page, "jobs");
  const name = `seen-${Date.now().toString(36)}`;
  const took = await page.evaluate(
    async ({ name, tenant, token }) => {
      const list = document.querySelector(".list");
      const spec = { gang: { nodes: 1 }, rails: { none: true }, command: { argv: ["true"] } };
      let seen;
      const shown = new Promise((resolve) => {
        const search = () => {
          if (list.textContent.includes(name)) resolve((seen = performance.now()));
        };
        new MutationObserver(search).observe(list, { childList: true, subtree: true, characterData: true });
      });
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const answer = await fetch(`/v1/jobs?onBehalfOf=${tenant}`, { method: "POST", headers, body: JSON.stringify({ metadata: { name }, spec }) });
      const done = performance.now();
      if (!answer.ok) throw new Error(await answer.text());
      await Promise.race([shown, new Promise((resolve) => setTimeout(resolve, 20_000))]);
      return seen === undefined ? Infinity : Math.max(0, seen - done);
    },
    { name, tenant, token: admin },
  );
  console.log(`measured: a submitted job is seen ${took.toFixed(0)} ms after its answer`);
  check(took < 20_000, "a submitted job is seen without asking again");
}

/** All that pages follow comes by one connection; when it is lost, the next one goes on behind what was seen last. */
async function oneStream(browser) {
  const page = await open(browser, admin, { refusals: [503] });
  const asked = [];
  page.on("request", (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname.endsWith(":watch")) faults.push(`a watch of its own: ${pathname}`);
    if (pathname === "/ui/events") asked.push({ kinds: searchParams.get("kinds"), fresh: searchParams.get("fresh"), last: request.headers()["last-event-id"] });
  });
  await visit(page, "queue");
  await page.waitForFunction(() => !/asking for/.test(document.querySelector("main").textContent));
  check(asked.length > 0 && asked.at(-1).kinds.includes("jobs") && asked.at(-1).kinds.includes("reservations"), `a page follows all it shows by one stream: ${JSON.stringify(asked)}`);
  // Another page wants more: what was followed goes on, what is new comes whole.
  await page.click('nav a[href="/ui/doctor"]');
  await page.waitForFunction(() => document.querySelector("main h1")?.textContent === "Doctor" && !/asking for/.test(document.querySelector("main").textContent));
  const more = asked.at(-1);
  check(/^\d+\.\d+$/.test(more.last ?? "") && more.kinds.includes("jobs") && more.kinds.includes("nodes") && more.fresh === "nodes", `it goes on and takes in more: ${JSON.stringify(more)}`);
  await page.context().close();
}

/** A rollout that somebody begins, or a tenant, is seen without asking again and again. */
async function signalled(page) {
  await visit(page, "tenants");
  const name = `t${Date.now().toString(36)}`;
  const took = await page.evaluate(
    async ({ name, token }) => {
      const begin = performance.now();
      const shown = new Promise((resolve) => {
        const search = () => document.querySelector("main").textContent.includes(name) && resolve(performance.now() - begin);
        new MutationObserver(search).observe(document.querySelector("main"), { childList: true, subtree: true, characterData: true });
      });
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const answer = await fetch("/v1/tenants", { method: "POST", headers, body: JSON.stringify({ metadata: { name }, spec: { quota: { gpus: 1 } } }) });
      if (!answer.ok) throw new Error(await answer.text());
      return Promise.race([shown, new Promise((resolve) => setTimeout(() => resolve(Infinity), 50_000))]);
    },
    { name, token: admin },
  );
  console.log(`measured: a new tenant is seen ${took.toFixed(0)} ms after it was asked for`);
  check(took < 50_000, "a new tenant is seen before it would be asked for again");
}

async function keys(page) {
  await visit(page, "fabric");
  await page.keyboard.press("g");
  await page.keyboard.press("j");
  await page.waitForSelector(".list-body .row");
  await page.keyboard.press("j");
  await page.waitForSelector(".row.chosen");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /\/ui\/jobs\/[^/]+\/[^/]+$/.test(location.pathname));
  check(true, "g j, j and Enter lead to a job");
  await visit(page, "fabric");
  await page.keyboard.press("?");
  check(await page.isVisible("dialog[open]"), "? shows the keys");
  await page.keyboard.press("Escape");
  await page.focus(".map canvas");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => /node=.+&rail=1/.test(location.search));
  check(true, "arrows walk over the map");
  for (const path of PAGES) {
    await visit(page, path);
    await page.evaluate(() => document.activeElement?.blur());
    const all = await page.evaluate(() => {
      const found = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
      const seen = found.filter((one) => one.checkVisibility() && !one.disabled && !one.closest("dialog:not([open])") && one.type !== "radio");
      seen.forEach((one, at) => (one.dataset.stop = String(at)));
      return seen.length;
    });
    // What has gone meanwhile, as a row of a live list, need not be reached; what has come makes the way longer.
    let left = Array(all).fill("");
    for (let at = 0; at < 2 * all + 60 && left.length; at += 1) {
      await page.keyboard.press("Tab");
      left = await page.evaluate(() => {
        delete document.activeElement?.dataset.stop;
        const missing = [...document.querySelectorAll("[data-stop]")].filter((one) => one.checkVisibility() && !one.disabled);
        return missing.map((one) => one.outerHTML.slice(0, 120));
      });
    }
    check(!left.length, `${path}: Tab reaches all ${all}${left.map((one) => `\n  not ${one}`).join("")}`);
  }
}

async function asViewer(browser) {
  const buttons = (page) => page.evaluate(() => [...document.querySelectorAll("main button")].map((one) => one.textContent));
  const other = await open(browser, admin);
  await visit(other, `jobs/${tenant}/${job}`);
  check((await buttons(other)).includes("Cancel"), "an administrator is offered Cancel");
  await other.context().close();
  const page = await open(browser, viewer, { refusals: [403] });
  for (const path of PAGES) {
    await visit(page, path);
    const forbidden = (await buttons(page)).filter((one) => /Cancel|Hold|Requeue|Drain|Undrain|Submit|Begin|Pause|Roll back/.test(one));
    check(!forbidden.length, `a viewer is offered nothing on ${path} that is refused: ${forbidden}`);
    await picture(page, `viewer-${path}`);
  }
  await page.context().close();
}

/**
 * Has a page believe that the controller has answered a call so: within the page, because a browser hands on a large answer of a test far slower
 * than one of a network. `make` gives the text or the bytes. Notes when it answered.
 */
async function pretend(page, call, make) {
  await page.addInitScript(
    ({ call, make }) => {
      const told = new Function(`return (${make})()`)();
      const real = window.fetch.bind(window);
      let once = true;
      window.fetch = (target, options) => {
        if (!String(target).includes(call)) return real(target, options);
        // A stream that goes on behind the first one has nothing to say.
        if (!once && call.includes("events")) return new Promise(() => undefined);
        once = false;
        window.answered = performance.now();
        return Promise.resolve(new Response(told));
      };
    },
    { call, make: String(make) },
  );
}

/** Milliseconds from the answer until something is shown. */
async function shown(page, path, ready) {
  await page.goto(`${url}/ui/${path}`);
  const handle = await page.waitForFunction((ready) => new Function(`return ${ready}`)() && performance.now() - window.answered, ready, { polling: "raf" });
  return handle.jsonValue();
}

/** A fabric of 125,024 servers with 8 rails, told by the test in place of the controller. */
async function large(browser) {
  const page = await open(browser, admin, { bypassCSP: true });
  await pretend(page, "/ui/map", () => {
    // As controller/api/src/map.rs says it.
    const [pods, nodes, rails] = [3907, 32, 8];
    const leaves = Array.from({ length: pods * rails }, (_, at) => `leaf${at}`);
    const head = JSON.stringify({ rails, nodes: pods * nodes, pods: leaves.slice(0, pods).map((_, at) => [`p${at}`, nodes]), leaves, runs: pods * rails, findings: [], findingsLeftOut: 0 });
    const padded = new TextEncoder().encode(head.padEnd(Math.ceil(head.length / 4) * 4));
    const numbers = new Uint32Array(2 * pods * rails);
    for (let at = 0; at < pods * rails; at += 1) numbers.set([at + 1, nodes], 2 * at);
    const ports = new Uint8Array(pods * nodes * rails).fill(1);
    const free = Uint8Array.from({ length: pods * nodes }, (_, node) => (Math.floor(node / nodes) * 7 + (node % nodes)) % 9);
    const names = Array.from({ length: pods * nodes }, (_, node) => `n${Math.floor(node / nodes)}-${node % nodes}\n`).join("");
    const columns = [new Uint8Array(pods * nodes).fill(8), free, new Uint8Array(pods * nodes).fill(1)];
    return new Blob(["RMAP", new Uint32Array([1, padded.length]), padded, numbers, ports, ...columns, names]);
  });
  const first = await shown(page, "fabric?shows=use", 'Number(document.querySelector(".map canvas")?.dataset.painted) > 0');
  const frames = await page.evaluate(async () => {
    const canvas = document.querySelector(".map canvas");
    const box = canvas.getBoundingClientRect();
    const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, cancelable: true };
    const begin = performance.now();
    let count = 0;
    while (performance.now() - begin < 3000) {
      canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: count % 60 < 30 ? -60 : 60 }));
      await new Promise(requestAnimationFrame);
      count += 1;
    }
    return count / ((performance.now() - begin) / 1000);
  });
  check(/125,024 nodes in 3,907 pods, 8 rails, 31,256 leaves/.test(await page.textContent(".bar")), "a large fabric is counted");
  await page.click(".choice label:first-of-type");
  check(/1,000,192 usable 0 drained 0 out of use/.test((await page.textContent(".legend")).replace(/\s+/g, " ")), "and so are its ports");
  await picture(page, "large-fabric");
  console.log(`measured: 125,024 servers with 8 rails: first picture ${first.toFixed(0)} ms after the answer, ${frames.toFixed(0)} frames a second while zooming`);
  await page.context().close();
}

/** 10,000 jobs, told by the test in place of the controller. */
async function manyJobs(browser) {
  const page = await open(browser, admin, { bypassCSP: true });
  await pretend(page, "/ui/events", () => {
    const phases = ["PENDING", "RUNNING", "COMPLETED", "FAILED"];
    const job = (at) => ({
      metadata: { name: `job-${at}`, tenant: `t${at % 20}`, uid: `u${at}`, resourceVersion: String(at + 1) },
      spec: { gang: { nodes: 1 + (at % 64), gpusPerNode: 8 } },
      status: { phase: phases[at % 4], submitTime: new Date(1.7e12 + at * 1000).toISOString(), reasons: [{ code: "GangCapacity", message: `${at} nodes more must become free` }] },
    });
    const events = Array.from({ length: 10_000 }, (_, at) => ["jobs", { type: "PUT", revision: String(at + 1), job: job(at) }]);
    return [...events, ["synced", { kinds: ["jobs"] }]].map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("");
  });
  const first = await shown(page, "jobs", 'document.querySelector(".bar [role=status]")?.textContent === "10,000 jobs"');
  const frames = await page.evaluate(async () => {
    const list = document.querySelector(".list");
    const begin = performance.now();
    let [count, longest, before] = [0, 0, begin];
    while (performance.now() - begin < 3000) {
      list.scrollTop += 240;
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      longest = Math.max(longest, now - before);
      [before, count] = [now, count + 1];
    }
    return { rate: count / ((performance.now() - begin) / 1000), longest, rows: document.querySelectorAll(".list-body .row").length };
  });
  check(frames.rows < 100, `of 10,000 jobs only what is seen is drawn: ${frames.rows} rows`);
  console.log(`measured: 10,000 jobs: all there ${first.toFixed(0)} ms after the answer, ${frames.rate.toFixed(0)} frames a second while scrolling, the longest ${frames.longest.toFixed(0)} ms`);
  await page.context().close();
}

if (shots) mkdirSync(shots, { recursive: true });
// Who is root, as tests in a container are, has no sandbox of Chromium's.
const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath, args: [...sandbox, "--disable-dev-shm-usage"], timeout: LIMIT });
try {
  await asNobody(browser);
  await expired(browser);
  await everyPage(browser, "light");
  await everyPage(browser, "dark");
  await narrow(browser);
  const page = await open(browser, admin);
  await deepLinks(page);
  await live(page);
  await signalled(page);
  await oneStream(browser);
  await keys(page);
  await asViewer(browser);
  await large(browser);
  await manyJobs(browser);
} finally {
  await browser.close();
}
for (const fault of faults) console.log(`FAULT ${fault}`);
process.exitCode = faults.length ? 1 : 0;
