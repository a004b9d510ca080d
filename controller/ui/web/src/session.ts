// Who looks at the pages: by a certificate that the browser shows, a token that was pasted, or one that the controller has made for somebody who
// signed on at the site's provider. A token lives as long as the tab.

import { ofAnswer } from "../../../../cli/clients/typescript/src/answers.js";
import { readable } from "../../../../cli/clients/typescript/src/core.js";
import { ApiError, Client, fetching, type Transport, type WhoAmIResponse } from "../../../../cli/clients/typescript/src/index.js";
import { route } from "./route.js";

const KEPT = "railyard.token";

/** Somebody who has signed in. */
export interface Session {
  client: Client;
  who: WhoAmIResponse;
  /** By a token, so that one can sign out. */
  token: boolean;
  /** Whether their role may make a call, as `JobService/CancelJob`. What is somebody else's may be refused all the same. */
  may(call: string): boolean;
  /** The fabric for its map, and its tag; undefined if that is `known` already. Throws ApiError. */
  map(known: string, signal: AbortSignal): Promise<{ bytes: ArrayBuffer; tag: string } | undefined>;
  /** The stream of what pages follow; see Stream. Throws ApiError. */
  events(query: string, last: string, signal: AbortSignal): Promise<Response>;
  /** Calls somebody, once, when the controller no longer knows who this is, with the reason. */
  onRefused(refused: (why: string) => void): void;
}

/** Where the fabric is for its map, and how long an answer may take, in milliseconds. */
const MAP = "/ui/map";
/** Where the stream is. */
const EVENTS = "/ui/events";
const PATIENCE = 30_000;
/** How old an answer may be that came before somebody wanted it, in milliseconds. */
const FRESH = 2000;

/** An answer that is asked for ahead of whoever wants it: it is given once, by `take`, unless it has become old by then. */
function ahead<T>(ask: (signal: AbortSignal) => Promise<T>) {
  const end = new AbortController();
  const drop = () => end.abort();
  let came = Infinity;
  const answer = ask(end.signal);
  answer.then(
    () => (came = performance.now()),
    () => undefined,
  );
  const take = (signal: AbortSignal): Promise<T> | undefined => {
    if (performance.now() - came > FRESH) return undefined;
    if (signal.aborted) drop();
    else signal.addEventListener("abort", drop, { once: true });
    return answer;
  };
  return { drop, take };
}

/** What a refusal says; empty where it says nothing. */
async function reason(answer: Response): Promise<string> {
  try {
    return ofAnswer(JSON.parse(await answer.text()), answer.status, "").text;
  } catch {
    return "";
  }
}

async function begin(token: string | undefined): Promise<Session> {
  let refused: ((why: string) => void) | undefined;
  const transport: Transport = async (endpoint, target, sent) => {
    const answer = await fetching(endpoint, target, sent);
    if (answer.status === 401 && refused) {
      void reason(answer.clone()).then(refused);
      refused = undefined;
      if (token !== undefined) sessionStorage.removeItem(KEPT);
    }
    return answer;
  };
  const client = new Client({ token, transport });
  const get = (target: string, headers: Record<string, string>, signal: AbortSignal) => {
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    return transport(location.origin, target, { method: "GET", headers, signal, reuse: true });
  };
  const events: Session["events"] = async (query, last, signal) => {
    const answer = await get(`${EVENTS}?${query}`, last ? { "last-event-id": last } : {}, signal);
    if (!answer.ok) throw ofAnswer(readable(await answer.text()), answer.status, "");
    return answer;
  };
  const ask = async (known: string, signal: AbortSignal) => {
    const answer = await get(MAP, { "if-none-match": known }, AbortSignal.any([signal, AbortSignal.timeout(PATIENCE)]));
    if (answer.status === 304) return undefined;
    if (!answer.ok) throw ofAnswer(readable(await answer.text()), answer.status, "");
    return { bytes: await answer.arrayBuffer(), tag: answer.headers.get("etag") ?? "" };
  };
  // Asked for beside who it is that looks, so that its picture is there sooner; whoever shows no token is refused once only.
  const onFabric = () => route().page === "fabric";
  let early = token !== undefined && onFabric() ? ahead((signal) => ask("", signal)) : undefined;
  const drop = () => {
    early?.drop();
    early = undefined;
  };
  const map: Session["map"] = async (known, signal) => {
    const first = known ? undefined : early?.take(signal);
    if (!first) drop();
    early = undefined;
    return first ?? ask(known, signal);
  };
  const who = await client.tenants.whoAmI({ timeoutMs: 15_000 }).catch((error: unknown) => {
    drop();
    throw error;
  });
  if (!onFabric()) drop();
  const calls = new Set(who.mayCall ?? []);
  return { client, who, map, events, token: token !== undefined, may: (call) => calls.has(`/rail.v1.${call}`), onRefused: (call) => (refused = call) };
}

/** The token that this tab has. */
function kept(): string | undefined {
  return sessionStorage.getItem(KEPT) ?? undefined;
}

/** Where single sign-on is: what it is offered by, where it begins, and where its token is fetched, once. */
const SIGN_ON = "/ui/login";

/** The host of the provider at which one can sign on; undefined where the controller offers none. */
export async function provider(): Promise<string | undefined> {
  try {
    const answer = await fetch(SIGN_ON, { signal: AbortSignal.timeout(PATIENCE) });
    const { issuer } = answer.ok ? ((await answer.json()) as { issuer?: string }) : {};
    return issuer && new URL(issuer).host;
  } catch {
    return undefined;
  }
}

/** Leaves for the provider; the browser comes back to the page that it is at now. */
export function signOn(): void {
  location.assign(`${SIGN_ON}/start?to=${encodeURIComponent(location.pathname + location.search)}`);
}

/** The token of somebody who has just come back from the provider; undefined for everybody else. `refused`: they may not. */
async function fetched(refused: (why: string) => void): Promise<string | undefined> {
  if ((await provider()) === undefined) return undefined;
  const answer = await fetch(`${SIGN_ON}/token`, { method: "POST", signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 401) refused(await reason(answer));
  if (answer.status !== 200) return undefined;
  return ((await answer.json()) as { token?: string }).token;
}

/** Somebody by what the browser has: the tab's token, else a certificate, else a sign-on that was just done; undefined where neither is there or good. `refused`: the token is not. */
export async function resume(refused: (why: string) => void): Promise<Session | undefined> {
  const token = kept();
  try {
    return await begin(token);
  } catch (error) {
    if (!(error instanceof ApiError) || (error.code !== 401 && error.code !== 403)) throw error;
    sessionStorage.removeItem(KEPT);
    if (token !== undefined) refused(error.text);
  }
  const made = await fetched(refused);
  return made === undefined ? undefined : signIn(made);
}

/** Signs in by a token. Throws ApiError or ConfigError. */
export async function signIn(token: string): Promise<Session> {
  const session = await begin(token.trim());
  sessionStorage.setItem(KEPT, token.trim());
  return session;
}

/** Forgets the token. */
export function signOut(): void {
  sessionStorage.removeItem(KEPT);
  location.assign("/ui/");
}
