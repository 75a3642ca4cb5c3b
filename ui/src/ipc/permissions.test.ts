/** Each window may call exactly the commands that its page calls. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const source = resolve(import.meta.dirname, "..");
const capabilities = resolve(source, "../../src-tauri/capabilities");

/** The files of a page, found by their imports. */
function filesOf(page: string): string[] {
  const found = new Set<string>();
  const left = [join(source, page, "main.ts")];
  for (let file = left.pop(); file; file = left.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    const text = readFileSync(file, "utf8");
    for (const [, path] of text.matchAll(/(?:from|import) "(\.{1,2}\/[^"]+)"/g)) {
      const near = join(dirname(file), path!);
      const names = readdirSync(dirname(near)).map((name) => join(dirname(near), name));
      const next = [near, `${near}.ts`, join(near, "index.ts")].find((one) =>
        names.includes(one) || one.endsWith("index.ts"));
      if (next && /\.(ts|svelte)$/.test(next)) left.push(next);
    }
  }
  return [...found].filter((file) => !file.includes("/ipc/"));
}

const commands = readFileSync(join(source, "ipc/commands.ts"), "utf8");

/** The commands of a method of `ipc`. */
function commandsOf(method: string): string[] {
  if (method === "onEvent") return [];
  if (method === "follow") return ["follow", "unfollow"];
  if (method === "followLocalApi") return ["follow_local_api", "unfollow"];
  const line = new RegExp(`^  ${method}:[^"]*?invoke(?:<[^"]*?>)?\\(\\s*"(\\w+)"`, "ms").exec(commands);
  return line ? [line[1]!] : [];
}

/** Commands that a page imports but never calls: the quick prompt lists no models. */
const unreached: Record<string, string[]> = { prompt: ["catalog", "downloads"] };

describe.each(["chat", "prompt", "settings"])("the window %s", (page) => {
  it("is allowed the commands that its page calls", () => {
    const called = new Set(filesOf(page).flatMap((file) =>
      [...readFileSync(file, "utf8").matchAll(/\bipc\s*\.(\w+)\(/g)].flatMap(([, method]) => commandsOf(method!))));
    const { permissions } = JSON.parse(readFileSync(join(capabilities, `${page}.json`), "utf8")) as {
      permissions: string[];
    };
    const allowed = permissions.filter((one) => one.startsWith("allow-"))
      .map((one) => one.slice("allow-".length).replaceAll("-", "_"));
    const uncalled = allowed.filter((name) => !called.has(name));
    const forbidden = [...called].filter((name) => !allowed.includes(name));
    expect({ uncalled, forbidden }).toEqual({ uncalled: [], forbidden: unreached[page] ?? [] });
  });
});
