// A server that answers as a test says, on a port that the kernel chooses, without TLS; and clients of it.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, type ClientOptions } from "../src/index.js";

/** One request as it came. */
export interface Asked {
  method: string;
  target: string;
  headers: IncomingMessage["headers"];
  body: unknown;
  query: URLSearchParams;
}

/** An answer: JSON with its status; parts of a stream, which then ends, is cut or stays open; or nothing: the connection is cut. */
export type Answer = { code?: number; json: unknown } | { code?: number; parts: string[]; then?: "end" | "cut" | "stay" } | undefined;

/** An error of the API. */
export function refusal(code: number, word: string, reason: string, more: object = {}): Answer {
  return { code, json: { error: { code, class: word, reason, message: `${reason} it is`, ...more } } };
}

export class Server {
  readonly asked: Asked[] = [];
  private readonly server = createServer((request, response) => void this.take(request, response));
  private constructor(private readonly answer: (asked: Asked, number: number) => Answer) {}

  static async begin(answer: (asked: Asked, number: number) => Answer): Promise<Server> {
    const found = new Server(answer);
    await new Promise<void>((resolve) => found.server.listen(0, "127.0.0.1", resolve));
    return found;
  }

  async end(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const part of request.setEncoding("utf8")) text += part;
    const target = request.url ?? "";
    const query = new URL(target, "http://x").searchParams;
    this.asked.push({ method: request.method ?? "", target, headers: request.headers, body: text ? JSON.parse(text) : undefined, query });
    const answer = this.answer(this.asked.at(-1) as Asked, this.asked.length);
    if (!answer) return void request.socket.destroy();
    if ("json" in answer) {
      response.writeHead(answer.code ?? 200, { "content-type": "application/json" });
      return void response.end(JSON.stringify(answer.json));
    }
    response.writeHead(answer.code ?? 200, { "content-type": "application/x-ndjson" });
    response.flushHeaders();
    for (const part of answer.parts) await new Promise<void>((resolve) => response.write(part, () => resolve()));
    if (answer.then === "cut") request.socket.destroy();
    else if (answer.then !== "stay") response.end();
  }

  /** A client whose calls go to this server. */
  client(options: Partial<ClientOptions> = {}): Client {
    const { port } = this.server.address() as AddressInfo;
    return new Client({
      controller: "https://fake:1",
      tenant: "nlp",
      retry: { firstMs: 1, longestMs: 2 },
      transport: (_, target, { method, headers, body, signal }) => fetch(`http://127.0.0.1:${port}${target}`, { method, headers, body, signal }),
      ...options,
    });
  }
}

/** Runs a test with a server, and ends it. */
export async function served<T>(answer: (asked: Asked, number: number) => Answer, work: (server: Server) => Promise<T>): Promise<T> {
  const server = await Server.begin(answer);
  try {
    return await work(server);
  } finally {
    await server.end();
  }
}

export function line(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
