// Builds ../assets of src: the same bytes from the same sources, with a manifest of the hashes of both. `--out DIR` builds elsewhere.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const at = process.argv.indexOf("--out");
const out = at < 0 ? join(web, "../assets") : process.argv[at + 1];

const hash = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** All files below a folder. */
function below(folder) {
  const inside = (entry) => (entry.isDirectory() ? below(join(folder, entry.name)) : [join(folder, entry.name)]);
  return readdirSync(folder, { withFileTypes: true }).flatMap(inside);
}

const built = await build({
  absWorkingDir: web,
  entryPoints: { app: "src/main.tsx", style: "src/app.css" },
  outdir: "built",
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  // Names of what is bundled follow from its paths, which must not depend on where node_modules really lies.
  preserveSymlinks: true,
  format: "esm",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
const output = (name) => Buffer.from(built.outputFiles.find((file) => file.path.endsWith(name)).contents);

const files = new Map([
  ["app.js", output("app.js")],
  ["app.css", output("style.css")],
  ["icon.svg", readFileSync(join(web, "src/icon.svg"))],
]);
// What has its hash in its address may be kept for ever.
const named = (text, name) => text.replaceAll(`/ui/${name}`, `/ui/${name}?${hash(files.get(name))}`);
let index = readFileSync(join(web, "src/index.html"), "utf8");
for (const name of files.keys()) index = named(index, name);
files.set("index.html", Buffer.from(index));

const bundled = Object.keys(built.metafile.inputs).filter((path) => !path.includes("node_modules"));
const ours = below(join(web, "src")).map((path) => relative(web, path).split(sep).join("/"));
// They too decide what esbuild makes of the client.
const client = ["package.json", "tsconfig.json"].map((name) => `../../../cli/clients/typescript/${name}`);
const sources = [...new Set([...ours, ...bundled, ...client, "build.mjs", "package.json", "package-lock.json", "tsconfig.json"])].sort();
const lines = [
  ...[...files].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, bytes]) => `asset ${hash(bytes)} ${name}`),
  ...sources.map((path) => `source ${hash(readFileSync(join(web, path)))} ${path}`),
];
mkdirSync(out, { recursive: true });
for (const [name, bytes] of files) writeFileSync(join(out, name), bytes);
writeFileSync(join(out, "manifest.txt"), `${lines.join("\n")}\n`);
