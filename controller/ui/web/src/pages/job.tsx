// One job: where it is in its life, what is in its way, where its ranks are, what rails carry, what it writes, and what if it asked for less.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, type ExplainJobResponse, type Job, type NodeRails } from "../../../../../cli/clients/typescript/src/index.js";
import { Explained } from "../job/explained.js";
import { Logs } from "../job/logs.js";
import { Timeline } from "../job/timeline.js";
import { WhatIf } from "../job/whatif.js";
import { keyOf, useAsked, useLive } from "../live.js";
import type { PageProps } from "../page.js";
import { Act, bytes, Fact, Fault, many, Mark, Panel, Phase, rate, Reasons, Table, Time } from "../parts.js";
import { nodePage } from "../route.js";
import type { Session } from "../session.js";

const ENDED = ["COMPLETED", "FAILED", "CANCELLED"];

function Actions({ job, session }: { job: Job; session: Session }) {
  const { client } = session;
  const name = job.metadata?.name ?? "";
  const params = { tenant: job.metadata?.tenant };
  const ended = ENDED.includes(job.status?.phase ?? "");
  const held = (job.status?.holds ?? []).length > 0;
  if (ended) return null;
  return (
    <p class="actions">
      {!held && session.may("JobService/HoldJob") && <Act name="Hold" ask={`Keep ${name} from starting? What runs goes on.`} run={() => client.jobs.hold(name, params)} />}
      {held && session.may("JobService/ReleaseJob") && <Act name="Release" ask={`Let ${name} start again?`} run={() => client.jobs.release(name, params)} />}
      {job.status?.phase === "RUNNING" && session.may("JobService/RequeueJob") && (
        <Act name="Requeue" ask={`Stop ${name} and queue it again? What it has not saved is lost.`} danger run={() => client.jobs.requeue(name, params)} />
      )}
      {session.may("JobService/CancelJob") && <Act name="Cancel" ask={`End ${name}? Its ranks get SIGTERM, and SIGKILL after the grace period.`} danger run={() => client.jobs.cancel(name, params)} />}
    </p>
  );
}

function RankMap({ job }: { job: Job }) {
  const placement = job.status?.placement;
  const exits = useMemo(() => new Map((job.status?.exits ?? []).map((one) => [one.rank ?? 0, one])), [job]);
  const [all, setAll] = useState(false);
  if (!placement?.nodes?.length) return null;
  const ranks = placement.ranks ?? [];
  const shown = all ? ranks : ranks.slice(0, 64);
  return (
    <Panel
      title="Rank map"
      aside={
        <span class="quiet">
          {many(ranks.length, "rank")} on {many(placement.nodes.length, "node")} in {many(placement.pods ?? 1, "pod")}
          {placement.spares?.length ? `, ${many(placement.spares.length, "spare")}` : ""}
        </span>
      }
    >
      <Table label="Rank map" head={["rank", "node", "GPU", "NIC", "rail", "leaf", "exit"]} numbers={[0, 4]}>
        {shown.map((one) => {
          const exit = exits.get(one.rank ?? 0);
          return (
            <tr key={one.rank ?? 0}>
              <th scope="row" class="number">
                {one.rank ?? 0}
              </th>
              <td>
                <a href={nodePage(one.node ?? "", one.rail)}>{one.node}</a>
              </td>
              <td>{one.gpus?.join(", ") ?? "—"}</td>
              <td>{one.nic || "—"}</td>
              <td class="number">{one.nic ? (one.rail ?? 0) : "—"}</td>
              <td>{one.leaf || "—"}</td>
              <td>{exit ? exit.signal ? <Mark tone="bad">signal {exit.signal}</Mark> : exit.code ? <Mark tone="bad">{exit.code}</Mark> : <Mark tone="ok">0</Mark> : ""}</td>
            </tr>
          );
        })}
      </Table>
      {shown.length < ranks.length && (
        <button type="button" onClick={() => setAll(true)}>
          All {ranks.length} ranks
        </button>
      )}
      <Reasons of={placement.reasons} />
    </Panel>
  );
}

function Rails({ explained }: { explained: ExplainJobResponse | undefined }) {
  const rows = (explained?.rails ?? []).flatMap((node: NodeRails) => (node.rails ?? []).map((rail) => ({ node: node.node ?? "", rail })));
  if (!rows.length) return null;
  return (
    <Panel title="Rails" aside={explained?.railsOmitted ? <span class="quiet">{many(explained.railsOmitted, "server")} more, all well</span> : undefined}>
      <Table label="Rails of this job" head={["server", "rail", "state", "sends", "receives", "sent", "received", "peers", "lost", "why"]} numbers={[1, 3, 4, 5, 6, 7, 8]}>
        {rows.slice(0, 256).map(({ node, rail }) => (
          <tr key={`${node}/${rail.rail ?? 0}`}>
            <th scope="row">
              <a href={nodePage(node, rail.rail ?? 0)}>{node}</a>
            </th>
            <td class="number">{rail.rail ?? 0}</td>
            <td>
              <Mark tone={rail.state === "UP" ? "ok" : rail.state === "DOWN" ? "bad" : "warn"}>{(rail.state ?? "not told").toLowerCase()}</Mark>
            </td>
            <td class="number">{rate(Number(rail.txRate ?? 0))}</td>
            <td class="number">{rate(Number(rail.rxRate ?? 0))}</td>
            <td class="number">{bytes(Number(rail.txBytes ?? 0))}</td>
            <td class="number">{bytes(Number(rail.rxBytes ?? 0))}</td>
            <td class="number">
              {rail.peersUp ?? 0}/{rail.peers ?? 0}
            </td>
            <td class="number">{rail.flaps ?? 0}</td>
            <td>{rail.cause}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function Result({ job }: { job: Job }) {
  const result = job.status?.result;
  if (!result) return null;
  return (
    <Panel title="Result">
      <dl class="facts">
        <Fact name="bus bandwidth">{(result.busBwGbps ?? 0).toFixed(2)} Gbit/s</Fact>
        <Fact name="message">{bytes(Number(result.bytes ?? 0))}</Fact>
        <Fact name="median">{(result.timeUsMedian ?? 0).toFixed(0)} µs</Fact>
        <Fact name="ranks">{result.ranks}</Fact>
        <Fact name="elements">{result.verified ? <Mark tone="ok">all right</Mark> : Number(result.mismatches ?? 0) ? <Mark tone="bad">{result.mismatches} wrong</Mark> : "not checked"}</Fact>
      </dl>
    </Panel>
  );
}

function Head({ job, session }: { job: Job; session: Session }) {
  const { metadata, spec, status } = job;
  return (
    <div class="bar">
      <h1>{metadata?.name}</h1>
      <Phase of={status?.phase} />
      {status?.cancelRequested && !ENDED.includes(status.phase ?? "") && <Mark tone="warn">being cancelled</Mark>}
      <dl class="facts">
        <Fact name="tenant">{metadata?.tenant}</Fact>
        <Fact name="user">{status?.submitter?.user || "—"}</Fact>
        <Fact name="queue">{spec?.queue || "—"}</Fact>
        <Fact name="priority">{spec?.priority ?? 0}</Fact>
        <Fact name="attempt">{status?.attempt ?? 0}</Fact>
        <Fact name="submitted">
          <Time at={status?.submitTime} />
        </Fact>
      </dl>
      <Actions job={job} session={session} />
    </div>
  );
}

/** Asks for a job again when another one of its name has come, or when it has vanished. */
function useSame(uid: string | undefined, asked: string | undefined, again: () => void): void {
  const before = useRef<string>();
  useEffect(() => {
    const was = before.current;
    before.current = uid;
    if (asked !== undefined && uid !== asked && (uid ?? was) !== undefined) again();
  }, [uid, asked]);
}

/** A job's state and its rails change while it lives; what is asked for beside the watch is asked for again then. */
export function JobPage({ session, live, tenant, name }: PageProps & { tenant: string; name: string }) {
  useLive(live.jobs);
  const { client } = session;
  const params = { tenant: tenant || undefined };
  const watched = live.jobs.rows.get(keyOf({ metadata: { tenant: tenant || session.who.tenant || "", name } }));
  // Before the stream has come to it, and for what is not in it.
  const asked = useAsked((signal) => client.job(name, { ...params, signal }), [session, tenant, name]);
  const handle = asked.value;
  useSame(watched?.metadata?.uid, handle?.document.metadata?.uid, asked.again);
  const gone = asked.error instanceof ApiError && asked.error.code === 404;
  const job = watched ?? (gone ? undefined : handle?.document);
  const uid = job?.metadata?.uid;
  const ended = ENDED.includes(job?.status?.phase ?? "");
  const phase = job?.status?.phase ?? "";
  const explained = useAsked((signal) => client.jobs.explain(name, { ...params, signal }), [session, tenant, name], ended || gone ? 0 : 2000);
  useEffect(explained.again, [phase, uid]);
  if (!job) return asked.error ? <Fault of={asked.error} /> : <p class="quiet">asking for the job…</p>;
  return (
    <div key={uid} class="page job">
      <Head job={job} session={session} />
      <Timeline job={job} />
      <div class="columns-2">
        <div class="side">
          <Explained job={job} explained={explained.value} error={explained.error} />
          <Result job={job} />
          <WhatIf job={job} session={session} />
        </div>
        <div class="side">
          <RankMap job={job} />
          <Rails explained={explained.value} />
        </div>
      </div>
      {handle && handle.document.metadata?.uid === uid && (job.status?.placement || job.status?.startTime || ended) && <Logs handle={handle} ranks={job.status?.placement?.ranks?.length ?? 0} />}
    </div>
  );
}
