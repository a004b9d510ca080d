// A browser as far as a sign-on needs one: it follows redirects, keeps cookies, and fills in the forms that it meets. Arguments: a URL, the name to
// sign on as, and for a device its code. OIDC_CA is a file of authorities; OIDC_HOST is the address of the host that OIDC_NAME stands for. It
// prints one JSON object: the last page's URL, status and text, the cookies that it has, and every URL on the way.

import { readFileSync } from "node:fs";
import { request } from "node:https";

const [first, name, code] = process.argv.slice(2);
const ca = readFileSync(process.env.OIDC_CA);
const jars = new Map();

function cookies(url) {
  const jar = jars.get(url.origin) ?? new Map();
  jars.set(url.origin, jar);
  return jar;
}

function ask(url, method, body) {
  const mapped = url.hostname === process.env.OIDC_NAME ? process.env.OIDC_HOST.split(":") : [url.hostname, url.port || 443];
  const jar = cookies(url);
  const matching = [...jar].filter(([, one]) => url.pathname.startsWith(one.path)).map(([key, one]) => `${key}=${one.value}`);
  const headers = { host: url.host, accept: "text/html", "sec-fetch-site": "same-origin" };
  if (matching.length) headers.cookie = matching.join("; ");
  if (body !== undefined) headers["content-type"] = "application/x-www-form-urlencoded";
  return new Promise((resolve, reject) => {
    const sent = request(
      // The certificate is checked by the address that is reached, and not by the name in the request.
      { host: mapped[0], port: mapped[1], servername: "", ca, method, path: url.pathname + url.search, headers, minVersion: "TLSv1.3" },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8");
        answer.on("data", (part) => (text += part));
        answer.on("end", () => {
          for (const line of answer.headers["set-cookie"] ?? []) {
            const [pair, ...attributes] = line.split(";").map((part) => part.trim());
            const [key, value] = [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)];
            const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? "/";
            const over = attributes.some((one) => /^max-age=0$/i.test(one)) || attributes.some((one) => /^expires=Thu, 01 Jan 1970/i.test(one));
            if (over) jar.delete(key);
            else jar.set(key, { value, path, line });
          }
          resolve({ status: answer.statusCode, location: answer.headers.location, text });
        });
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

const unescape = (text) => text.replace(/&amp;/g, "&").replace(/&quot;/g, '"').replace(/&#39;/g, "'");

/** The first form of a page, filled in. */
function form(page, url) {
  const found = /<form[^>]*action="([^"]*)"[^>]*>([\s\S]*?)(<\/form>|$)/i.exec(page);
  if (!found) return undefined;
  const fields = new URLSearchParams();
  for (const [input] of found[2].matchAll(/<input[^>]*>/gi)) {
    const attribute = (key) => new RegExp(`${key}="([^"]*)"`, "i").exec(input)?.[1];
    if (attribute("name")) fields.set(attribute("name"), unescape(attribute("value") ?? ""));
  }
  // A page that a script would send has its fields outside.
  if (fields.has("login")) fields.set("login", name);
  if (fields.has("password")) fields.set("password", "any");
  if (fields.has("user_code") && code) fields.set("user_code", code);
  return { url: new URL(unescape(found[1]), url), body: fields.toString() };
}

/** Where the pages' sign-on returns to. */
const CALLBACK = "/ui/login/callback";
/** The cookies that were shown there. */
let shown;

let url = new URL(first);
let answer = await ask(url, "GET");
const way = [url.href];
for (let step = 0; step < 40; step++) {
  const back = answer.status >= 300 && answer.status < 400 && answer.location;
  if (back) {
    url = new URL(back, url);
    way.push(url.href);
    if (url.pathname === CALLBACK) shown = new Map(cookies(url));
    answer = await ask(url, "GET");
    continue;
  }
  if (url.hostname === process.env.OIDC_NAME) break;
  const next = form(answer.text, url);
  if (!next) break;
  url = next.url;
  way.push(url.href);
  answer = await ask(url, "POST", next.body);
}
const kept = Object.fromEntries([...jars].map(([origin, jar]) => [origin, Object.fromEntries([...jar].map(([key, one]) => [key, one.line]))]));
const fetched = process.env.OIDC_NAME === url.hostname ? await ask(new URL("/ui/login/token", url), "POST") : undefined;
const again = fetched && (await ask(new URL("/ui/login/token", url), "POST"));
// The same answer once more, by whoever has seen it, without the cookies and with them.
const callback = way.map((one) => new URL(one)).find((one) => one.pathname === CALLBACK);
const foreign = callback && (await ask(callback, "GET"));
for (const [key, one] of shown ?? []) cookies(callback).set(key, one);
const replayed = callback && (await ask(callback, "GET"));
console.log(JSON.stringify({ url: url.href, status: answer.status, text: answer.text.slice(0, 2000), way, kept, fetched, again, foreign, replayed }));
