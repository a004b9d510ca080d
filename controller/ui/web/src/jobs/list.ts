// Which jobs are shown, and in which order: kept in order as jobs change, so that nothing is filtered or sorted again for one of them.

import type { Job } from "../../../../../cli/clients/typescript/src/index.js";
import { keyOf } from "../live.js";
import { instant, PHASES } from "../parts.js";

/** What is looked for. */
export interface Filter {
  text: string[];
  phases: Set<string>;
  sort: string;
}

/** The filter of an address. */
export function read(query: URLSearchParams): Filter {
  const text = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const phases = new Set((query.get("phase") ?? "").split(",").filter(Boolean));
  return { text, phases, sort: query.get("sort") ?? "submitted" };
}

/** GPUs that a job asks for. */
export function gpus(job: Job): number {
  const { gang, components } = job.spec ?? {};
  if (components?.length) return components.reduce((sum, one) => sum + (one.nodes ?? 0) * (one.gpusPerNode ?? 0), 0);
  return (gang?.nodes ?? 0) * (gang?.gpusPerNode ?? 0);
}

/** Nodes that a job asks for. */
export function nodes(job: Job): number {
  const { gang, components } = job.spec ?? {};
  return components?.length ? components.reduce((sum, one) => sum + (one.nodes ?? 0), 0) : (gang?.nodes ?? 0);
}

/** The phase of a job. */
export function phaseOf(job: Job): string {
  return job.status?.phase ?? "PENDING";
}

/** Whether a job has all words: `tenant:nlp`, `user:ann`, `queue:night` name what has to have it, others anything. */
function has(job: Job, words: string[]): boolean {
  if (!words.length) return true;
  const { metadata, spec, status } = job;
  const fields: Record<string, string> = {
    name: metadata?.name ?? "",
    tenant: metadata?.tenant ?? "",
    queue: spec?.queue ?? "",
    user: status?.submitter?.user ?? "",
    node: (status?.placement?.nodes ?? []).map((one) => one.node).join(" "),
    class: spec?.serviceClass ?? "",
  };
  const labels = Object.entries(metadata?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return words.every((word) => {
    const colon = word.indexOf(":");
    const field = fields[word.slice(0, colon)];
    if (colon > 0 && field !== undefined) return field.toLowerCase().includes(word.slice(colon + 1));
    return [fields["name"], fields["tenant"], fields["queue"], fields["user"], ...labels].some((one) => one?.toLowerCase().includes(word));
  });
}

/** The last one first. */
function submitted(job: Job): number {
  return -(instant(job.status?.submitTime) || 0);
}

type By = (job: Job) => number | string;

/** What jobs are sorted by, the smallest first. */
export const SORTS: Record<string, By> = {
  submitted,
  name: (job) => job.metadata?.name ?? "",
  size: (job) => -(gpus(job) * 1e6 + nodes(job)),
  phase: (job) => PHASES.indexOf(phaseOf(job)),
};

type Placed = [by: number | string, key: string, job: Job];

/** Jobs of which none is before itself, and of any two one: those that are alike go by their names. */
function before([by, key]: Placed, [other, otherKey]: Placed): number {
  return by < other ? -1 : by > other ? 1 : key < otherKey ? -1 : key > otherKey ? 1 : 0;
}

/** The jobs that are shown, in their order. */
export class JobList {
  /** In order. */
  rows: Job[] = [];
  /** How many there are of each phase, shown or not. */
  readonly phases = new Map<string, number>();
  /** How many there are, shown or not. */
  all = 0;
  private filter: Filter = { text: [], phases: new Set(), sort: "submitted" };

  private placed(job: Job): Placed {
    return [(SORTS[this.filter.sort] ?? submitted)(job), keyOf(job), job];
  }

  private shows(job: Job): boolean {
    const { phases, text } = this.filter;
    return (!phases.size || phases.has(phaseOf(job))) && has(job, text);
  }

  private count(job: Job, more: 1 | -1): void {
    this.all += more;
    this.phases.set(phaseOf(job), (this.phases.get(phaseOf(job)) ?? 0) + more);
  }

  /** All jobs anew, or by another filter. */
  reset(jobs: Iterable<Job>, filter: Filter = this.filter): void {
    this.filter = filter;
    this.phases.clear();
    this.all = 0;
    const found: Placed[] = [];
    for (const job of jobs) {
      this.count(job, 1);
      if (this.shows(job)) found.push(this.placed(job));
    }
    this.rows = found.sort(before).map(([, , job]) => job);
  }

  /** Where a job stands, or would. */
  private place(job: Job): number {
    const sought = this.placed(job);
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (before(this.placed(this.rows[middle] as Job), sought) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** A job was so, and is so now; undefined where there is none. */
  change(was: Job | undefined, now: Job | undefined): void {
    if (was) {
      this.count(was, -1);
      const at = this.place(was);
      if (this.rows[at] === was) this.rows.splice(at, 1);
    }
    if (now) {
      this.count(now, 1);
      if (this.shows(now)) this.rows.splice(this.place(now), 0, now);
    }
  }
}
