/** What axe finds wrong with a drawn page; for tests. */
import axe from "axe-core";

/** Rules that need a layout, which jsdom has none of; the pages in a real browser are held to them. */
export const NEED_LAYOUT = ["color-contrast", "target-size", "scrollable-region-focusable",
  "label-content-name-mismatch"];

/** One line for each violation: the rule, and what breaks it. */
export async function violations(container: Element): Promise<string[]> {
  const rules = Object.fromEntries(NEED_LAYOUT.map((rule) => [rule, { enabled: false }]));
  const found = await axe.run(container, { rules: { ...rules, region: { enabled: false } } });
  return found.violations.map(
    (one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`,
  );
}
