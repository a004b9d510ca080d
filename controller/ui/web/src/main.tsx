// The pages' frame: sign-in, navigation, keys, and the page that the address names.

import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { lives, useAsked, useTrouble, type Lives } from "./live.js";
import { AuditPage } from "./pages/audit.js";
import { DoctorPage } from "./pages/doctor.js";
import { FabricPage } from "./pages/fabric.js";
import { JobPage } from "./pages/job.js";
import { JobsPage } from "./pages/jobs.js";
import { QueuePage } from "./pages/queue.js";
import { RolloutsPage } from "./pages/rollouts.js";
import { TenantsPage } from "./pages/tenants.js";
import type { PageProps } from "./page.js";
import { Fault } from "./parts.js";
import { followLinks, go, useRoute } from "./route.js";
import { provider, resume, signIn, signOn, signOut, type Session } from "./session.js";

/** Pages with the key that goes there behind `g`. */
const PAGES: [string, string, string][] = [
  ["fabric", "Fabric", "f"],
  ["jobs", "Jobs", "j"],
  ["queue", "Queue", "q"],
  ["tenants", "Tenants", "t"],
  ["rollouts", "Rollouts", "r"],
  ["audit", "Audit", "a"],
  ["doctor", "Doctor", "d"],
];

/** Why somebody has to sign in who was signed in before. */
function SignedOut({ why }: { why: string | undefined }) {
  if (why === undefined) return null;
  return (
    <p class="note" role="status">
      You are signed out: the controller no longer takes what you signed in by{why && ` (${why})`}.
    </p>
  );
}

/** The way to the site's provider, where the controller has one. */
function SignOn() {
  const [host, set] = useState<string>();
  useEffect(() => void provider().then(set), []);
  if (host === undefined) return null;
  return (
    <p class="sign-on">
      <button type="button" class="first" onClick={signOn}>
        Sign in with {host}
      </button>
    </p>
  );
}

function SignIn({ done, why }: { done: (session: Session) => void; why: string | undefined }) {
  const [token, setToken] = useState("");
  const [state, set] = useState<{ busy?: boolean; error?: Error }>({});
  const submit = async (event: Event) => {
    event.preventDefault();
    set({ busy: true });
    try {
      done(await signIn(token));
    } catch (error) {
      set({ error: error as Error });
    }
  };
  return (
    <main class="sign-in" id="main">
      <h1>Railyard</h1>
      <SignedOut why={why} />
      <SignOn />
      <form onSubmit={submit}>
        <label for="token">API token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          value={token}
          aria-describedby="token-help"
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <p id="token-help" class="quiet">
          <code>railctl tenant issue-token USER --role ROLE</code> makes one. It is kept in this tab, and gone when the tab is closed. A browser that holds a client
          certificate of this cluster needs none.
        </p>
        <Fault of={state.error} />
        <button type="submit" class="first" disabled={state.busy}>
          Sign in
        </button>
      </form>
    </main>
  );
}

/** Whether what is typed goes into a field. */
function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element && (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) || element.isContentEditable);
}

function useKeys(help: () => void): void {
  useEffect(() => {
    let before = "";
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
      const page = before === "g" && PAGES.find(([, , key]) => key === event.key);
      before = event.key;
      if (page) go(`/ui/${page[0]}`);
      else if (event.key === "?") help();
      else if (event.key === "/") document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

const THEMES = ["system", "light", "dark"];

function Theme() {
  const [theme, set] = useState(() => localStorage.getItem("railyard.theme") ?? "system");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem("railyard.theme", theme);
    dispatchEvent(new Event("themechange"));
  }, [theme]);
  return (
    <label class="theme">
      <span class="sr">Colours</span>
      <select value={theme} onChange={(event) => set(event.currentTarget.value)}>
        {THEMES.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

function Keys({ dialog }: { dialog: { current: HTMLDialogElement | null } }) {
  return (
    <dialog ref={dialog} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        {PAGES.map(([page, name, key]) => (
          <div key={page}>
            <dt>
              <kbd>g</kbd> <kbd>{key}</kbd>
            </dt>
            <dd>{name}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>search this page</dd>
        </div>
        <div>
          <dt>
            <kbd>j</kbd> <kbd>k</kbd>
          </dt>
          <dd>next, previous job of the list</dd>
        </div>
        <div>
          <dt>
            <kbd>←</kbd> <kbd>↑</kbd> <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd>
          </dt>
          <dd>on the map: move, zoom, all of it</dd>
        </div>
      </dl>
      <form method="dialog">
        <button class="first">Close</button>
      </form>
    </dialog>
  );
}

function Health({ session }: { session: Session }) {
  const { value, error } = useAsked((signal) => session.client.health.get({ signal }), [session], 5000);
  if (error && !value) return <p class="health quiet">the controller does not answer</p>;
  if (!value) return <p class="health quiet">…</p>;
  return (
    <p class="health">
      <span>
        <b>{value.nodesReady ?? 0}</b>/{value.nodesTotal ?? 0} nodes
      </span>
      <span>
        <b>{value.gpusHeld ?? 0}</b>/{value.gpusTotal ?? 0} GPUs
      </span>
      <span>
        <b>{value.jobsRunning ?? 0}</b> running
      </span>
      <span>
        <b>{value.jobsPending ?? 0}</b> waiting
      </span>
      {value.storeWritable === false && <span class="tone-bad">✕ the store takes no writes</span>}
    </p>
  );
}

/** The rows that a page is drawn from. */
const DRAWN: Record<string, "jobs" | "nodes"> = { jobs: "jobs", queue: "jobs", doctor: "nodes" };

/** What is amiss with the stream that the page is drawn from. */
function Trouble({ page, live }: { page: string; live: Lives }) {
  const rows = DRAWN[page];
  const trouble = useTrouble(rows && live[rows]);
  return trouble ? (
    <p class="banner" role="status">
      ▲ what is shown may be old: {trouble}; trying again
    </p>
  ) : null;
}

function Page({ page, rest, ...props }: PageProps & { page: string; rest: string[] }) {
  if (page === "jobs" && rest.length === 2) {
    return <JobPage key={rest.join("/")} tenant={rest[0] === "-" ? "" : (rest[0] ?? "")} name={rest[1] ?? ""} {...props} />;
  }
  switch (page) {
    case "fabric":
      return <FabricPage {...props} />;
    case "jobs":
      return <JobsPage {...props} />;
    case "queue":
      return <QueuePage {...props} />;
    case "tenants":
      return <TenantsPage {...props} />;
    case "rollouts":
      return <RolloutsPage {...props} />;
    case "audit":
      return <AuditPage {...props} />;
    case "doctor":
      return <DoctorPage {...props} />;
    default:
      return <p class="quiet">There is no such page.</p>;
  }
}

function Frame({ session }: { session: Session }) {
  const { page, rest } = useRoute();
  const live = useMemo(() => lives(session), [session]);
  useEffect(
    () => () => {
      live.jobs.end();
      live.nodes.end();
    },
    [live],
  );
  const keys = useRef<HTMLDialogElement>(null);
  useKeys(() => keys.current?.showModal());
  const title = PAGES.find(([one]) => one === page)?.[1] ?? page;
  useEffect(() => {
    document.title = `${rest[1] ?? title} · Railyard`;
  }, [page, rest[1]]);
  const who = session.who;
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <nav aria-label="Pages">
          <a class="brand" href="/ui/fabric" aria-label="Railyard, fabric">
            Railyard
          </a>
          {PAGES.map(([one, name, key]) => (
            <a key={one} href={`/ui/${one}`} aria-current={one === page ? "page" : undefined} title={`g ${key}`}>
              {name}
            </a>
          ))}
        </nav>
        <Health session={session} />
        <div class="who">
          <span title={who.identity}>
            {who.user || who.identity} <span class="quiet">{(who.role ?? "").toLowerCase().replace("_", " ")}</span>
          </span>
          <Theme />
          <button type="button" onClick={() => keys.current?.showModal()} aria-label="Keys">
            ?
          </button>
          {session.token && (
            <button type="button" onClick={signOut}>
              Sign out
            </button>
          )}
        </div>
      </header>
      <Trouble page={page} live={live} />
      <main id="main" tabIndex={-1}>
        <Page page={page} rest={rest} session={session} live={live} />
      </main>
      <Keys dialog={keys} />
    </div>
  );
}

function App() {
  const [session, set] = useState<Session | undefined>();
  const [state, setState] = useState<"asking" | "out" | Error>("asking");
  const [why, setWhy] = useState<string>();
  const enter = (found: Session) => {
    found.onRefused((why) => {
      setWhy(why);
      setState("out");
      set(undefined);
    });
    setWhy(undefined);
    set(found);
  };
  useEffect(() => {
    resume(setWhy).then(
      (found) => (found ? enter(found) : setState("out")),
      (error: Error) => setState(error),
    );
  }, []);
  if (session) return <Frame session={session} />;
  if (state === "out") return <SignIn done={enter} why={why} />;
  return (
    <main class="sign-in" id="main">
      <h1>Railyard</h1>
      {state === "asking" ? <p class="quiet">…</p> : <Fault of={state} />}
    </main>
  );
}

const root = document.getElementById("app");
document.documentElement.dataset["theme"] = localStorage.getItem("railyard.theme") ?? "system";
followLinks();
if (root) render(<App />, root);
