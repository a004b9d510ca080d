// Where one is: the page and what it shows, all of it in the address, so that a link shows the same to somebody else.

import { useEffect, useState } from "preact/hooks";

/** An address below /ui/. */
export interface Route {
  /** The page: fabric, jobs and so on. */
  page: string;
  /** What follows it in the path. */
  rest: string[];
  query: URLSearchParams;
}

const listeners = new Set<() => void>();

/** The present address. */
export function route(): Route {
  const [page = "", ...rest] = location.pathname.replace(/^\/ui\/?/, "").split("/").filter(Boolean);
  return { page: page || "fabric", rest: rest.map(decodeURIComponent), query: new URLSearchParams(location.search) };
}

/** Goes to an address; `replace` leaves no step behind in the history. */
export function go(href: string, replace = false): void {
  if (href === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", href);
  for (const one of listeners) one();
}

/** Sets parameters of the present page; an empty value takes one away. */
export function setQuery(changes: Record<string, string>, replace = true): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), replace);
}

/** The present address, and every later one. */
export function useRoute(): Route {
  const [now, set] = useState(route);
  useEffect(() => {
    const moved = () => set(route());
    listeners.add(moved);
    addEventListener("popstate", moved);
    return () => {
      listeners.delete(moved);
      removeEventListener("popstate", moved);
    };
  }, []);
  return now;
}

/** Links of these pages are followed without loading the document again. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href^='/ui/']");
    if (!link || link.getAttribute("target")) return;
    event.preventDefault();
    go(link.getAttribute("href") ?? "/ui/");
    scrollTo(0, 0);
  });
}

/** The address of a job's page. */
export function jobPage(tenant: string | undefined, name: string | undefined): string {
  return `/ui/jobs/${encodeURIComponent(tenant || "-")}/${encodeURIComponent(name ?? "")}`;
}

/** The address of the fabric page with something selected. */
export function nodePage(node: string, rail?: number): string {
  return `/ui/fabric?node=${encodeURIComponent(node)}${rail === undefined ? "" : `&rail=${rail}`}`;
}
