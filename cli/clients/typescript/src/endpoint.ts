// Addresses of controllers, as Node connects to them.

import type { RequestOptions } from "node:https";

/** The controller's port where an address names none. */
const DEFAULT_PORT = 7443;
/** The name that a controller's certificate has for whoever reaches it by a unix socket. */
const CONTROLLER_NAME = "controller.rail.internal";

/** What a request to an endpoint needs. */
export function where(endpoint: string): RequestOptions {
  if (endpoint.startsWith("unix:")) {
    const socketPath = endpoint.slice("unix:".length).replace(/^\/\//, "");
    return { socketPath, servername: CONTROLLER_NAME, host: CONTROLLER_NAME, headers: { host: CONTROLLER_NAME } };
  }
  // Of the text: a URL does not say whether 443 was written.
  const port = /:(\d+)\/?$/.exec(endpoint)?.[1];
  return { host: new URL(endpoint).hostname.replace(/^\[|\]$/g, ""), port: port ? Number(port) : DEFAULT_PORT, headers: {} };
}
