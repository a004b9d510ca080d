// The little YAML that railctl's configuration file needs: mappings, lists, and texts on one line. Every scalar is a text.

import { ConfigError } from "./errors.js";

interface Line {
  number: number;
  indent: number;
  text: string;
}

const QUOTED = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/;
/** Deeper than any configuration file. */
const MAX_DEPTH = 8;

class Reader {
  private at = 0;

  constructor(
    private readonly lines: readonly Line[],
    private readonly path: string,
  ) {}

  wrong(line: Line | undefined, message: string): ConfigError {
    return new ConfigError(`${this.path}:${line?.number ?? 1}: ${message}`);
  }

  document(): unknown {
    const value = this.lines.length ? this.block(0) : undefined;
    if (this.at < this.lines.length) throw this.wrong(this.lines[this.at], "this is indented as nothing before it, or is no `key: value`");
    return value;
  }

  /** The mapping or list that begins here. */
  private block(depth: number): unknown {
    const first = this.lines[this.at] as Line;
    if (depth > MAX_DEPTH) throw this.wrong(first, "nested too deep for a configuration file");
    return /^-(\s|$)/.test(first.text) ? this.items(first.indent) : this.mapping(first.indent, depth);
  }

  private items(indent: number): unknown[] {
    const found: unknown[] = [];
    for (let line = this.lines[this.at]; line && line.indent === indent && /^-(\s|$)/.test(line.text); line = this.lines[this.at]) {
      found.push(this.flow(line, line.text.slice(1).trim()));
      this.at += 1;
    }
    return found;
  }

  private mapping(indent: number, depth: number): Record<string, unknown> {
    const found: Record<string, unknown> = Object.create(null);
    for (let line = this.lines[this.at]; line && line.indent === indent; line = this.lines[this.at]) {
      const split = this.key(line);
      if (!split) throw this.wrong(line, "expected `key: value`");
      const [name, rest] = split;
      if (name in found) throw this.wrong(line, `\`${name}\` stands here twice`);
      this.at += 1;
      const next = this.lines[this.at];
      const deeper = next && (next.indent > indent || (next.indent === indent && /^-(\s|$)/.test(next.text)));
      found[name] = rest ? this.flow(line, rest) : deeper ? this.block(depth + 1) : undefined;
    }
    return found;
  }

  /** The key of a line, and what follows its colon. */
  private key(line: Line): [string, string] | undefined {
    const quoted = QUOTED.exec(line.text)?.[0];
    const end = quoted ? quoted.length : line.text.search(/:(\s|$)/);
    const rest = line.text.slice(end).trimStart();
    if (end < 0 || !/^:(\s|$)/.test(rest)) return undefined;
    return [quoted ? this.scalar(line, quoted) : line.text.slice(0, end).trim(), rest.slice(1).trim()];
  }

  /** A value on one line: a text, or a list in brackets. */
  private flow(line: Line, text: string): unknown {
    if (!text.startsWith("[")) {
      if (/^[{&*!|>]/.test(text)) throw this.wrong(line, "only texts and lists stand behind a key in a configuration file");
      return this.scalar(line, text);
    }
    const found: string[] = [];
    let rest = text.slice(1).trim();
    while (!rest.startsWith("]")) {
      const part = QUOTED.exec(rest)?.[0] ?? /^[^,\][{}"']+/.exec(rest)?.[0];
      if (!part) throw this.wrong(line, "a list in brackets has texts, with commas between them");
      found.push(this.scalar(line, part.trim()));
      rest = rest.slice(part.length).trim();
      if (rest.startsWith(",")) rest = rest.slice(1).trim();
      else if (!rest.startsWith("]")) throw this.wrong(line, "a list in brackets has texts, with commas between them, and ends with `]`");
    }
    if (rest.length > 1) throw this.wrong(line, "something stands behind a list");
    return found;
  }

  private scalar(line: Line, text: string): string {
    const quoted = QUOTED.exec(text)?.[0];
    if (quoted === undefined) {
      if (/^["']/.test(text)) throw this.wrong(line, "a quotation mark has no partner");
      return text === "~" || text === "null" ? "" : text;
    }
    if (quoted.length < text.length) throw this.wrong(line, "something stands behind a quoted text");
    if (quoted.startsWith("'")) return quoted.slice(1, -1).replaceAll("''", "'");
    try {
      return String(JSON.parse(quoted));
    } catch {
      throw this.wrong(line, "a text is not quoted as JSON quotes");
    }
  }
}

/** A line without its comment: a `#` behind a blank, outside of quotation marks that begin a value. */
function bare(raw: string): string {
  for (let at = 0; at < raw.length; at += 1) {
    if (raw[at] === "#" && (at === 0 || /\s/.test(raw[at - 1] as string))) return raw.slice(0, at).trimEnd();
    const begins = at === 0 || " \t[{,:-".includes(raw[at - 1] as string);
    const quoted = begins ? QUOTED.exec(raw.slice(at))?.[0] : undefined;
    if (quoted) at += quoted.length - 1;
  }
  return raw.trimEnd();
}

/** Reads one document; an empty one is undefined. Throws ConfigError, which names the line and shows nothing of it. */
export function parse(text: string, path: string): unknown {
  const lines: Line[] = [];
  for (const [at, raw] of text.split(/\r?\n/).entries()) {
    const line = bare(raw);
    if (line === "" || line === "---") continue;
    const body = line.trimStart();
    if (line.slice(0, line.length - body.length).includes("\t")) throw new ConfigError(`${path}:${at + 1}: tabs do not indent`);
    lines.push({ number: at + 1, indent: line.length - body.length, text: body });
  }
  return new Reader(lines, path).document();
}
