// All jobs, live: filters are in the address, and only the rows that are seen are drawn.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Job } from "../../../../../cli/clients/typescript/src/index.js";
import { keyOf, useLive } from "../live.js";
import type { PageProps } from "../page.js";
import { instant, many, Phase, PHASES, span, Time, useWindow } from "../parts.js";
import { go, jobPage, setQuery, useRoute } from "../route.js";

const ROW = 29;
/** Rows drawn above and below those that are seen. */
const MORE = 8;
const ENDED = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

interface Filter {
  text: string[];
  phases: Set<string>;
  sort: string;
}

function read(query: URLSearchParams): Filter {
  const text = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const phases = new Set((query.get("phase") ?? "").split(",").filter(Boolean));
  return { text, phases, sort: query.get("sort") ?? "submitted" };
}

function gpus(job: Job): number {
  const { gang, components } = job.spec ?? {};
  if (components?.length) return components.reduce((sum, one) => sum + (one.nodes ?? 0) * (one.gpusPerNode ?? 0), 0);
  return (gang?.nodes ?? 0) * (gang?.gpusPerNode ?? 0);
}

function nodes(job: Job): number {
  const { gang, components } = job.spec ?? {};
  return components?.length ? components.reduce((sum, one) => sum + (one.nodes ?? 0), 0) : (gang?.nodes ?? 0);
}

/** Whether a job has all words: `tenant:nlp`, `user:ann`, `queue:night` name what has to have it, others anything. */
function has(job: Job, words: string[]): boolean {
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

/** What jobs are sorted by, the smallest first. */
const SORTS: Record<string, (job: Job) => number | string> = {
  submitted,
  name: (job) => job.metadata?.name ?? "",
  size: (job) => -(gpus(job) * 1e6 + nodes(job)),
  phase: (job) => PHASES.indexOf(job.status?.phase ?? "PENDING"),
};

/** Sorted; the key of each is made once. */
function sorted(jobs: Job[], by: string): Job[] {
  const key = SORTS[by] ?? submitted;
  const keyed = jobs.map((job): [number | string, Job] => [key(job), job]);
  keyed.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
  return keyed.map(([, job]) => job);
}

/** How long it has run, or waited. */
function age(job: Job, now: number): string {
  const { startTime, endTime, submitTime } = job.status ?? {};
  const from = instant(startTime ?? submitTime);
  return span((endTime ? instant(endTime) : now) - from);
}

function Row({ job, at, chosen, now }: { job: Job; at: number; chosen: boolean; now: number }) {
  const { metadata, spec, status } = job;
  const why = status?.reasons?.[0];
  const alone = ENDED.has(status?.phase ?? "") && status?.phase === "COMPLETED";
  return (
    <div role="row" aria-rowindex={at + 2} class={chosen ? "row chosen" : "row"} style={{ top: `${at * ROW}px` }}>
      <span role="cell">
        <Phase of={status?.phase} />
      </span>
      <span role="cell">
        <a href={jobPage(metadata?.tenant, metadata?.name)}>{metadata?.name}</a>
      </span>
      <span role="cell">{metadata?.tenant}</span>
      <span role="cell">{status?.submitter?.user}</span>
      <span role="cell">{spec?.queue}</span>
      <span role="cell" class="number">
        {nodes(job)}
      </span>
      <span role="cell" class="number">
        {gpus(job)}
      </span>
      <span role="cell">
        <Time at={status?.submitTime} />
      </span>
      <span role="cell" class="number">
        {age(job, now)}
      </span>
      <span role="cell" class="why" title={why?.message}>
        {!alone && why && `${why.message}`}
      </span>
    </div>
  );
}

const HEAD = ["phase", "job", "tenant", "user", "queue", "nodes", "GPUs", "submitted", "time", "why"];

function Head() {
  return (
    <div role="rowgroup" class="list-head">
      <div role="row" aria-rowindex={1} class="row head">
        {HEAD.map((one) => (
          <span role="columnheader" key={one} class={["nodes", "GPUs", "time"].includes(one) ? "number" : ""}>
            {one}
          </span>
        ))}
      </div>
    </div>
  );
}

/** `j` and `k` choose the next and the previous job, Enter opens it. */
function useChosen(rows: Job[], show: (at: number) => void): string {
  const [chosen, choose] = useState("");
  const now = useRef({ rows, chosen, show });
  now.current = { rows, chosen, show };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT|A|BUTTON|SUMMARY)$/.test(target.tagName)) return;
      const { rows, chosen, show } = now.current;
      const at = rows.findIndex((job) => keyOf(job) === chosen);
      if (event.key === "j" || event.key === "k") {
        const next = Math.min(rows.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)));
        const job = rows[next];
        if (!job) return;
        choose(keyOf(job));
        show(next);
      } else if (event.key === "Enter" && rows[at]) {
        go(jobPage(rows[at]?.metadata?.tenant, rows[at]?.metadata?.name));
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return chosen;
}

/** Which phases are shown, and by what they are sorted. */
function Choices({ filter, all }: { filter: Filter; all: Job[] }) {
  const count = useMemo(() => {
    const found = new Map<string, number>();
    for (const job of all) found.set(job.status?.phase ?? "PENDING", (found.get(job.status?.phase ?? "PENDING") ?? 0) + 1);
    return found;
  }, [all]);
  const toggle = (phase: string) => {
    const phases = new Set(filter.phases);
    if (!phases.delete(phase)) phases.add(phase);
    setQuery({ phase: [...phases].join(",") });
  };
  return (
    <>
      <fieldset class="choice">
        <legend class="sr">Phases</legend>
        {PHASES.map((phase) => (
          <label key={phase} class={count.get(phase) ? "" : "empty"}>
            <input type="checkbox" checked={filter.phases.has(phase)} onChange={() => toggle(phase)} /> {phase.toLowerCase()} {count.get(phase) ?? 0}
          </label>
        ))}
      </fieldset>
      <label class="sort">
        by{" "}
        <select value={filter.sort} onChange={(event) => setQuery({ sort: event.currentTarget.value === "submitted" ? "" : event.currentTarget.value })}>
          {Object.keys(SORTS).map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
    </>
  );
}

/** The page. */
export function JobsPage({ live }: PageProps) {
  const version = useLive(live.jobs);
  const { query } = useRoute();
  const text = query.toString();
  const all = useMemo(() => [...live.jobs.rows.values()], [version]);
  const filter = useMemo(() => read(new URLSearchParams(text)), [text]);
  const rows = useMemo(() => {
    const found = all.filter((job) => (!filter.phases.size || filter.phases.has(job.status?.phase ?? "PENDING")) && has(job, filter.text));
    return sorted(found, filter.sort);
  }, [all, filter]);
  const [now, tick] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => tick(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seen = useWindow<HTMLDivElement>();
  const chosen = useChosen(rows, (at) => {
    const element = seen.ref.current;
    if (!element) return;
    if (at * ROW < element.scrollTop) element.scrollTop = at * ROW;
    else if ((at + 2) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = (at + 2) * ROW - element.clientHeight;
  });
  const first = Math.max(0, Math.floor(seen.top / ROW) - MORE);
  const last = Math.min(rows.length, Math.ceil((seen.top + seen.height) / ROW) + MORE);
  return (
    <div class="page jobs">
      <div class="bar">
        <h1>Jobs</h1>
        <p class="quiet" role="status">
          {live.jobs.synced ? (rows.length === all.length ? many(all.length, "job") : `${rows.length.toLocaleString("en")} of ${many(all.length, "job")}`) : "asking for jobs…"}
        </p>
        <label class="sr" for="job-search">
          Search jobs
        </label>
        <input
          id="job-search"
          type="search"
          placeholder="name, tenant:nlp, user:ann, node:gpu1, label"
          value={query.get("q") ?? ""}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        <Choices filter={filter} all={all} />
      </div>
      <div class="list" ref={seen.ref} role="table" aria-label="Jobs" aria-rowcount={rows.length + 1} tabIndex={0}>
        <Head />
        <div role="rowgroup" class="list-body" style={{ height: `${Math.max(rows.length, 1) * ROW}px` }}>
          {rows.slice(first, last).map((job, at) => (
            <Row key={keyOf(job)} job={job} at={first + at} now={now} chosen={keyOf(job) === chosen} />
          ))}
        </div>
      </div>
      {live.jobs.synced && !rows.length && <p class="quiet">{all.length ? "No job is like that." : "There is no job yet: railctl submit makes one."}</p>}
    </div>
  );
}
