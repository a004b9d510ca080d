// Streams of JSON objects, one on each line.

import { ofError } from "./answers.js";
import { cause, MAX_ANSWER, readable } from "./core.js";
import { DeadlineExceededError, InternalError, UnavailableError } from "./generated/errors.js";

/** A stream that has begun. */
export class Lines {
  closed = false;
  private readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  private reading: Promise<ReadableStreamReadResult<Uint8Array>> | undefined;
  private readonly decoder = new TextDecoder();
  private waiting = "";
  private searched = 0;

  constructor(
    answer: Response,
    readonly operation: string,
    private readonly end: () => void,
  ) {
    this.reader = answer.body?.getReader();
  }

  /** Ends the stream. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    // A read that is under way fails by this, and nobody waits for it any more.
    this.reading?.catch(() => undefined);
    this.reader?.cancel().catch(() => undefined);
    this.end();
  }

  /**
   * The next object; undefined at a good end. Throws an ApiError, also for an error that is the stream's last line.
   * After a DeadlineExceededError of its own, in which it stays open, it may be asked again.
   */
  async next(waitMs: number): Promise<Record<string, unknown> | undefined> {
    const begun = performance.now();
    let end: number;
    while ((end = this.waiting.indexOf("\n", this.searched)) < 0) {
      this.searched = this.waiting.length;
      if (this.waiting.length > MAX_ANSWER) {
        throw new InternalError("a line of a stream is too long", { reason: "BROKEN_ANSWER", operation: this.operation });
      }
      const part = await this.part(Math.max(waitMs - (performance.now() - begun), 0));
      if (part.done) {
        this.close();
        return undefined;
      }
      this.waiting += this.decoder.decode(part.value, { stream: true });
    }
    const line = this.waiting.slice(0, end);
    this.waiting = this.waiting.slice(end + 1);
    this.searched = 0;
    const value = readable(line);
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new InternalError("a line of a stream is no JSON", { reason: "BROKEN_ANSWER", operation: this.operation });
    }
    const found = value as Record<string, unknown>;
    if (typeof found["error"] === "object" && found["error"] !== null) {
      this.close();
      throw ofError(found["error"] as Record<string, unknown>, 0, this.operation);
    }
    return found;
  }

  private async part(waitMs: number): Promise<ReadableStreamReadResult<Uint8Array>> {
    if (!this.reader || this.closed) return { done: true, value: undefined };
    this.reading ??= this.reader.read();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), Math.min(waitMs, 2 ** 31 - 1));
    });
    try {
      const part = await Promise.race([this.reading, late]);
      if (!part) throw new DeadlineExceededError("nothing came for long", { operation: this.operation });
      this.reading = undefined;
      return part;
    } catch (error) {
      if (error instanceof DeadlineExceededError) throw error;
      this.close();
      throw new UnavailableError(`the stream was lost: ${cause(error)}`, { reason: "CONNECTION_LOST", operation: this.operation });
    } finally {
      clearTimeout(timer);
    }
  }
}
