/** The text of finished blocks for screen readers. */
import { t } from "../i18n";
import type { Block } from "../ipc";
import { elements } from "./elements";

/** Returns the text of a block: formulas as TeX, code as its language only. Empty if it has none. */
export function spoken(block: Block): string {
  const content = elements(block.html);
  for (const code of content.querySelectorAll("figure.code")) {
    const language = code.querySelector(".language")?.textContent;
    code.replaceWith([t("chat.code.block"), language].filter(Boolean).join(", "), " ");
  }
  for (const lines of content.querySelectorAll("span.lines")) lines.remove();
  for (const math of content.querySelectorAll("math[alttext]")) {
    math.replaceWith(math.getAttribute("alttext")!);
  }
  for (const cell of content.querySelectorAll(":is(th, td):not(:last-child)")) cell.append(", ");
  return (content.textContent ?? "").replace(/\s+/g, " ").trim();
}
