// @railyard/client/node: for programs on Node, with railctl's configuration, certificates and unix sockets.

import { X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { Agent, request, type RequestOptions } from "node:https";
import { Readable } from "node:stream";
import { createSecureContext, type TLSSocket } from "node:tls";
import { Client, type ClientOptions } from "./client.js";
import { load, type Given } from "./config.js";
import { NotSent, type Sent, type Transport } from "./core.js";
import { where } from "./endpoint.js";
import { ConfigError } from "./errors.js";

/** Milliseconds that a connection may take to be made; and after which one that waits is not used again: the controller may end it. */
const CONNECT = 5_000;
const IDLE_FOR = 8_000;
/** What OpenSSL and Node say of certificates that are not good. */
const OF_CERTIFICATES = /CERT|ALTNAME|SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)/;
/** How a peer refuses ours. In TLS 1.3 this comes behind our part of the handshake; then it has read no request. */
const REFUSED = /^ERR_SSL_.*ALERT.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)/;

/** Paths of PEM files. */
export interface Files {
  ca: string;
  cert?: string | undefined;
  key?: string | undefined;
}

/** What is trusted and shown; files that were renewed are read again, and what was good goes on while they do not fit together. */
class Credentials {
  private versions = "";
  private agent: Agent | undefined;
  private read: Pick<RequestOptions, "ca" | "cert" | "key"> = {};

  constructor(private readonly files: Files) {}

  /** The agent that keeps connections, and what a connection needs. */
  now(): { agent: Agent; tls: RequestOptions } {
    const { ca, cert, key } = this.files;
    try {
      const versions = [ca, cert, key].map((path) => (path ? statSync(path).mtimeMs : 0)).join();
      if (!this.agent || versions !== this.versions) {
        const pem = (path: string | undefined) => (path ? readFileSync(path) : undefined);
        const read = { ca: pem(ca), cert: pem(cert), key: pem(key) };
        // Fails where one of them is no PEM, or key and certificate do not fit together.
        createSecureContext(read);
        if (read.ca) new X509Certificate(read.ca);
        this.read = read;
        // Connections that wait are of what was; those of calls that are under way end by themselves.
        for (const waiting of Object.values(this.agent?.freeSockets ?? {})) for (const one of waiting ?? []) one.destroy();
        this.agent = new Agent({ keepAlive: true, maxFreeSockets: 4, timeout: IDLE_FOR });
        this.versions = versions;
      }
    } catch (error) {
      if (!this.agent) throw new ConfigError(`credentials: ${(error as Error).message}`);
    }
    return { agent: this.agent as Agent, tls: { ...this.read, minVersion: "TLSv1.3", rejectUnauthorized: true } };
  }
}

/** Sends by node:https, with certificates of the cluster's own authority. */
export function nodeTransport(files: Files): Transport {
  const credentials = new Credentials(files);
  return (endpoint, target, sent) =>
    new Promise((resolve, reject) => {
      const { agent, tls } = credentials.now();
      const to = where(endpoint);
      const headers = { ...to.headers, ...sent.headers, ...length(sent) };
      const { method, signal } = sent;
      // A new connection has an agent of its own, so that it is not one that waits.
      const asked = request({ ...to, ...tls, headers, method, path: target, signal, agent: sent.reuse ? agent : new Agent({ keepAlive: false }) });
      let connected = false;
      const slow = setTimeout(() => asked.destroy(new NotSent(`${endpoint}: no connection within ${CONNECT} ms`)), CONNECT);
      const made = () => {
        connected = true;
        clearTimeout(slow);
      };
      asked.once("socket", (socket) => {
        if (asked.reusedSocket) made();
        else (socket as TLSSocket).once("secureConnect", made);
      });
      asked.on("error", (error: NodeJS.ErrnoException) => {
        clearTimeout(slow);
        if (REFUSED.test(error.code ?? "")) return reject(new NotSent(`${endpoint}: ${error.message}`, "CERTIFICATE_REFUSED"));
        if (connected || signal.aborted || error instanceof NotSent) return reject(error);
        const tlsReason = OF_CERTIFICATES.test(error.code ?? "") ? "CERTIFICATE_NOT_TRUSTED" : "";
        return reject(new NotSent(`${endpoint}: ${error.message}`, tlsReason));
      });
      asked.once("response", (answer) => {
        clearTimeout(slow);
        const names = Object.entries(answer.headers).flatMap(([name, value]): [string, string][] => (typeof value === "string" ? [[name, value]] : []));
        const status = answer.statusCode ?? 500;
        const empty = status === 204 || status === 205 || status === 304;
        const body = empty ? null : (Readable.toWeb(answer) as unknown as ReadableStream<Uint8Array>);
        resolve(new Response(body, { status, headers: names }));
      });
      asked.end(sent.body);
    });
}

function length(sent: Sent): Record<string, string> {
  if (sent.body !== undefined) return { "content-length": String(Buffer.byteLength(sent.body)) };
  return sent.method === "GET" || sent.method === "DELETE" ? {} : { "content-length": "0" };
}

/** What `connect` may be given: what railctl takes from options, and what a client is made of. */
export type ConnectOptions = Given & Omit<ClientOptions, "transport" | "controller" | "token" | "tenant">;

/** A client of the cluster that railctl would reach: arguments, then environment, then the context. Throws ConfigError. */
export function connect(options: ConnectOptions = {}): Client {
  const { timeoutMs, retry } = options;
  const found = load(options);
  const { controller, token, tenant } = found;
  return new Client({ controller, token, tenant, timeoutMs, retry, transport: nodeTransport(found) });
}

export { load, type Found, type Given } from "./config.js";
