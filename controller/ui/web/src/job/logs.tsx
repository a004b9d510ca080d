// What ranks write, as it comes: by rank, searched, and only as many lines as a browser can hold.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JobHandle } from "../../../../../cli/clients/typescript/src/index.js";
import { Fault, many, Panel, useWindow } from "../parts.js";

interface Line {
  rank: number;
  stream: string;
  text: string;
}

/** Lines that are kept; the oldest go first. */
const MOST = 50_000;
/** Characters that are kept of all lines, and of one line at most: what is longer is several. */
const ALL = 32 << 20;
const LONGEST = 64 << 10;
const ROW = 18;

/** Lines of one stream: a part of a line waits for its rest. */
class Lines {
  lines: Line[] = [];
  dropped = 0;
  private size = 0;
  private readonly parts = new Map<string, { decoder: TextDecoder; text: string }>();

  take(rank: number, stream: string, data: Uint8Array): void {
    const key = `${rank}/${stream}`;
    const part = this.parts.get(key) ?? { decoder: new TextDecoder(), text: "" };
    // Only what is new is searched for ends of lines.
    const texts = part.decoder.decode(data, { stream: true }).split("\n");
    texts[0] = part.text + (texts[0] ?? "");
    part.text = texts.pop() ?? "";
    this.parts.set(key, part);
    for (const text of texts) this.add(rank, stream, this.cut(rank, stream, text));
    part.text = this.cut(rank, stream, part.text);
    if (this.lines.length > MOST * 1.2 || this.size > ALL * 1.2) this.drop();
  }

  private add(rank: number, stream: string, text: string): void {
    this.lines.push({ rank, stream, text });
    this.size += text.length;
  }

  /** Adds the beginning of what is too long for one line; gives the rest. */
  private cut(rank: number, stream: string, text: string): string {
    let at = 0;
    for (; text.length - at > LONGEST; at += LONGEST) this.add(rank, stream, text.slice(at, at + LONGEST));
    return at ? text.slice(at) : text;
  }

  /** The oldest lines go, until what is left is few and small enough. */
  private drop(): void {
    let first = 0;
    for (; this.lines.length - first > MOST || this.size > ALL; first += 1) this.size -= this.lines[first]?.text.length ?? 0;
    this.dropped += first;
    this.lines = this.lines.slice(first);
  }

  end(): void {
    for (const [key, { text }] of this.parts) {
      const [rank, stream] = key.split("/") as [string, string];
      if (text) this.add(Number(rank), stream, text);
    }
    this.parts.clear();
  }
}

function useLines(handle: JobHandle, rank: string): { found: Lines; version: number; state: string; error: Error | undefined } {
  const found = useMemo(() => new Lines(), [handle, rank]);
  const [version, draw] = useState(0);
  const [state, set] = useState<{ state: string; error?: Error }>({ state: "follows" });
  useEffect(() => {
    const end = new AbortController();
    let frame = 0;
    const soon = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        draw((one) => one + 1);
      });
    };
    set({ state: "follows" });
    const follow = async () => {
      const ranks = rank === "" ? undefined : [Number(rank)];
      try {
        for await (const part of handle.followLogs({ ranks, signal: end.signal })) {
          found.take(part.rank, part.stream, part.data);
          soon();
        }
        found.end();
        set({ state: "ended" });
      } catch (error) {
        if (!end.signal.aborted) set({ state: "lost", error: error as Error });
      }
      soon();
    };
    void follow();
    return () => {
      end.abort();
      cancelAnimationFrame(frame);
    };
  }, [found]);
  return { found, version, ...state, error: state.error };
}

function Marked({ text, words }: { text: string; words: string }) {
  const at = words ? text.toLowerCase().indexOf(words) : -1;
  if (at < 0) return <>{text}</>;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + words.length)}</mark>
      {text.slice(at + words.length)}
    </>
  );
}

/** The panel. */
export function Logs({ handle, ranks }: { handle: JobHandle; ranks: number }) {
  const [rank, setRank] = useState("");
  const [search, setSearch] = useState("");
  const { found, version, state, error } = useLines(handle, rank);
  const words = search.toLowerCase();
  const lines = useMemo(() => (words ? found.lines.filter((one) => one.text.toLowerCase().includes(words)) : found.lines), [version, found, words]);
  const seen = useWindow<HTMLDivElement>();
  const end = useRef(true);
  useEffect(() => {
    const element = seen.ref.current;
    if (element && end.current) element.scrollTop = element.scrollHeight;
  }, [lines.length, version]);
  const first = Math.max(0, Math.floor(seen.top / ROW) - 10);
  const last = Math.min(lines.length, Math.ceil((seen.top + seen.height) / ROW) + 10);
  return (
    <Panel
      title="Logs"
      wide
      aside={
        <span class="bar-tools">
          <span class="quiet" role="status">
            {words ? `${lines.length.toLocaleString("en")} of ` : ""}
            {many(found.lines.length, "line")}
            {found.dropped ? `, ${many(found.dropped, "older one")} left out` : ""}
            {state === "follows" ? ", live" : ""}
          </span>
          <label>
            rank{" "}
            <input class="short" type="number" min="0" max={Math.max(0, ranks - 1)} placeholder="all" value={rank} onChange={(event) => setRank(event.currentTarget.value)} />
          </label>
          <label class="sr" for="log-search">
            Search logs
          </label>
          <input id="log-search" type="search" placeholder="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </span>
      }
    >
      <div
        class="logs"
        ref={seen.ref}
        tabIndex={0}
        role="log"
        aria-label="Logs"
        aria-live="off"
        onScroll={(event) => {
          const element = event.currentTarget;
          end.current = element.scrollTop + element.clientHeight >= element.scrollHeight - ROW;
        }}
      >
        <div class="list-body" style={{ height: `${lines.length * ROW}px` }}>
          {lines.slice(first, last).map((one, at) => (
            <div key={first + at} class={`line ${one.stream.toLowerCase()}`} style={{ top: `${(first + at) * ROW}px` }}>
              <span class="rank">{one.stream === "NOTE" ? "·" : one.rank}</span>
              <Marked text={one.text} words={words} />
            </div>
          ))}
        </div>
      </div>
      {!found.lines.length && state !== "follows" && <p class="quiet">It wrote nothing.</p>}
      <Fault of={error} />
    </Panel>
  );
}
