// What is wrong with the cluster and what mends it, the worst first.

import { useMemo } from "preact/hooks";
import type { Node } from "../../../../../cli/clients/typescript/src/index.js";
import { useAsked, useLive, type Lives } from "../live.js";
import type { PageProps } from "../page.js";
import { Fault, many, Mark, Panel, Reasons, Table } from "../parts.js";
import { nodePage } from "../route.js";

const LEVELS = ["fault", "slow", "note"] as const;
type Level = (typeof LEVELS)[number];

interface Line {
  level: Level;
  code: string;
  message: string;
  fix: string;
  subjects: { node: string; of: string }[];
}

/** Things that are wrong, one line for all servers that have the same. */
class Found {
  readonly lines = new Map<string, Line>();

  say(level: Level, code: string, message: string, fix: string, node: string, of = ""): void {
    const key = [level, code, message, fix].join("\n");
    const line = this.lines.get(key) ?? { level, code, message, fix, subjects: [] };
    line.subjects.push({ node, of });
    this.lines.set(key, line);
  }

  sorted(): Line[] {
    const order = (line: Line) => `${LEVELS.indexOf(line.level)}${line.code}${line.message}`;
    return [...this.lines.values()].sort((one, other) => order(one).localeCompare(order(other)));
  }
}

const SEVERITY: Record<string, Level> = { DRAIN: "fault", DEGRADED: "slow" };

function examine(found: Found, node: Node): void {
  const name = node.metadata?.name ?? "";
  const { status, spec } = node;
  if (!status) return;
  if (status.phase !== "READY") found.say("fault", "NotReady", "its agent has not been heard of", "look at its agent: systemctl status rail-node-agent", name);
  if (status.quarantined) found.say("fault", "Quarantined", status.quarantined.message ?? "", "see to it, then railctl node return NODE", name);
  for (const one of status.reasons ?? []) {
    if (one.code === "RailsSwapped") found.say("slow", one.code, one.message ?? "", "swap the cables, or rail-node-agent run --rails map:DEVICE=RAIL,...", name);
    if (one.code === "RailUnproved") found.say("note", one.code, one.message ?? "", "", name);
  }
  if (spec?.unschedulable) found.say("note", "Cordoned", spec.reason || "it takes no new job", "railctl node uncordon NODE", name);
  const inventory = status.inventory;
  for (const nic of inventory?.nics ?? []) {
    if (!nic.up) found.say("fault", "NicDown", "the link is down", "look at the cable and the switch's port", name, nic.device);
  }
  for (const health of inventory?.health ?? []) {
    for (const one of health.conditions ?? []) found.say(SEVERITY[one.severity ?? ""] ?? "note", one.code ?? "", one.message ?? "", "", name, health.device);
  }
  for (const port of inventory?.qos ?? []) {
    if (port.state === "FAILED") found.say("slow", "QosFailed", `class of service: ${port.message}`, "mend it, then resume the rollout", name, port.device);
    if (port.state === "DIFFERS") found.say("slow", "QosDiffers", `class of service: ${port.message}`, "see the rollouts page", name, port.device);
  }
  for (const one of inventory?.findings ?? []) found.say(one.code === "PcieDegraded" ? "slow" : "note", one.code ?? "", one.message ?? "", "", name, one.scope);
  for (const one of inventory?.isolation?.features ?? []) {
    if (!one.active) found.say("note", "Isolation", `${(one.kind ?? "").toLowerCase().replaceAll("_", " ")}: ${one.reason}`, one.fix ?? "", name);
  }
}

const TONES = { fault: "bad", slow: "warn", note: "off" };

function Subjects({ of }: { of: Line["subjects"] }) {
  const shown = of.slice(0, 6);
  return (
    <>
      {shown.map(({ node, of: what }, at) => (
        <span key={at}>
          {at > 0 && ", "}
          <a href={nodePage(node)}>{what ? `${node}/${what}` : node}</a>
        </span>
      ))}
      {of.length > shown.length && <span class="quiet"> and {of.length - shown.length} more</span>}
    </>
  );
}

/** Whether there is a fault, as far as that is known. */
function Verdict({ live, faults }: { live: Lives; faults: number }) {
  if (!live.nodes.synced) return <>asking for servers…</>;
  if (faults) return <Mark tone="bad">{many(faults, "fault")}</Mark>;
  if (live.nodes.trouble) return <Mark tone="warn">no fault was known before servers were lost sight of</Mark>;
  return <Mark tone="ok">no fault</Mark>;
}

/** The page. */
export function DoctorPage({ session, live }: PageProps) {
  const version = useLive(live.nodes);
  const health = useAsked((signal) => session.client.health.get({ signal }), [session], 5000);
  const lines = useMemo(() => {
    const found = new Found();
    for (const node of live.nodes.rows.values()) examine(found, node);
    return found.sorted();
  }, [version]);
  const faults = lines.filter((one) => one.level === "fault").length;
  const switches = (health.value?.switches ?? []).filter((one) => !one.connected || one.reasons?.length);
  return (
    <div class="page">
      <div class="bar">
        <h1>Doctor</h1>
        <p role="status">
          <Verdict live={live} faults={faults} />
        </p>
        <p class="quiet">
          {many(live.nodes.rows.size, "server")} · controller {health.value?.version} leads as {health.value?.leader}, term {health.value?.epoch}
        </p>
      </div>
      <Panel title="Cluster" wide>
        <Reasons of={health.value?.reasons} none="Nothing is known against the controller and its store." />
        <Fault of={health.error} />
      </Panel>
      <Panel title="Servers" wide>
        {lines.length ? (
          <Table label="What is wrong with servers" head={["", "what", "where", "what mends it"]}>
            {lines.map((one) => (
              <tr key={`${one.level}${one.code}${one.message}${one.fix}`}>
                <td>
                  <Mark tone={TONES[one.level]}>{one.level}</Mark>
                </td>
                <td class="wrap">
                  <code>{one.code}</code> {one.message}
                </td>
                <td class="wrap">
                  <Subjects of={one.subjects} />
                </td>
                <td class="wrap">{one.fix}</td>
              </tr>
            ))}
          </Table>
        ) : (
          <p class="quiet">{live.nodes.synced ? "Nothing is known against any of them." : "…"}</p>
        )}
      </Panel>
      {switches.length > 0 && (
        <Panel title="Switches" wide>
          <Table label="Switches" head={["switch", "agent", "ports up", "what"]}>
            {switches.map((one) => (
              <tr key={one.switch}>
                <th scope="row">{one.switch}</th>
                <td>{one.connected ? <Mark tone="ok">answers</Mark> : <Mark tone="bad">silent</Mark>}</td>
                <td>
                  {one.portsUp ?? 0}/{one.portsTotal ?? 0}
                </td>
                <td class="wrap">
                  <Reasons of={one.reasons} />
                </td>
              </tr>
            ))}
          </Table>
        </Panel>
      )}
    </div>
  );
}
