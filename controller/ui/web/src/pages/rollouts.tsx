// Profiles on their way to NICs and switches: stages, the canary, what differs, what a change would touch; pause, go on, take back.

import { useCallback, useRef, useState } from "preact/hooks";
import { unified } from "../../../../../cli/clients/typescript/src/diff.js";
import type { GetQosResponse, QosPlan, SwitchPlan, SwitchRollout } from "../../../../../cli/clients/typescript/src/index.js";
import { useAsked, useChanges } from "../live.js";
import type { PageProps } from "../page.js";
import { Act, Fact, Fault, lasting, many, Mark, Meter, Panel, Reasons, span, Table, Time } from "../parts.js";
import { nodePage } from "../route.js";
import type { Session } from "../session.js";

/**
 * Milliseconds between two questions: while one is under way, whose steps only agents know, where the stream is lost, and at least after it has
 * said that something changed; and while it says nothing.
 */
const OFTEN = 2000;
const SELDOM = 30_000;
const KINDS = ["rollouts"] as const;
const NONE = [] as const;

const STATES: Record<string, string> = { UNDER_WAY: "go", DONE: "ok", PAUSED: "warn", CANCELLED: "off" };

interface Stage {
  name?: string;
  all: number;
  kept: number;
  trial: number;
  failed: number;
  silent: number;
}

function Stages({ of, thing }: { of: Stage[]; thing: string }) {
  return (
    <Table label={`Stages, ${thing}`} head={["stage", thing, "kept", "", "on trial", "failed", "silent"]} numbers={[1, 2, 4, 5, 6]}>
      {of.map((one) => (
        <tr key={one.name}>
          <th scope="row">{one.name}</th>
          <td class="number">{one.all}</td>
          <td class="number">{one.kept}</td>
          <td>
            <Meter value={one.kept} of={one.all} label={`kept, ${one.name}`} tone={one.failed ? "bad" : one.kept === one.all ? "ok" : "go"} />
          </td>
          <td class="number">{one.trial}</td>
          <td class="number">{one.failed ? <Mark tone="bad">{one.failed}</Mark> : 0}</td>
          <td class="number">{one.silent}</td>
        </tr>
      ))}
    </Table>
  );
}

type Action = "PAUSE" | "RESUME" | "ROLL_BACK" | "CANCEL";

function Steer({ state, may, run }: { state: string | undefined; may: boolean; run: (action: Action) => Promise<unknown> }) {
  if (!may || !state) return null;
  const acts: [Action, string, string, boolean][] = [];
  if (state === "UNDER_WAY") acts.push(["PAUSE", "Pause", "Begin no further change? What is on trial is ended first.", false]);
  if (state === "PAUSED") acts.push(["RESUME", "Go on", "Go on with the next change?", false]);
  if (state !== "CANCELLED") acts.push(["ROLL_BACK", "Roll back", "Roll out the profile before this one?", true]);
  if (state === "UNDER_WAY" || state === "PAUSED") acts.push(["CANCEL", "Cancel", "End this rollout? What has been changed stays.", true]);
  return (
    <p class="actions">
      {acts.map(([action, name, ask, danger]) => (
        <Act key={action} name={name} ask={ask} danger={danger} run={() => run(action)} />
      ))}
    </p>
  );
}

function pretty(text: string | undefined): string[] {
  if (!text) return [];
  try {
    return JSON.stringify(JSON.parse(text), null, 2).split("\n");
  } catch {
    return text.split("\n");
  }
}

/** A difference as `diff -u` writes it. */
function Diff({ before, after, names }: { before: string | undefined; after: string | undefined; names: [string, string] }) {
  const text = unified(pretty(before), pretty(after), ...names);
  if (!text) return <p class="quiet">Nothing differs.</p>;
  return (
    <pre class="diff" tabIndex={0} aria-label="Difference">
      {text.split("\n").map((line, at) => (
        <div key={at} class={line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : ""}>
          {line}
        </div>
      ))}
    </pre>
  );
}

function Facts({ of }: { of: { by?: string; since?: string; reason?: string; canary?: string; soak?: string; confirmWithin?: string; atOnce?: number; force?: boolean } }) {
  return (
    <dl class="facts">
      <Fact name="by">{of.by}</Fact>
      <Fact name="since">
        <Time at={of.since} />
      </Fact>
      <Fact name="why">{of.reason || "—"}</Fact>
      <Fact name="canary">{of.canary || "—"}</Fact>
      <Fact name="soak">{span(lasting(of.soak))}</Fact>
      <Fact name="confirmed within">{span(lasting(of.confirmWithin))}</Fact>
      <Fact name="at once">{of.atOnce ?? 1}</Fact>
      {of.force && <Fact name="force">also where a job loses its last rail</Fact>}
    </dl>
  );
}

/** What a plan would touch. */
function Touched({ plan }: { plan: QosPlan }) {
  return (
    <div role="status">
      <p>
        {plan.unchanged ? (
          <Mark tone="ok">Nothing would begin: it is rolled out, or on its way, already</Mark>
        ) : (
          <>
            It would change <b>{many(plan.nicsTotal ?? 0, "NIC")}</b> of {many(plan.nodes ?? 0, "server")}, the canary {plan.canary} first, and take at least {span(lasting(plan.atLeast))}.{" "}
            {plan.jobs ? <Mark tone="warn">{many(plan.jobs, "job")} would move off NICs while they are changed, and back</Mark> : <Mark tone="ok">no job holds any of them</Mark>}
          </>
        )}
      </p>
      <Table label="Stages of the plan" head={["stage", "NICs", "servers", "silent", "at once", "steps"]} numbers={[1, 2, 3, 4, 5]}>
        {(plan.stages ?? []).map((one) => (
          <tr key={one.name}>
            <th scope="row">{one.name}</th>
            <td class="number">{one.nics ?? 0}</td>
            <td class="number">{one.nodes ?? 0}</td>
            <td class="number">{one.silent ?? 0}</td>
            <td class="number">{one.atOnce ?? 0}</td>
            <td class="number">{one.steps ?? 0}</td>
          </tr>
        ))}
      </Table>
    </div>
  );
}

function Begin({ session, document, again }: { session: Session; document: string; again: () => void }) {
  const [text, setText] = useState(document);
  const [reason, setReason] = useState("");
  const [state, set] = useState<{ plan?: QosPlan; of?: string; error?: Error }>({});
  if (!session.may("QosService/PlanQos")) return null;
  const plan = async () => {
    try {
      set({ plan: await session.client.qos.plan({ document: text, reason }), of: text });
    } catch (error) {
      set({ error: error as Error });
    }
  };
  return (
    <details>
      <summary>Plan a rollout of another profile</summary>
      <label class="sr" for="profile">
        Profile, JSON
      </label>
      <textarea id="profile" rows={10} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <p>
        <label>
          why <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
      </p>
      <p class="actions">
        <button type="button" class="first" onClick={plan}>
          Plan
        </button>
        {state.plan && !state.plan.unchanged && state.of === text && session.may("QosService/ApplyQos") && (
          <Act
            name="Begin this rollout"
            ask={`Bring this profile to ${many(state.plan.nicsTotal ?? 0, "NIC")}, ${state.plan.canary} first?`}
            danger
            run={async () => {
              await session.client.qos.apply({ document: text, reason });
              again();
            }}
          />
        )}
      </p>
      {state.plan && <Touched plan={state.plan} />}
      <Fault of={state.error} />
    </details>
  );
}

function Nics({ session, of, error, again }: { session: Session; of: GetQosResponse | undefined; error: Error | undefined; again: () => void }) {
  const rollout = of?.rollout;
  const steer = async (action: Action) => {
    await session.client.qos.controlRollout({ action });
    again();
  };
  return (
    <Panel title="NICs: class of service" wide aside={of?.state && rollout ? <Mark tone={STATES[of.state] ?? "off"}>{of.state.toLowerCase().replace("_", " ")}</Mark> : undefined}>
      {rollout ? (
        <>
          <Facts of={rollout} />
          <Reasons of={rollout.paused && [rollout.paused]} />
          <Stages thing="NICs" of={(of?.stages ?? []).map((one) => ({ name: one.name, all: one.nics ?? 0, kept: one.kept ?? 0, trial: one.trial ?? 0, failed: one.failed ?? 0, silent: one.silent ?? 0 }))} />
          {of?.active?.length ? (
            <>
              <h3>Being changed, or waited for</h3>
              <ul class="plain">
                {of.active.map((one, at) => (
                  <li key={at}>
                    <a href={nodePage(one.node ?? "", one.rail)}>
                      {one.node}/{one.device}
                    </a>{" "}
                    {(one.state ?? "").toLowerCase()} <span class="quiet">{one.note}</span>
                  </li>
                ))}
              </ul>
            </>
          ) : null}
          <details>
            <summary>What differs from the profile before</summary>
            <Diff before={rollout.before} after={rollout.document} names={["before", "this rollout"]} />
          </details>
          <Steer state={of?.state} may={session.may("QosService/ControlRollout")} run={steer} />
        </>
      ) : (
        !error && <p class="quiet">{of ? "Nobody has begun one." : "…"}</p>
      )}
      {of && <Begin session={session} document={pretty(rollout?.document).join("\n") || "{\n}"} again={again} />}
      <Fault of={error} />
    </Panel>
  );
}

function SwitchTouched({ plan }: { plan: SwitchPlan }) {
  if (plan.unchanged) return <Mark tone="ok">Every switch has its configuration: nothing would begin</Mark>;
  return (
    <>
      <p>
        It would change <b>{many(plan.switchesTotal ?? 0, "switch", "switches")}</b>, {plan.canary} first, take at least {span(lasting(plan.atLeast))}, and touch {many(plan.jobs ?? 0, "job")}.
      </p>
      <Table label="Switches of the plan" head={["stage", "switch", "blast radius", "what differs", "jobs", "waits for"]}>
        {(plan.switches ?? []).map((one) => (
          <tr key={one.name}>
            <td>{one.stage}</td>
            <th scope="row">{one.name}</th>
            <td>
              <Mark tone={one.impact === "HITLESS" ? "ok" : one.impact === "QUEUE_DRAIN" ? "warn" : "bad"}>{(one.impact ?? "HITLESS").toLowerCase().replace("_", " ")}</Mark>
            </td>
            <td class="wrap">
              {(one.changes ?? []).slice(0, 4).map((change, at) => (
                <div key={at}>
                  <code>{change.difference?.path}</code> {change.difference?.found || "missing"} → {change.difference?.desired || "gone"}
                </div>
              ))}
              {(one.changesTotal ?? 0) > 4 && <span class="quiet">{many((one.changesTotal ?? 0) - 4, "further change")}</span>}
            </td>
            <td>{one.jobs?.join(", ")}</td>
            <td>{one.note}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function Switches({ session, of, error, again }: { session: Session; of: SwitchRollout | undefined; error: Error | undefined; again: () => void }) {
  const [state, set] = useState<{ plan?: SwitchPlan; error?: Error }>({});
  const steer = async (action: Action) => {
    await session.client.switches.controlRollout({ action });
    again();
  };
  const plan = async () => {
    try {
      set({ plan: await session.client.switches.plan() });
    } catch (error) {
      set({ error: error as Error });
    }
  };
  const begun = Number(of?.generation ?? 0) > 0;
  return (
    <Panel title="Switches" wide aside={begun && of?.state ? <Mark tone={STATES[of.state] ?? "off"}>{of.state.toLowerCase().replace("_", " ")}</Mark> : undefined}>
      {begun && of ? (
        <>
          <Facts of={of} />
          <Reasons of={of.paused && [of.paused]} />
          <Stages thing="switches" of={(of.stages ?? []).map((one) => ({ name: one.name, all: one.switches ?? 0, kept: one.kept ?? 0, trial: one.trial ?? 0, failed: one.failed ?? 0, silent: one.silent ?? 0 }))} />
          <Steer state={of.state} may={session.may("SwitchService/ControlSwitchRollout")} run={steer} />
        </>
      ) : (
        !error && <p class="quiet">{of ? "Nobody has begun one." : "…"}</p>
      )}
      {session.may("SwitchService/PlanSwitches") && (
        <p class="actions">
          <button type="button" onClick={plan}>
            Plan
          </button>
          {state.plan && !state.plan.unchanged && session.may("SwitchService/RollOutSwitches") && (
            <Act
              name="Begin this rollout"
              ask={`Change ${many(state.plan.switchesTotal ?? 0, "switch", "switches")}, ${state.plan.canary} first?`}
              danger
              run={async () => {
                await session.client.switches.rollOut();
                again();
              }}
            />
          )}
        </p>
      )}
      <div role="status">
        {state.plan && <SwitchTouched plan={state.plan} />}
        <Fault of={state.error} />
      </div>
      <Fault of={error} />
    </Panel>
  );
}

/** The page. */
export function RolloutsPage({ session, live }: PageProps) {
  const under = useRef([false, false]);
  const every = (at: number) => (failed: boolean) => (live.stream.well && !failed && !under.current[at] ? SELDOM : OFTEN);
  /** What is under way changes by itself: whether it is counts for when it is asked again. */
  const noted = (at: number) => <T extends { state?: string }>(of: T) => {
    under.current[at] = of.state === "UNDER_WAY";
    return of;
  };
  const nics = useAsked((signal) => session.client.qos.get({ signal }).then(noted(0)), [session], every(0));
  const switches = useAsked((signal) => session.client.switches.getRollout({ signal }).then(noted(1)), [session], every(1));
  const soon = useCallback(() => {
    nics.soon(OFTEN);
    switches.soon(OFTEN);
  }, [nics.soon, switches.soon]);
  useChanges(live.stream, session.may("QosService/GetQos") ? KINDS : NONE, soon);
  return (
    <div class="page">
      <div class="bar">
        <h1>Rollouts</h1>
      </div>
      <Nics session={session} of={nics.value} error={nics.error} again={nics.again} />
      <Switches session={session} of={switches.value} error={switches.error} again={switches.again} />
    </div>
  );
}
