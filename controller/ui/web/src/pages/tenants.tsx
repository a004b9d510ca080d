// Tenants: what each may have, what it holds, and how its use of late stands to its weight.

import { useCallback } from "preact/hooks";
import { useAsked, useChanges } from "../live.js";
import type { PageProps } from "../page.js";
import { bytes, Fault, Meter, Panel, span, lasting, Table } from "../parts.js";
import type { Shape } from "../../../../../cli/clients/typescript/src/index.js";

/** Milliseconds between two questions: where the stream is lost, and at least after it has said that something changed; and while it says nothing. */
const OFTEN = 5000;
const SELDOM = 60_000;
const KINDS = ["tenants"] as const;

function shape(of: Shape | undefined): string {
  const words = [of?.pods && `${of.pods} pods`, of?.nodes && `${of.nodes} nodes`, of?.gpus && `${of.gpus} GPUs`].filter(Boolean);
  return words.join(", ") || "—";
}

/** The page. */
export function TenantsPage({ session, live }: PageProps) {
  const { client } = session;
  const every = (failed: boolean) => (live.stream.well && !failed ? SELDOM : OFTEN);
  const tenants = useAsked((signal) => client.tenants.listAll({ signal }).all(), [session], every);
  const shares = useAsked((signal) => client.queues.listShares({ signal }), [session], every);
  const soon = useCallback(() => {
    tenants.soon(OFTEN);
    shares.soon(OFTEN);
  }, [tenants.soon, shares.soon]);
  useChanges(live.stream, KINDS, soon);
  return (
    <div class="page">
      <div class="bar">
        <h1>Tenants</h1>
      </div>
      <Panel title="Quotas" wide>
        <Table label="Quotas of tenants" head={["tenant", "GPUs held", "", "guaranteed", "weight", "jobs", "stored", "isolation", "what it is"]} numbers={[1, 4, 5, 6]}>
          {(tenants.value ?? []).map((one) => {
            const [{ quota } = {}, status] = [one.spec, one.status];
            return (
              <tr key={one.metadata?.name}>
                <th scope="row">{one.metadata?.name}</th>
                <td class="number">
                  {status?.gpusUsed ?? 0} of {quota?.gpus ?? 0}
                </td>
                <td>
                  <Meter value={status?.gpusUsed ?? 0} of={quota?.gpus ?? 0} label={`GPUs of ${one.metadata?.name}`} />
                </td>
                <td>{shape(quota?.guaranteed)}</td>
                <td class="number">{quota?.weight ?? 1}</td>
                <td class="number">
                  {status?.jobsActive ?? 0}
                  {quota?.jobs ? ` of ${quota.jobs}` : ""}
                </td>
                <td class="number">{bytes(Number(status?.storedBytes ?? 0))}</td>
                <td>{status?.isolation === "REQUIRED" ? "required" : "best effort"}</td>
                <td class="wrap">{one.spec?.description}</td>
              </tr>
            );
          })}
        </Table>
        <Fault of={tenants.error} />
      </Panel>
      <Panel title="Shares" wide aside={shares.value?.halfLife ? <span class="quiet">use counts half after {span(lasting(shares.value.halfLife))}</span> : undefined}>
        <Table label="Shares" head={["tenant", "queue", "weight", "GPU-hours of late", "against weight", "GPUs held", "guaranteed", "running", "waiting"]} numbers={[2, 3, 4, 5, 6, 7, 8]}>
          {(shares.value?.shares ?? []).map((one) => (
            <tr key={`${one.tenant}/${one.queue}`}>
              <th scope="row">{one.tenant}</th>
              <td>{one.queue || "—"}</td>
              <td class="number">{one.weight ?? 0}</td>
              <td class="number">{(one.usedGpuHours ?? 0).toFixed(1)}</td>
              <td class="number">{(one.normalized ?? 0).toFixed(2)}</td>
              <td class="number">{one.gpusHeld ?? 0}</td>
              <td class="number">{one.gpusGuaranteed ?? 0}</td>
              <td class="number">{one.jobsRunning ?? 0}</td>
              <td class="number">{one.jobsWaiting ?? 0}</td>
            </tr>
          ))}
        </Table>
        <Fault of={shares.error} />
      </Panel>
    </div>
  );
}
