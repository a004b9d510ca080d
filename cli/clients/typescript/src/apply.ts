// Documents applied as `railctl apply` does, and what they would change: a plan by the controller's own rules.

import { ofError } from "./answers.js";
import { ApplyRefusedError, ConfigError, type ApiError } from "./errors.js";
import { InternalError, NotFoundError } from "./generated/errors.js";
import { kinds, type Kind } from "./generated/kinds.js";
import { operations } from "./generated/operations.js";
import type { CallOptions, Core } from "./core.js";
import { unified } from "./diff.js";

/** Documents that are planned together at most. */
const MOST = 256;

/** What a file of `railctl apply` says: `kind`, `metadata`, and the rest. */
export interface AppliedDocument {
  kind?: string;
  metadata?: { name?: string; tenant?: string; generateName?: string };
  [field: string]: unknown;
}

/** How documents are applied. */
export interface ApplyOptions extends CallOptions {
  /** Nothing is stored: the answer is what would come of them. */
  dryRun?: boolean;
  /** Much fewer servers than the present fabric cables are meant. */
  allowShrink?: boolean;
  /** Names of tenants that were deleted not long ago may be given away again. */
  reuseNames?: boolean;
}

/** What comes of one document. */
export type Outcome = "CREATED" | "CHANGED" | "UNCHANGED" | "REFUSED";

/** One field that is another: its path, and its value before and after (undefined: it is not there). */
export interface FieldChange {
  readonly path: string;
  readonly before: unknown;
  readonly after: unknown;
}

type Tree = Record<string, unknown>;

function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** JSON with keys in their order, so that equal values are equal texts. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isTree(value)) return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

function equal(one: unknown, other: unknown): boolean {
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}

/** Fields that differ; lists are compared whole. */
function* compared(path: string, before: unknown, after: unknown): Generator<FieldChange> {
  if (isTree(before) && isTree(after)) {
    for (const key of [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()) {
      yield* compared(path ? `${path}.${key}` : key, before[key], after[key]);
    }
  } else if (!equal(before, after)) {
    yield { path, before, after };
  }
}

/** What comes of one document. */
export class Change {
  /** The document as it is, undefined where it is not there, and as it would be; neither of them for a secret. */
  before: Tree | undefined;
  after: Tree | undefined;
  /** Why it is refused. */
  refusal: ApiError | undefined;
  /** The answer of the call that has applied it; undefined in a dry run, and where nothing was to be done. */
  applied: unknown;

  constructor(
    readonly kind: string,
    public name: string,
    readonly tenant: string,
    public outcome: Outcome,
  ) {}

  /** The fields that differ, by their paths. */
  get fields(): FieldChange[] {
    return this.outcome === "CREATED" || this.outcome === "CHANGED" ? [...compared("", this.before, this.after)] : [];
  }

  /** The difference as `diff -u` writes it; empty where there is none. */
  diff(): string {
    const lines = (value: unknown) => (value === undefined ? [] : JSON.stringify(sorted(value), null, 2).split("\n"));
    return unified(lines(this.before), lines(this.after), `${this} as it is`, `${this}`);
  }

  toString(): string {
    const kind = this.kind.replace(/(?<=[a-z])(?=[A-Z])/g, "-").toLowerCase();
    return this.tenant ? `${kind}/${this.tenant}/${this.name}` : `${kind}/${this.name}`;
  }
}

/** What comes of documents, in their order. Its text is for people. */
export class Changes {
  constructor(
    readonly all: readonly Change[],
    readonly dryRun: boolean,
  ) {}

  /** Something is not as the documents say, or was not. */
  get changed(): boolean {
    return this.all.some((one) => one.outcome !== "UNCHANGED");
  }

  /** Those that the controller refuses. */
  get refused(): readonly Change[] {
    return this.all.filter((one) => one.outcome === "REFUSED");
  }

  toString(): string {
    const shown = (value: unknown) => (value === undefined ? "nothing" : JSON.stringify(value));
    const lines = this.all.flatMap((one) => [
      `${one} ${one.outcome.toLowerCase()}${one.refusal ? `: ${one.refusal.message}` : ""}`,
      ...(one.outcome === "CHANGED" ? one.fields.map((field) => `  ${field.path}: ${shown(field.before)} -> ${shown(field.after)}`) : []),
    ]);
    return lines.join("\n");
  }
}

interface Planned {
  outcome?: Outcome;
  document?: Record<string, Tree | undefined>;
  refusal?: Record<string, unknown>;
}

function kindOf(document: AppliedDocument): Kind {
  const name = String(document.kind);
  const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined;
  if (!kind) throw new ConfigError(`kind \`${name}\` is not made by a document; ${Object.keys(kinds).join(", ")} are`);
  return kind;
}

function metadataOf(document: Tree | undefined): Tree {
  const metadata = document?.["metadata"];
  return isTree(metadata) ? metadata : {};
}

/** Only what a document says: no status, and of the metadata the names and labels. */
function settled(document: Tree | undefined): Tree | undefined {
  if (!document) return undefined;
  const { status: _, ...found } = document;
  if (found["kind"] === "Webhook" && isTree(found["spec"])) {
    // It is shown once, to whoever has it made.
    const { secret: __, ...spec } = found["spec"];
    found["spec"] = spec;
  }
  const kept = ["name", "tenant", "labels", "generateName"];
  found["metadata"] = Object.fromEntries(Object.entries(metadataOf(document)).filter(([key]) => kept.includes(key)));
  return found;
}

/** What the controller says that would come of documents, each as if those before it had been applied. */
async function planned(core: Core, documents: readonly AppliedDocument[], options: ApplyOptions): Promise<Planned[]> {
  if (!documents.length) return [];
  if (documents.length > MOST) throw new ConfigError(`${documents.length} documents; ${MOST} are applied together at most`);
  const wired = documents.map((document) => {
    const kind = kindOf(document);
    return { [kind.field]: kind.ofTenant && kind.apply ? core.owned(document) : document };
  });
  const { timeoutMs, signal } = options;
  const params = { documents: wired, allowShrink: options.allowShrink, reuseNames: options.reuseNames, timeoutMs, signal };
  const answer = (await core.call(operations.planDocuments, {}, params)) as { documents?: Planned[] };
  const found = answer.documents ?? [];
  if (found.length !== documents.length) throw new InternalError("the plan has another number of documents", { reason: "BROKEN_ANSWER" });
  return found;
}

/** A document as it is; undefined where it is not there. */
async function current(core: Core, kind: Kind, change: Change, options: ApplyOptions): Promise<Tree | undefined> {
  const path: Record<string, string> = kind.get.path.includes("{name}") ? { name: change.name } : {};
  const { timeoutMs, signal } = options;
  try {
    return (await core.call(kind.get, path, { timeoutMs, signal, ...(kind.ofTenant ? { tenant: change.tenant } : {}) })) as Tree;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** A job whose name is taken is unchanged if the one that is there asks for the same, as the controller reads it. */
async function sameJob(core: Core, document: AppliedDocument, change: Change, options: ApplyOptions): Promise<void> {
  const there = await current(core, kindOf(document), change, options);
  const { name: _, ...other } = metadataOf(document);
  const [answer] = await planned(core, [{ ...document, metadata: { ...other, generateName: "plan-" } }], options);
  const meant = answer?.document?.["job"];
  if (!there || !meant) return;
  const asked = (one: Tree | undefined): Tree => {
    // The controller finds the others.
    const { labels } = metadataOf(one);
    return { ...one, metadata: labels === undefined ? { name: change.name } : { name: change.name, labels } };
  };
  const [before, after] = [asked(settled(there)), asked(settled(meant))];
  if (equal(before, after)) {
    change.outcome = "UNCHANGED";
    change.refusal = undefined;
  }
  [change.before, change.after] = [before, after];
}

/** What documents would change, with what there is now. */
async function plan(core: Core, documents: readonly AppliedDocument[], options: ApplyOptions): Promise<Change[]> {
  const answers = await planned(core, documents, options);
  const changes: Change[] = [];
  for (const [at, document] of documents.entries()) {
    const kind = kindOf(document);
    const found = answers[at] as Planned;
    const after = found.document?.[kind.field];
    const metadata = metadataOf(after ?? document);
    const tenant = kind.ofTenant ? String(metadata["tenant"] || core.settings.tenant) : "";
    const name = String(metadata["name"] || metadata["generateName"] || "");
    const change = new Change(String(document.kind), name, tenant, found.outcome ?? "REFUSED");
    if (found.refusal) change.refusal = ofError(found.refusal, 0, `apply ${change}`);
    if (!kind.apply && change.refusal?.reason === "NAME_TAKEN") {
      await sameJob(core, document, change, options);
    } else if (kind.field !== "secret" && !change.refusal) {
      const before = change.outcome === "CREATED" ? undefined : await current(core, kind, change, options);
      [change.before, change.after] = [settled(before), settled(after)];
    }
    changes.push(change);
  }
  return changes;
}

/** Applies documents that are not as they say, in their order, if none of them would be refused. */
export async function apply(core: Core, documents: readonly AppliedDocument[], options: ApplyOptions): Promise<Changes> {
  const changes = new Changes(await plan(core, documents, options), options.dryRun === true);
  if (options.dryRun) return changes;
  if (changes.refused.length) throw new ApplyRefusedError(changes);
  const { timeoutMs, signal } = options;
  for (const [at, change] of changes.all.entries()) {
    if (change.outcome === "UNCHANGED") continue;
    const document = documents[at] as AppliedDocument;
    const kind = kindOf(document);
    if (!kind.apply) {
      change.applied = await core.call(operations.createJob, {}, { timeoutMs, signal }, document);
      change.name = String(metadataOf(change.applied as Tree)["name"] ?? change.name);
      continue;
    }
    // What an operation does not take is left out.
    const more = { allowShrink: options.allowShrink, reuseName: options.reuseNames };
    change.applied = await core.call(kind.apply, {}, { timeoutMs, signal, ...more }, document);
  }
  return changes;
}
