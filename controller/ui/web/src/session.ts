// Who looks at the pages: by a certificate that the browser shows, or a token that was pasted. A token lives as long as the tab.

import { ApiError, Client, type WhoAmIResponse } from "../../../../cli/clients/typescript/src/index.js";

const KEPT = "railyard.token";

/** Somebody who has signed in. */
export interface Session {
  client: Client;
  who: WhoAmIResponse;
  /** By a token, so that one can sign out. */
  token: boolean;
  /** Whether their role may make a call, as `JobService/CancelJob`. What is somebody else's may be refused all the same. */
  may(call: string): boolean;
}

async function begin(token: string | undefined): Promise<Session> {
  const client = new Client({ token });
  const who = await client.tenants.whoAmI({ timeoutMs: 15_000 });
  const calls = new Set(who.mayCall ?? []);
  return { client, who, token: token !== undefined, may: (call) => calls.has(`/rail.v1.${call}`) };
}

/** The token that this tab has. */
function kept(): string | undefined {
  return sessionStorage.getItem(KEPT) ?? undefined;
}

/** Somebody by what the browser has: the tab's token, else a certificate; undefined where neither is there or good. */
export async function resume(): Promise<Session | undefined> {
  try {
    return await begin(kept());
  } catch (error) {
    if (!(error instanceof ApiError) || (error.code !== 401 && error.code !== 403)) throw error;
    sessionStorage.removeItem(KEPT);
    return undefined;
  }
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
