/** Lists the names of all states next to the gallery, for the screenshot program. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Plugin } from "vite";

const lists = ["states.ts", "settings-states.ts", "models-states.ts", "prompt-states.ts", "zoomed-states.ts"];

/** Reads names from the source, `"name": {` indented by two spaces, because running it needs a page. */
export function galleryList(): Plugin {
  return {
    name: "transom-gallery-list",
    apply: "build",
    generateBundle() {
      const paths = lists.map((list) => resolve(import.meta.dirname, list));
      const names = paths.flatMap((path) =>
        [...readFileSync(path, "utf8").matchAll(/^  "([a-z0-9-]+)": \{/gm)].map((found) => found[1]),
      );
      const source = `${JSON.stringify(names, null, 2)}\n`;
      this.emitFile({ type: "asset", fileName: "gallery-states.json", source });
    },
  };
}
