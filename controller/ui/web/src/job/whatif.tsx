// What if: the job's file, edited in place, and what the scheduler would do with it now. Nothing is stored.

import { useMemo, useState } from "preact/hooks";
import type { Job, PlanJobResponse } from "../../../../../cli/clients/typescript/src/index.js";
import { Act, Fault, many, Mark, Panel, Reasons } from "../parts.js";
import { go, jobPage } from "../route.js";
import type { Session } from "../session.js";
import { Holders, Relaxations, Start } from "./explained.js";

/** What runs, without what the controller sets. */
function without<T extends { envHidden?: boolean }>(given: T): Omit<T, "envHidden"> {
  const { envHidden: _, ...rest } = given;
  return rest;
}

/** The file that makes a job like this one: without what the controller sets. */
function fileOf(job: Job): string {
  const { name, labels } = job.metadata ?? {};
  const { command, allocation } = job.spec ?? {};
  const spec = { ...job.spec, ...(command && { command: without(command) }), ...(allocation && { allocation: without(allocation) }) };
  return JSON.stringify({ apiVersion: "rail/v1", kind: "Job", metadata: { generateName: `${(name ?? "job").slice(0, 50)}-`, labels }, spec }, null, 2);
}

function Outcome({ of }: { of: PlanJobResponse }) {
  if (of.placement) {
    const nodes = (of.placement.nodes ?? []).map((one) => one.node);
    return (
      <>
        <p>
          <Mark tone="ok">It would start at once</Mark> on {nodes.slice(0, 12).join(", ")}
          {nodes.length > 12 ? ` and ${nodes.length - 12} more` : ""}, in {many(of.placement.pods ?? 1, "pod")}, on {many(of.placement.rails?.length ?? 0, "rail")}.
        </p>
        <Reasons of={of.placement.reasons} />
        {of.preempts?.length ? (
          <>
            <h3>It would stop</h3>
            <Holders of={of.preempts} />
          </>
        ) : null}
      </>
    );
  }
  return (
    <>
      <p>{of.infeasible ? <Mark tone="bad">It could never start on this cluster as it is</Mark> : <Mark tone="wait">It would wait</Mark>}</p>
      <Reasons of={of.reasons} />
      <Start eta={of.eta} />
      <Holders of={of.holders} omitted={of.holdersOmitted} />
      <Relaxations of={of.relaxations} />
    </>
  );
}

/** The panel. */
export function WhatIf({ job, session }: { job: Job; session: Session }) {
  const original = useMemo(() => fileOf(job), [job.metadata?.uid]);
  const [text, setText] = useState(original);
  const [state, set] = useState<{ busy?: boolean; plan?: PlanJobResponse; error?: Error }>({});
  const admin = session.who.role === "ADMIN";
  const params = admin ? { onBehalfOf: job.metadata?.tenant } : {};
  // The values are empty then, and a job that is submitted so would run with empty ones.
  const hidden = !!(job.spec?.command?.envHidden || job.spec?.allocation?.envHidden);
  const parsed = (): Job => JSON.parse(text) as Job;
  const plan = async () => {
    set({ busy: true });
    try {
      set({ plan: await session.client.jobs.plan(parsed(), params) });
    } catch (error) {
      set({ error: error as Error });
    }
  };
  if (!session.may("JobService/PlanJob")) return null;
  return (
    <Panel title="What if">
      <details>
        <summary>Edit this job's file and ask the scheduler</summary>
        <label class="sr" for="what-if">
          The job's file, JSON
        </label>
        <textarea id="what-if" rows={16} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <p class="actions">
          <button type="button" class="first" disabled={state.busy} onClick={plan}>
            Plan
          </button>
          <button type="button" disabled={text === original} onClick={() => setText(original)}>
            As it is
          </button>
          {session.may("JobService/CreateJob") && !hidden && (
            <Act
              name="Submit as a new job"
              ask="Submit this file as a new job?"
              run={async () => {
                const made = await session.client.jobs.create(parsed(), params);
                go(jobPage(made.metadata?.tenant, made.metadata?.name));
              }}
            />
          )}
        </p>
        {session.may("JobService/CreateJob") && hidden && (
          <p class="note">
            It cannot be submitted from here: values of its environment are not shown to you, so that this file has empty ones. Submit the file that the job was made
            from.
          </p>
        )}
        <div role="status">
          {state.plan && <Outcome of={state.plan} />}
          <Fault of={state.error} />
        </div>
      </details>
    </Panel>
  );
}
