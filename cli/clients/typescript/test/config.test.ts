// Where the cluster is and as whom to speak.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { load } from "../src/config.js";
import { where } from "../src/endpoint.js";
import { ConfigError } from "../src/index.js";
import { parse } from "../src/yaml.js";

const folder = mkdtempSync(join(tmpdir(), "railyard-"));
after(() => rmSync(folder, { recursive: true }));

const CONFIG = `# Where railctl finds clusters.
currentContext: "dev"
contexts:
  "dev":
    controller: ["unix:/run/c.sock", "https://127.0.0.1:7443"]   # two
    ca: ca.pem
    cert: '/etc/admin.pem'
    key: /etc/admin.key
    tenant: "it's"
  other:
    controller:
    - https://other:7443
    ca: /ca.pem
`;

function file(text: string): string {
  const path = join(folder, "config.yaml");
  writeFileSync(path, text);
  return path;
}

test("the context, then the environment, then what is given", () => {
  const config = file(CONFIG);
  const dev = load({ config }, {});
  assert.deepEqual(dev.controller, ["unix:/run/c.sock", "https://127.0.0.1:7443"]);
  assert.deepEqual([dev.ca, dev.cert, dev.tenant, dev.token], [join(folder, "ca.pem"), "/etc/admin.pem", "it's", undefined]);
  const token = `rail-user-v1.${"a".repeat(16)}.${"b".repeat(64)}`;
  const other = load({ context: "other" }, { RAIL_CONFIG: config, RAIL_TOKEN: token, RAIL_TENANT: "x" });
  assert.deepEqual([other.controller, other.token, other.tenant, other.cert], [["https://other:7443"], token, "x", undefined]);
  assert.deepEqual(load({ config, controller: "https://c" }, { RAIL_CONTROLLER: "https://d" }).controller, ["https://c"]);
});

test("what cannot be used is named, and a token is not shown", () => {
  const wrong = (given: Parameters<typeof load>[0], expected: RegExp) =>
    assert.throws(
      () => load(given, {}),
      (error) => error instanceof ConfigError && expected.test(error.message) && !error.message.includes("secret"),
    );
  wrong({ config: join(folder, "none") }, /no controller is known/);
  wrong({ config: file(CONFIG), context: "prod" }, /no context `prod`; there are: dev, other/);
  wrong({ config: file(CONFIG), cert: "/x" }, /the key is not given/);
  wrong({ config: file(CONFIG), token: "secret and more" }, /not a token/);
  wrong({ config: file(CONFIG), token: "rail-user-v1.secret" }, /not a token: expected/);
  wrong({ config: file("contexts:\n  a:\n    tokn: secret\n") }, /context `a`: unknown field `tokn`, expected one of/);
  wrong({ config: file("contexts:\n  a: [secret\n") }, /config.yaml:2: a list in brackets/);
  wrong({ config: file("contexts:\n  a:\n    token: |\n      secret\n") }, /config.yaml:3: only texts and lists/);
});

test("the little YAML of configuration files", () => {
  assert.equal(parse("# nothing\n", "f"), undefined);
  assert.deepEqual({ ...(parse("a: x # y\nb: 'it''s'\nc: \"\\u00e4\"\nd:\n- 1\n- '2'\n", "f") as object) }, { a: "x", b: "it's", c: "ä", d: ["1", "2"] });
  for (const text of ["a: 1\na: 2", "\ta: 1", "a", "a: 'x", "a: &b c", "a: 1\n  b: 2", "a: [b] c", 'a: "b" c']) {
    assert.throws(() => parse(text, "f"), ConfigError, text);
  }
});

test("the port of an address is the one that is written", () => {
  const found = (endpoint: string) => [where(endpoint).host, where(endpoint).port];
  assert.deepEqual(found("https://a"), ["a", 7443]);
  assert.deepEqual(found("https://a:443"), ["a", 443]);
  assert.deepEqual([found("https://[::1]"), found("https://[::1]:443")], [["::1", 7443], ["::1", 443]]);
});
