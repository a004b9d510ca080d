// All jobs, live: filters are in the address, and only the rows that are seen are drawn.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Job } from "../../../../../cli/clients/typescript/src/index.js";
import { JobList, read, SORTS, type Filter } from "../jobs/list.js";
import { Rows } from "../jobs/rows.js";
import { keyOf, useLive, type Live } from "../live.js";
import type { PageProps } from "../page.js";
import { many, PHASES } from "../parts.js";
import { go, jobPage, setQuery, useRoute } from "../route.js";

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
function Choices({ filter, count }: { filter: Filter; count: ReadonlyMap<string, number> }) {
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

/** The jobs that are shown, which follow both the stream and the filter. */
function useList(live: Live<Job>, filter: Filter): JobList {
  const list = useState(() => new JobList())[0];
  useMemo(() => list.reset(live.rows.values(), filter), [list, live, filter]);
  useLayoutEffect(() => live.note((was, now) => (was || now ? list.change(was, now) : list.reset(live.rows.values()))), [list, live]);
  return list;
}

/** The page. */
export function JobsPage({ live }: PageProps) {
  const { query } = useRoute();
  const text = query.toString();
  const filter = useMemo(() => read(new URLSearchParams(text)), [text]);
  const list = useList(live.jobs, filter);
  useLive(live.jobs);
  const { rows, all } = list;
  const element = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const drawn = useRef<Rows>();
  const chosen = useChosen(rows, (at) => drawn.current?.see(at));
  useLayoutEffect(() => {
    if (!element.current || !body.current) return undefined;
    const made = new Rows(element.current, body.current);
    drawn.current = made;
    return () => made.close();
  }, []);
  useLayoutEffect(() => drawn.current?.show(rows, chosen));
  return (
    <div class="page jobs">
      <div class="bar">
        <h1>Jobs</h1>
        <p class="quiet" role="status">
          {live.jobs.synced ? (rows.length === all ? many(all, "job") : `${rows.length.toLocaleString("en")} of ${many(all, "job")}`) : "asking for jobs…"}
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
        <Choices filter={filter} count={list.phases} />
      </div>
      <div class="list" ref={element} role="table" aria-label="Jobs" aria-rowcount={rows.length + 1} tabIndex={0}>
        <Head />
        <div role="rowgroup" class="list-body" ref={body} />
      </div>
      {live.jobs.synced && !rows.length && <p class="quiet">{all ? "No job is like that." : "There is no job yet: railctl submit makes one."}</p>}
    </div>
  );
}
