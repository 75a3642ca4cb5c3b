/** Lists the violations that axe finds in a drawn page, for tests. */
import axe from "axe-core";

/** Rules that need a layout, which jsdom does not have; they are checked in a real browser. */
export const NEED_LAYOUT = ["color-contrast", "target-size", "scrollable-region-focusable",
  "label-content-name-mismatch"];

/** One line per violation: the rule and its targets. */
export async function violations(container: Element): Promise<string[]> {
  const rules = Object.fromEntries(NEED_LAYOUT.map((rule) => [rule, { enabled: false }]));
  const found = await axe.run(container, { rules: { ...rules, region: { enabled: false } } });
  return found.violations.map(
    (one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`,
  );
}
