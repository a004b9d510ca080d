// A job's life, from its submit to its end: attempts as bars on one line of time.

import { useEffect, useState } from "preact/hooks";
import type { Job } from "../../../../../cli/clients/typescript/src/index.js";
import { instant, lasting, Panel, span, Time } from "../parts.js";

interface Piece {
  name: string;
  tone: string;
  from: number;
  to: number;
}

const ENDED = ["COMPLETED", "FAILED", "CANCELLED"];

/** Spans of waiting and running, one after the other. */
export function pieces(job: Job, now: number): Piece[] {
  const { submitTime, startTime, endTime, phase, pastAttempts } = job.status ?? {};
  const found: Piece[] = [];
  let at = instant(submitTime);
  if (Number.isNaN(at)) return [];
  for (const one of pastAttempts ?? []) {
    const [start, end] = [instant(one.startTime), instant(one.endTime)];
    if (Number.isNaN(end)) continue;
    if (!Number.isNaN(start)) {
      found.push({ name: "waits", tone: "wait", from: at, to: start });
      found.push({ name: `attempt ${one.attempt ?? 0}`, tone: "off", from: start, to: end });
    } else {
      found.push({ name: `attempt ${one.attempt ?? 0}, not started`, tone: "warn", from: at, to: end });
    }
    at = end;
  }
  const ended = ENDED.includes(phase ?? "");
  const [start, end] = [instant(startTime), ended && endTime ? instant(endTime) : now];
  if (Number.isNaN(start) || start < at) {
    found.push({ name: ended ? "waited" : "waits", tone: "wait", from: at, to: end });
  } else {
    found.push({ name: "waited", tone: "wait", from: at, to: start });
    const tone = phase === "FAILED" ? "bad" : phase === "COMPLETED" ? "ok" : phase === "CANCELLED" ? "off" : "go";
    found.push({ name: ended ? "ran" : "runs", tone, from: start, to: end });
  }
  return found.filter((one) => one.to >= one.from);
}

/** The line of time, and the same in words. */
export function Timeline({ job }: { job: Job }) {
  const [now, tick] = useState(Date.now());
  const ended = ENDED.includes(job.status?.phase ?? "");
  useEffect(() => {
    if (ended) return undefined;
    const timer = setInterval(() => tick(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ended]);
  const found = pieces(job, now);
  if (!found.length) return null;
  const [from, to] = [found[0]?.from ?? 0, found[found.length - 1]?.to ?? 0];
  const limit = lasting(job.spec?.timeLimit);
  const whole = Math.max(to - from, 1);
  return (
    <Panel title="Timeline" wide aside={<span class="quiet">{span(whole)} in all{Number.isNaN(limit) ? "" : `, limit ${span(limit)}`}</span>}>
      <svg class="timeline" viewBox="0 0 1000 18" preserveAspectRatio="none" aria-hidden="true">
        {found.map((one, at) => (
          <rect key={at} class={`fill-${one.tone}`} x={((one.from - from) / whole) * 1000} y="2" width={Math.max(1.5, ((one.to - one.from) / whole) * 1000 - 1)} height="14" />
        ))}
      </svg>
      <ol class="steps">
        {found.map((one, at) => (
          <li key={at}>
            <span class={`dot fill-${one.tone}`} aria-hidden="true" />
            {one.name} <b>{span(one.to - one.from)}</b> <span class="quiet">from <Time at={new Date(one.from).toISOString()} /></span>
          </li>
        ))}
        {job.status?.endTime && ended && (
          <li>
            ended <Time at={job.status.endTime} />
          </li>
        )}
      </ol>
    </Panel>
  );
}
