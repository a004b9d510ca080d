// Every leaf, rail and server: a map of ports, what each rail has, and why the chosen port is as it is.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Hold, ListRailsResponse, Nic, Node, RailDrain } from "../../../../../cli/clients/typescript/src/index.js";
import { FabricMap } from "../fabric/map.js";
import { decode, DOWN, DRAINED, kindOf, leafOf, NONE, type Model, type Port } from "../fabric/model.js";
import type { Shows } from "../fabric/paint.js";
import { useAsked } from "../live.js";
import type { PageProps } from "../page.js";
import { Act, Fact, Fault, Mark, many, Meter, Panel, Reasons, Table, Time } from "../parts.js";
import { jobPage, nodePage, setQuery, useRoute } from "../route.js";

const KINDS: Record<number, [string, string]> = {
  [NONE]: ["off", "no port"],
  1: ["ok", "usable"],
  [DRAINED]: ["warn", "drained"],
  [DOWN]: ["bad", "out of use"],
};

/** How often the fabric is asked for again, in milliseconds, at most: it is sent only if it has changed. */
const OFTEN = 2000;
/** How long it waits at most until it is asked for again, however slow that is and however often it has failed, in milliseconds. */
const SELDOM = 60_000;
/** Servers of the largest fabric whose nodes are watched, so that a change is seen at once; and how often it is asked for then, at most. */
const WATCHED = 2000;
const AT_ONCE = 250;

/**
 * The fabric, asked for again and again while the page is seen: not more often than it takes twenty times as long to ask, and after errors
 * in a row each time after twice as long. A small one is asked for as soon as one of its nodes changes, too.
 */
function useFabric({ session, live }: PageProps) {
  const took = useRef(0);
  const failed = useRef(0);
  const kept = useRef<{ tag: string; made: Model }>();
  const asked = useAsked(
    async (signal) => {
      const begun = performance.now();
      try {
        const found = await session.map(kept.current?.tag ?? "", signal);
        const aspect = Math.max(0.4, (innerWidth - 340) / Math.max(300, innerHeight - 220));
        if (found) kept.current = { tag: found.tag, made: decode(found.bytes, aspect) };
        failed.current = 0;
        return kept.current?.made;
      } catch (error) {
        if (!signal.aborted) failed.current += 1;
        throw error;
      } finally {
        took.current = performance.now() - begun;
      }
    },
    [session],
    () => Math.min(SELDOM, Math.max(OFTEN, took.current * 20) * 2 ** failed.current),
  );
  const { value, soon } = asked;
  const watched = value !== undefined && value.nodes <= WATCHED && session.may("NodeService/WatchNodes");
  useEffect(() => (watched ? live.nodes.subscribe(() => soon(AT_ONCE)) : undefined), [live, watched]);
  return asked;
}

function RailsPanel({ rails, of }: { rails: ListRailsResponse | undefined; of: Model }) {
  const rows = rails?.rails ?? [];
  return (
    <Panel title="Rails">
      <Table label="Rails" head={["rail", "leaves", "NICs up", "", "drained", "jobs"]} numbers={[1, 2, 4, 5]}>
        {rows.map((rail) => (
          <tr key={rail.rail ?? 0}>
            <th scope="row">
              {rail.rail ?? 0} <span class="quiet">{rail.name && rail.name !== String(rail.rail ?? 0) ? rail.name : ""}</span>
            </th>
            <td class="number">{rail.leaves?.length ?? 0}</td>
            <td class="number">
              {rail.nodesUp ?? 0}/{rail.nodes ?? 0}
            </td>
            <td>
              <Meter value={rail.nodesUp ?? 0} of={rail.nodes ?? 0} label={`NICs up on rail ${rail.rail ?? 0}`} tone={rail.nodesUp === rail.nodes ? "ok" : "bad"} />
            </td>
            <td class="number">{rail.nodesDrained ? <Mark tone="warn">{rail.nodesDrained}</Mark> : "0"}</td>
            <td class="number">{rail.jobsTotal ?? rail.jobs?.length ?? 0}</td>
          </tr>
        ))}
      </Table>
      {!rows.length && <p class="quiet">{many(of.rails, "rail")}</p>}
    </Panel>
  );
}

function Drains({ rails, session, again }: { rails: ListRailsResponse | undefined; session: PageProps["session"]; again: () => void }) {
  const drains = rails?.drains ?? [];
  if (!drains.length) return null;
  return (
    <Panel title="Drains" aside={rails?.pendingTotal ? <span class="quiet">{many(rails.pendingTotal, "engine")} still to move off</span> : undefined}>
      <ul class="reasons">
        {drains.map((one: RailDrain) => (
          <li key={one.target} class="bar">
            <span>
              <b>{one.target}</b> by {one.by}, <Time at={one.since} />: {one.reason || <span class="quiet">no reason was given</span>}
            </span>
            {session.may("RailService/UndrainRail") && (
              <Act
                name="Undrain"
                ask={`Take ${one.target} back into use?`}
                run={async () => {
                  await session.client.rails.undrain({ target: one.target ?? "" });
                  again();
                }}
              />
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** Why a port is as it is. */
function Why({ port, node, nic, drains }: { port: Port; node: Node | undefined; nic: Nic | undefined; drains: RailDrain[] }) {
  const status = node?.status;
  const health = status?.inventory?.health?.find((one) => one.device === nic?.device);
  return (
    <>
      <h3>Why</h3>
      {drains.map((one) => (
        <p key={one.target}>
          <Mark tone="warn">
            <code>{one.target}</code> is drained
          </Mark>{" "}
          by {one.by}
          {one.reason && `: ${one.reason}`}, <Time at={one.since} />
        </p>
      ))}
      {nic && !nic.up && <p>The NIC's link is down: look at the cable and the leaf's port.</p>}
      {status?.railsCut?.includes(port.rail) && <p>The NIC is well and all the same not used: the fabric document does not cable it there, or its leaf is down.</p>}
      <ul class="reasons">
        {(health?.conditions ?? []).map((one, at) => (
          <li key={at}>
            <code>{one.code}</code> {one.message}
          </li>
        ))}
      </ul>
      <Reasons of={[...(status?.quarantined ? [status.quarantined] : []), ...(status?.reasons ?? [])]} />
      {node?.spec?.unschedulable && (
        <p>
          <Mark tone="off">takes no new job</Mark> {node.spec.reason}
        </p>
      )}
      {!drains.length && !health?.conditions?.length && !status?.reasons?.length && nic?.up && <p class="quiet">Nothing is known against it.</p>}
    </>
  );
}

function Holding({ of }: { of: Hold[] }) {
  return (
    <>
      <h3>Jobs on it</h3>
      {of.length ? (
        <ul class="plain">
          {of.map((one) => (
            <li key={one.jobUid}>
              <a href={jobPage(one.tenant, one.job)}>{one.job || "another tenant's job"}</a> <span class="quiet">{one.tenant}</span> · {many(one.gpus?.length ?? 0, "GPU")}
            </li>
          ))}
        </ul>
      ) : (
        <p class="quiet">none</p>
      )}
    </>
  );
}

function Chosen({ of, port, node, rails, session, again }: { of: Model; port: Port; node: Node | undefined; rails: ListRailsResponse | undefined; session: PageProps["session"]; again: () => void }) {
  const name = of.names.of(port.node);
  const [tone, word] = KINDS[kindOf(of, port)] ?? ["off", "?"];
  const leaf = leafOf(of, port);
  const status = node?.status;
  const nic = status?.inventory?.nics?.find((one) => (one.rail ?? 0) === port.rail);
  const health = status?.inventory?.health?.find((one) => one.device === nic?.device);
  const targets = [`rail/${port.rail}`, `leaf/${leaf}`, `node/${name}:${port.rail}`];
  const drains = (rails?.drains ?? []).filter((one) => targets.includes(one.target ?? ""));
  const target = `node/${name}:${port.rail}`;
  return (
    <Panel title={name} aside={status?.phase === "READY" ? <Mark tone="ok">ready</Mark> : <Mark tone="bad">not ready</Mark>}>
      <p>
        Rail {port.rail}: <Mark tone={tone}>{word}</Mark>
      </p>
      <dl class="facts">
        <Fact name="leaf">{leaf || "—"}</Fact>
        <Fact name="NIC">
          {nic ? `${nic.device} ${nic.up ? "up" : "down"}${nic.speedMbps ? `, ${Number(nic.speedMbps) / 1000} Gbit/s` : ""}` : "—"}
        </Fact>
        <Fact name="address">{nic?.address || "—"}</Fact>
        <Fact name="GPUs">
          {(of.gpus[port.node] ?? 0) - (of.free[port.node] ?? 0)} of {of.gpus[port.node]} held
        </Fact>
        <Fact name="health">{health?.score === undefined ? "nothing against it" : `${health.score} of 100`}</Fact>
        <Fact name="heard">
          <Time at={status?.lastHeartbeat} />
        </Fact>
      </dl>
      <Why port={port} node={node} nic={nic} drains={drains} />
      <Holding of={status?.holds ?? []} />
      {session.may("RailService/DrainRail") && !drains.some((one) => one.target === target) && (
        <p class="actions">
          <Act
            name="Drain this port"
            ask={`Take ${target} out of use? Running jobs move off it.`}
            run={async () => {
              await session.client.rails.drain({ target, reason: "drained on the fabric page" });
              again();
            }}
          />
        </p>
      )}
    </Panel>
  );
}

/** Ports that are not usable, as text: what the map shows by colour. */
function Amiss({ of }: { of: Model }) {
  // The picture comes first.
  const [drawn, draw] = useState(false);
  useEffect(() => draw(true), []);
  if (!drawn || !of.amiss.length) return null;
  return (
    <Panel title="Ports that are not usable">
      <ul class="columns">
        {of.amiss.map((one) => {
          const [tone, word] = KINDS[kindOf(of, one)] ?? ["off", ""];
          const name = of.names.of(one.node);
          return (
            <li key={`${one.node}/${one.rail}`}>
              <a href={nodePage(name, one.rail)}>
                {name}:{one.rail}
              </a>{" "}
              <Mark tone={tone}>{word}</Mark>
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}

/** What colours mean. */
function Legend({ of, shows }: { of: Model; shows: Shows }) {
  const [well, drained, down] = [...of.counts.subarray(1, 4)].map((count) => count.toLocaleString("en"));
  return (
    <p class="legend">
      {shows === "health" ? (
        <>
          <span class="key well" /> {well} usable <span class="key drained" /> {drained} drained <span class="key down" /> {down} out of use
        </>
      ) : (
        <>
          <span class="key ramp" /> GPUs held: none … all
        </>
      )}
    </p>
  );
}

function Bar({ of, name, shows }: { of: Model; name: string; shows: Shows }) {
  return (
    <div class="bar">
      <h1>Fabric</h1>
      <p class="quiet">
        {many(of.nodes, "node")} in {many(of.pods.length, "pod")}, {many(of.rails, "rail")}, {many(of.leaves.length, "leaf", "leaves")}
      </p>
      <fieldset class="choice">
        <legend class="sr">What colours tell</legend>
        {(["health", "use"] as const).map((one) => (
          <label key={one}>
            <input type="radio" name="shows" checked={shows === one} onChange={() => setQuery({ shows: one === "use" ? "use" : "" })} /> {one}
          </label>
        ))}
      </fieldset>
      <form
        class="find"
        onSubmit={(event) => {
          event.preventDefault();
          setQuery({ node: new FormData(event.currentTarget).get("node") as string, rail: "" });
        }}
      >
        <label class="sr" for="find-node">
          Find a node
        </label>
        <input key={name} id="find-node" name="node" type="search" placeholder="find a node" defaultValue={name} />
      </form>
      <Legend of={of} shows={shows} />
    </div>
  );
}

/** The page. */
export function FabricPage(props: PageProps) {
  const { session } = props;
  const { query } = useRoute();
  const fabric = useFabric(props);
  const rails = useAsked((signal) => session.client.rails.list({ signal }), [session], 3000);
  const of = fabric.value;
  const name = query.get("node") ?? "";
  const number = name ? of?.names.find(name) : undefined;
  const port = of && number !== undefined ? { node: number, rail: Math.max(0, Math.min(Math.trunc(Number(query.get("rail") ?? 0)) || 0, of.rails - 1)) } : undefined;
  const node = useAsked((signal) => (name ? session.client.nodes.get(name, { signal }) : Promise.resolve(undefined)), [session, name], 3000);
  const shows = query.get("shows") === "use" ? "use" : "health";
  const again = () => {
    rails.again();
    fabric.again();
  };
  if (!of) return fabric.error ? <Fault of={fabric.error} /> : <p class="quiet">asking for the fabric…</p>;
  const word = port ? (KINDS[kindOf(of, port)]?.[1] ?? "") : "";
  return (
    <div class="page fabric">
      {fabric.error && (
        <p class="banner" role="status">
          ▲ what is shown may be old: {fabric.error.message}; trying again
        </p>
      )}
      <Bar of={of} name={name} shows={shows} />
      <div class="split">
        <FabricMap
          model={of}
          shows={shows}
          chosen={port}
          choose={(one) => setQuery({ node: of.names.of(one.node), rail: String(one.rail) })}
          words={port ? `${name}, rail ${port.rail}: ${word}` : ""}
        />
        <div class="side">
          {name && !port && <p class="note">There is no node {name} in this fabric.</p>}
          {port && <Chosen of={of} port={port} node={node.value} rails={rails.value} session={session} again={again} />}
          <RailsPanel rails={rails.value} of={of} />
          <Drains rails={rails.value} session={session} again={again} />
        </div>
      </div>
      <Amiss of={of} />
      <Fault of={rails.error} />
      {of.findings.length > 0 && (
        <Panel title="Findings">
          <Reasons of={of.findings} />
          {of.leftOut > 0 && <p class="quiet">and {of.leftOut.toLocaleString("en")} more</p>}
        </Panel>
      )}
    </div>
  );
}

