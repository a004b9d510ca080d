// Where the cluster is and as whom to speak, as railctl finds it: arguments, environment, then the context of its configuration file.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { ConfigError } from "./errors.js";
import { parse } from "./yaml.js";

const TOKEN_PREFIX = "rail-user-v1";
const TOKEN = new RegExp(`^${TOKEN_PREFIX}\\.[0-9a-f]{16}\\.[0-9a-f]{64}$`);
const FIELDS = ["controller", "ca", "cert", "key", "token", "tenant"];

/** What is given; paths name PEM files, and `token` is a token or the path of a file that has one. */
export interface Given {
  context?: string;
  controller?: string | readonly string[];
  ca?: string;
  cert?: string;
  key?: string;
  token?: string;
  tenant?: string;
  /** The configuration file. */
  config?: string;
}

/** What was found. */
export interface Found {
  readonly controller: readonly string[];
  readonly ca: string;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly token?: string | undefined;
  readonly tenant: string;
}

interface Context {
  controller?: unknown;
  ca?: string;
  cert?: string;
  key?: string;
  token?: string;
  tenant?: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Settings as railctl finds them. Throws ConfigError. */
export function load(given: Given = {}, environment: Environment = process.env): Found {
  const asked = given.controller === undefined ? [] : typeof given.controller === "string" ? [given.controller] : [...given.controller];
  const listed = (environment["RAIL_CONTROLLER"] ?? "").split(",").map((one) => one.trim());
  const addresses = asked.length ? asked : listed.filter(Boolean);
  const context = contextOf(given, addresses.length > 0, environment);
  const identities: Context[] = [
    { cert: given.cert, key: given.key, token: given.token },
    { cert: environment["RAIL_CERT"], key: environment["RAIL_KEY"], token: environment["RAIL_TOKEN"] },
    context,
  ];
  const identity = identities.find((one) => one.cert || one.key || one.token) ?? {};
  const controller = addresses.length ? addresses : context.controller;
  const ca = given.ca || environment["RAIL_CA"] || context.ca;
  if (!Array.isArray(controller) || !controller.length) {
    throw new ConfigError(
      "no controller is known: give `controller` or RAIL_CONTROLLER, or start a local cluster with `railctl dev up`, " +
        "which makes a context in the configuration file",
    );
  }
  if (!ca) throw new ConfigError("no CA certificate is known, so the controller could not be verified: give `ca` or RAIL_CA");
  if (Boolean(identity.cert) !== Boolean(identity.key)) {
    throw new ConfigError(`a client certificate and its key go together: the ${identity.cert ? "key" : "certificate"} is not given`);
  }
  const tenant = given.tenant ?? environment["RAIL_TENANT"] ?? context.tenant ?? "";
  return { controller, ca, cert: identity.cert, key: identity.key, token: tokenOf(identity.token), tenant };
}

/**
 * The token itself, or what a file of that name holds. No error shows it, nor what was taken for a file's name: that may be the secret,
 * written badly.
 */
function tokenOf(given: string | undefined): string | undefined {
  if (!given) return undefined;
  let text = given;
  if (!given.startsWith(TOKEN_PREFIX)) {
    try {
      text = readFileSync(given, "utf8").trim();
    } catch (error) {
      const code = (error as { code?: string }).code ?? "it is no text";
      throw new ConfigError(
        `credentials: not a token, which begins with \`${TOKEN_PREFIX}.\` and has neither blanks nor quotation marks, nor the path of a file ` +
          `that can be read: ${code}`,
      );
    }
  }
  if (!TOKEN.test(text)) throw new ConfigError(`credentials: not a token: expected ${TOKEN_PREFIX}.<16 hex digits>.<64 hex digits>`);
  return text;
}

function configPath(given: Given, environment: Environment): string | undefined {
  const named = given.config || environment["RAIL_CONFIG"];
  if (named) return named;
  const base = environment["XDG_CONFIG_HOME"] ?? "";
  if (base.startsWith("/")) return join(base, "railyard/config.yaml");
  return environment["HOME"] ? join(environment["HOME"], ".config/railyard/config.yaml") : undefined;
}

function contextOf(given: Given, addressed: boolean, environment: Environment): Context {
  const path = configPath(given, environment);
  const [current, contexts] = path && existsSync(path) ? read(path) : [undefined, new Map<string, Context>()];
  const wanted = given.context || environment["RAIL_CONTEXT"];
  const chosen = wanted || current;
  if (!chosen) return {};
  const found = contexts.get(chosen);
  if (found) return found;
  if (!wanted && addressed) return {};
  const known = contexts.size ? `there are: ${[...contexts.keys()].join(", ")}` : "the configuration file has none";
  throw new ConfigError(`there is no context \`${chosen}\`; ${known}`);
}

/** The current context's name, and all contexts; relative paths are relative to the file's folder. */
function read(path: string): [string | undefined, Map<string, Context>] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new ConfigError(`${path}: ${(error as Error).message}`);
  }
  const value = known(path, parse(text, path), ["currentContext", "contexts"], "the file");
  const contexts = new Map<string, Context>();
  for (const [name, one] of Object.entries(known(path, value["contexts"], undefined, "contexts"))) {
    const context = known(path, one, FIELDS, `context \`${name}\``) as Context;
    if (context.controller !== undefined && !Array.isArray(context.controller)) {
      throw new ConfigError(`${path}: context \`${name}\`: controller is a list of addresses`);
    }
    for (const part of ["ca", "cert", "key"] as const) {
      if (context[part]) context[part] = resolve(dirname(path), context[part]);
    }
    contexts.set(name, context);
  }
  const current = value["currentContext"];
  return [typeof current === "string" ? current : undefined, contexts];
}

function known(path: string, value: unknown, fields: readonly string[] | undefined, where: string): Record<string, unknown> {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) throw new ConfigError(`${path}: ${where} is no mapping`);
  for (const name of Object.keys(value)) {
    if (fields && !fields.includes(name)) {
      throw new ConfigError(`${path}: ${where}: unknown field \`${name}\`, expected one of ${fields.join(", ")}`);
    }
  }
  return value as Record<string, unknown>;
}
