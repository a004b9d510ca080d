// Why a job is where it is: what is in the way, who holds it, and the least that would have to change.

import type { Eta, ExplainJobResponse, Holder, Job, Relaxation } from "../../../../../cli/clients/typescript/src/index.js";
import { Fault, many, Panel, Reasons, Time } from "../parts.js";
import { jobPage } from "../route.js";

/** When it will probably start, and how sure that is. */
export function Start({ eta }: { eta: Eta | undefined }) {
  if (!eta) return null;
  const promise = { CONSERVATIVE: "no later, if every job keeps to its limit", EASY: "promised, as the first in the queue", SLACK: "promised within the slack", ESTIMATE: "an estimate" };
  return (
    <p>
      Starts about <Time at={eta.start ?? eta.planned} />
      {eta.earliest && eta.latest && (
        <>
          , between <Time at={eta.earliest} /> and <Time at={eta.latest} />
        </>
      )}{" "}
      <span class="quiet">({promise[eta.promise ?? "ESTIMATE"]})</span>
    </p>
  );
}

/** Who holds what it waits for. */
export function Holders({ of, omitted }: { of: Holder[] | undefined; omitted?: number }) {
  if (!of?.length) return null;
  return (
    <ul class="plain">
      {of.map((one, at) => (
        <li key={at}>
          {one.job ? <a href={jobPage(one.tenant, one.job)}>{one.job}</a> : "another tenant's job"} <span class="quiet">{one.tenant}</span> · {many(one.nodes ?? 0, "node")}
          {one.until && (
            <>
              {" "}
              until <Time at={one.until} />
            </>
          )}
        </li>
      ))}
      {omitted ? <li class="quiet">{many(omitted, "further job")}</li> : null}
    </ul>
  );
}

/** Changes of the file that would let it start now. */
export function Relaxations({ of }: { of: Relaxation[] | undefined }) {
  if (!of?.length) return null;
  return (
    <ul class="reasons">
      {of.map((one, at) => (
        <li key={at}>
          {(one.changes ?? []).map((change, at) => (
            <span key={at}>
              {at > 0 && " and "}
              <code>{change.field}</code> {change.from} → <b>{change.to}</b>
              {change.message && <span class="quiet"> {change.message}</span>}
            </span>
          ))}
        </li>
      ))}
    </ul>
  );
}

/** The panel. */
export function Explained({ job, explained, error }: { job: Job; explained: ExplainJobResponse | undefined; error: Error | undefined }) {
  const waits = job.status?.phase === "PENDING";
  const reasons = explained?.reasons ?? job.status?.reasons;
  return (
    <Panel title={waits ? "What is in the way" : "Why it is so"}>
      <Reasons of={reasons} none="Nothing is to be said." />
      {(job.status?.holds ?? []).map((one, at) => (
        <p key={at}>
          {one.suspended ? "Suspended" : "Held"} by {one.by || (one.role ?? "").toLowerCase()}
          {one.reason && `: ${one.reason}`} <span class="quiet"><Time at={one.since} /></span>
        </p>
      ))}
      {waits && explained && (
        <>
          <p class="quiet">
            {many(explained.queuePosition ?? 0, "job")} ahead of it; of {many(explained.nodesTotal ?? 0, "node")}, {explained.nodesFree ?? 0} are free for it, and a gang of its kind could have {explained.nodesReach ?? 0}
          </p>
          <Start eta={explained.eta} />
          {explained.infeasible && <p class="tone-bad">✕ It can never start on this cluster as it is.</p>}
        </>
      )}
      {explained?.holders?.length ? (
        <>
          <h3>Who holds it</h3>
          <Holders of={explained.holders} omitted={explained.holdersOmitted} />
        </>
      ) : null}
      {explained?.relaxations?.length ? (
        <>
          <h3>The least that would let it start now</h3>
          <Relaxations of={explained.relaxations} />
        </>
      ) : null}
      {explained?.choices?.length ? (
        <details>
          <summary>How its operations are carried out</summary>
          <ul class="reasons">
            {explained.choices.map((one, at) => (
              <li key={at}>
                <code>
                  {one.operation} ≤ {one.bytes}
                </code>{" "}
                {one.algorithm} <span class="quiet">{one.reasons?.[0]}</span>
              </li>
            ))}
          </ul>
        </details>
      ) : null}
      <Fault of={error} />
    </Panel>
  );
}
