// The plan of the queue over time, the order of what waits with its reasons, and reservations.

import { useCallback, useMemo } from "preact/hooks";
import type { Job, QueueOrder, QueueStanding, Reservation } from "../../../../../cli/clients/typescript/src/index.js";
import { useAsked, useChanges, useLive } from "../live.js";
import type { PageProps } from "../page.js";
import { Fault, instant, lasting, many, Mark, Panel, span, Table, Time } from "../parts.js";
import { jobPage } from "../route.js";

interface Bar {
  name: string;
  href: string;
  tone: string;
  from: number;
  to: number;
  /** It may begin so early and so late. */
  maybe?: [number, number];
  words: string;
}

/** Rows of the picture at most. */
const MOST = 60;
const ROW = 20;
const LEFT = 180;
const WIDE = 1340;

function bars(jobs: Iterable<Job>, pending: Job[], reservations: Reservation[], order: QueueOrder | undefined, now: number): Bar[] {
  const place = new Map((order?.standings ?? []).map((one) => [`${one.tenant}/${one.job}`, one.position ?? 0]));
  const running: Bar[] = [];
  const waiting: [number, Bar][] = [];
  const runs = [...jobs].filter((job) => job.status?.phase !== "PENDING");
  for (const job of [...runs, ...pending]) {
    const { metadata, spec, status } = job;
    const name = metadata?.name ?? "";
    const href = jobPage(metadata?.tenant, name);
    const limit = lasting(spec?.timeLimit ?? spec?.expectedDuration);
    const start = instant(status?.startTime);
    if (status?.phase === "RUNNING" || status?.phase === "RECOVERING") {
      const to = Number.isNaN(limit) ? Infinity : Math.max(now, start + limit);
      running.push({ name, href, tone: "go", from: start, to, words: Number.isNaN(limit) ? "runs, without a limit" : `runs until ${new Date(to).toLocaleTimeString()} at the latest` });
    } else if (status?.phase === "PENDING" && status.eta) {
      const { eta } = status;
      const from = instant(eta.planned ?? eta.start);
      if (Number.isNaN(from)) continue;
      const to = Number.isNaN(limit) ? Infinity : from + limit;
      const maybe: [number, number] = [instant(eta.earliest ?? eta.start), instant(eta.latest)];
      const bar: Bar = { name, href, tone: "wait", from, to, words: `is planned to start in ${span(from - now)}` };
      if (!maybe.some(Number.isNaN)) bar.maybe = maybe;
      waiting.push([place.get(`${metadata?.tenant}/${name}`) ?? 1e9, bar]);
    }
  }
  running.sort((one, other) => one.to - other.to);
  waiting.sort(([one], [other]) => one - other);
  const reserved = reservations
    .filter((one) => one.status?.phase !== "OVER")
    .map((one): Bar => {
      const from = instant(one.spec?.start);
      return { name: one.metadata?.name ?? "", href: "/ui/queue", tone: "warn", from, to: from + lasting(one.spec?.duration), words: one.spec?.maintenance ? "is for maintenance" : "is reserved" };
    });
  return [...running, ...waiting.map(([, bar]) => bar), ...reserved.filter((one) => !Number.isNaN(one.from))];
}

/** Whole steps of time for an axis. */
function steps(whole: number): number {
  const minute = 60_000;
  return [minute, 5 * minute, 15 * minute, 30 * minute, 60 * minute, 3 * 60 * minute, 6 * 60 * minute, 24 * 60 * minute, 7 * 24 * 60 * minute].find((one) => whole / one <= 9) ?? 30 * 24 * 60 * minute;
}

function Gantt({ all, now }: { all: Bar[]; now: number }) {
  const shown = all.slice(0, MOST);
  const ends = shown.flatMap((one) => [one.to, one.maybe?.[1] ?? 0]).filter(Number.isFinite);
  const from = Math.min(now, ...shown.map((one) => one.from));
  const to = Math.max(now + 600_000, ...ends);
  const whole = (to - from) * 1.04;
  const x = (at: number) => LEFT + (Math.min(1, Math.max(0, (at - from) / whole))) * (WIDE - LEFT);
  const step = steps(whole);
  const ticks = Array.from({ length: Math.floor(whole / step) + 1 }, (_, at) => (Math.floor(from / step) + 1 + at) * step).filter((at) => at < from + whole);
  const height = shown.length * ROW + 22;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Plan over time">
      <svg class="gantt" viewBox={`0 0 ${WIDE} ${height}`} role="list" aria-label="Running and waiting jobs over time">
        {ticks.map((at) => (
          <g key={at} aria-hidden="true">
            <line class="grid" x1={x(at)} x2={x(at)} y1="14" y2={height} />
            <text class="axis" x={x(at)} y="10" text-anchor="middle">
              {new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}
            </text>
          </g>
        ))}
        {shown.map((one, at) => {
          const y = 18 + at * ROW;
          return (
            <a key={`${at}${one.name}`} href={one.href} role="listitem" aria-label={`${one.name} ${one.words}`}>
              <title>{`${one.name} ${one.words}`}</title>
              <text x="0" y={y + 12}>
                {one.name.length > 26 ? `${one.name.slice(0, 25)}…` : one.name}
              </text>
              <rect class={`fill-${one.tone}`} x={x(one.from)} y={y + 2} width={Math.max(3, x(Math.min(one.to, from + whole)) - x(one.from))} height={ROW - 7} rx="2" />
              {one.maybe && <rect class="maybe" x={x(one.maybe[0])} y={y} width={Math.max(2, x(one.maybe[1]) - x(one.maybe[0]))} height={ROW - 3} rx="2" />}
            </a>
          );
        })}
        <line class="now" x1={x(now)} x2={x(now)} y1="12" y2={height} aria-hidden="true" />
      </svg>
      {all.length > MOST && <p class="quiet">{many(all.length - MOST, "further job")} not drawn.</p>}
    </div>
  );
}

function Order({ of, error }: { of: QueueStanding[]; error: Error | undefined }) {
  return (
    <Panel title="Order" wide>
      {of.length ? (
        <Table label="Order of waiting jobs" head={["position", "job", "tenant", "queue", "priority", "right", "tenant's share", "queue's share", "submitted"]} numbers={[0, 4, 6, 7]}>
          {of.slice(0, 500).map((one) => (
            <tr key={`${one.tenant}/${one.job}`}>
              <td class="number">{one.position}</td>
              <th scope="row">{one.job ? <a href={jobPage(one.tenant, one.job)}>{one.job}</a> : <span class="quiet">another tenant's</span>}</th>
              <td>{one.tenant}</td>
              <td>{one.queue || "—"}</td>
              <td class="number">{one.priority ?? 0}</td>
              <td>{one.held ? <Mark tone="off">held</Mark> : one.entitled ? <Mark tone="ok">guaranteed</Mark> : "what is free"}</td>
              <td class="number">{(one.tenantShare ?? 0).toFixed(2)}</td>
              <td class="number">{(one.queueShare ?? 0).toFixed(2)}</td>
              <td>
                <Time at={one.submitTime} />
              </td>
            </tr>
          ))}
        </Table>
      ) : (
        <p class="quiet">Nothing waits.</p>
      )}
      <Fault of={error} />
    </Panel>
  );
}

function Reservations({ of, error }: { of: Reservation[]; error: Error | undefined }) {
  return (
    <Panel title="Reservations" wide>
      {of.length ? (
        <Table label="Reservations" head={["name", "phase", "from", "for", "nodes", "tenants", "why"]}>
          {of.map((one) => (
            <tr key={one.metadata?.name}>
              <th scope="row">{one.metadata?.name}</th>
              <td>{(one.status?.phase ?? "WAITING").toLowerCase()}</td>
              <td>
                <Time at={one.spec?.start} />
              </td>
              <td>{span(lasting(one.spec?.duration))}</td>
              <td>{one.spec?.count ? many(one.spec.count, "node") : one.spec?.nodes?.join(", ")}</td>
              <td>{one.spec?.maintenance ? "maintenance" : one.spec?.tenants?.join(", ")}</td>
              <td>{one.spec?.reason}</td>
            </tr>
          ))}
        </Table>
      ) : (
        <p class="quiet">There is none.</p>
      )}
      <Fault of={error} />
    </Panel>
  );
}

/** What the page asks for again when the stream says that it has changed. */
const KINDS = ["reservations"] as const;

/** The page. */
export function QueuePage({ session, live }: PageProps) {
  const version = useLive(live.jobs);
  const { client } = session;
  const order = useAsked((signal) => client.queues.getOrder({ signal }), [session], 3000);
  // When a job will start is told to who asks, not by the stream.
  const waiting = useAsked((signal) => client.jobs.listAll({ phases: ["PENDING"], signal }).all(), [session], 5000);
  const reservations = useAsked((signal) => client.reservations.list({ signal }), [session], (failed) => (live.stream.well && !failed ? 60_000 : 10_000));
  const soon = useCallback(() => reservations.soon(1000), [reservations.soon]);
  useChanges(live.stream, KINDS, soon);
  const now = Date.now();
  const all = useMemo(() => bars(live.jobs.rows.values(), waiting.value ?? [], reservations.value?.reservations ?? [], order.value, now), [version, waiting.value, reservations.value, order.value]);
  return (
    <div class="page">
      <div class="bar">
        <h1>Queue</h1>
        <p class="quiet">
          {many(order.value?.waiting ?? 0, "job waits", "jobs wait")}
          {order.value?.fairShare ? ", fair share" : ""}
        </p>
        <p class="legend">
          <span class="key dot fill-go" /> runs, until its limit <span class="key dot fill-wait" /> planned <span class="key dot fill-warn" /> reserved
        </p>
      </div>
      <Panel title="Plan" wide>
        {all.length ? <Gantt all={all} now={now} /> : <p class="quiet">{live.jobs.synced ? "Nothing runs or waits." : "asking for jobs…"}</p>}
      </Panel>
      <Order of={order.value?.standings ?? []} error={order.error} />
      <Reservations of={reservations.value?.reservations ?? []} error={reservations.error} />
    </div>
  );
}
