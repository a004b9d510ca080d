// Who changed what, and who was refused: the newest first, page by page; the filter is in the address.

import { useEffect, useRef, useState } from "preact/hooks";
import type { AuditRecord } from "../../../../../cli/clients/typescript/src/index.js";
import type { PageProps } from "../page.js";
import { Fault, Mark, Panel, Table, Time } from "../parts.js";
import { setQuery, useRoute } from "../route.js";
import type { Session } from "../session.js";

function What({ of }: { of: AuditRecord }) {
  if (of.change) {
    const { kind, name, tenant } = of.change;
    return (
      <>
        {kind} <b>{name}</b> <span class="quiet">{tenant}</span>
      </>
    );
  }
  if (of.denial) {
    return (
      <>
        <code>{of.denial.reason}</code> {of.denial.detail} {Number(of.denial.count ?? 1) > 1 && <span class="quiet">{of.denial.count} times</span>}
      </>
    );
  }
  if (of.checkpoint) return <span class="quiet">signed checkpoint, term {of.checkpoint.epoch}</span>;
  return <span class="quiet">the log went on: {of.resumed?.cause}</span>;
}

function Row({ of }: { of: AuditRecord }) {
  const actor = of.change?.actor ?? of.denial?.actor;
  return (
    <tr>
      <td class="number">{of.seq}</td>
      <td>
        <Time at={of.time} />
      </td>
      <td>{of.denial ? <Mark tone="bad">denied</Mark> : of.change ? <Mark tone="ok">allowed</Mark> : ""}</td>
      <td title={actor?.who}>{actor?.who?.split("/").slice(-2).join("/")}</td>
      <td>{actor?.rpc}</td>
      <td class="wrap">
        <What of={of} />
      </td>
      <td>{actor?.source}</td>
    </tr>
  );
}

const FILTERS: [string, string][] = [
  ["who", "who"],
  ["rpc", "call"],
  ["tenant", "tenant"],
];

/** Records by the filter of the address, and what asks for older ones. */
function useRecords(session: Session, query: URLSearchParams) {
  const [rows, setRows] = useState<AuditRecord[]>([]);
  const [next, setNext] = useState<string | undefined>("");
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const text = query.toString();
  /** Ends what was asked for by an earlier filter. */
  const filter = useRef(new AbortController());
  const load = async (token: string) => {
    const { signal } = filter.current;
    setBusy(true);
    const get = (name: string) => query.get(name) || undefined;
    try {
      const found = await session.client.audit.list({ who: get("who"), rpc: get("rpc"), tenant: get("tenant"), decision: get("decision"), pageSize: 100, pageToken: token || undefined, signal });
      if (signal.aborted) return;
      setRows((before) => (token ? [...before, ...(found.records ?? [])] : (found.records ?? [])));
      setNext(found.nextPageToken || undefined);
      setError(undefined);
    } catch (error) {
      if (!signal.aborted) setError(error as Error);
    }
    if (!signal.aborted) setBusy(false);
  };
  useEffect(() => {
    const end = new AbortController();
    filter.current = end;
    // What is older by the filter before is not what is older by this one.
    setNext("");
    const timer = setTimeout(() => void load(""), 150);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [text, session]);
  return { rows, next, error, busy, older: (token: string) => void load(token) };
}

/** The page. */
export function AuditPage({ session }: PageProps) {
  const { query } = useRoute();
  const { rows, next, error, busy, older } = useRecords(session, query);
  return (
    <div class="page">
      <div class="bar">
        <h1>Audit</h1>
        {FILTERS.map(([name, label]) => (
          <label key={name}>
            {label} <input size={14} value={query.get(name) ?? ""} onInput={(event) => setQuery({ [name]: event.currentTarget.value.trim() })} />
          </label>
        ))}
        <label>
          decision{" "}
          <select value={query.get("decision") ?? ""} onChange={(event) => setQuery({ decision: event.currentTarget.value })}>
            <option value="">both</option>
            <option>allowed</option>
            <option>denied</option>
          </select>
        </label>
      </div>
      <Panel title="Records" wide>
        <Table label="Audit records" head={["number", "time", "", "who", "call", "what", "from"]} numbers={[0]}>
          {rows.map((one) => (
            <Row key={`${one.log}${one.seq}`} of={one} />
          ))}
        </Table>
        {next && (
          <p class="actions">
            <button type="button" disabled={busy} onClick={() => older(next)}>
              Older records
            </button>
          </p>
        )}
        {!rows.length && !error && next === undefined && <p class="quiet">There is no such record.</p>}
        <Fault of={error} />
      </Panel>
    </div>
  );
}
