/** Menu items and menu positions. */
import type { IconName } from "./icons";

export type MenuItem =
  | { kind?: "item"; label: string; detail?: string; icon?: IconName; checked?: boolean;
      danger?: boolean; disabled?: boolean; keys?: string; choose: () => void }
  | { kind: "line" }
  | { kind: "title"; label: string };

/** Returns the position of a box of this size: below its trigger, or above if there is more room. */
export function place(
  trigger: { left: number; right: number; top: number; bottom: number },
  box: { width: number; height: number },
  view: { width: number; height: number },
  align: "start" | "end",
): { left: number; top: number; maxHeight: number } {
  const gap = 5;
  const edge = 8;
  const below = view.height - trigger.bottom - gap - edge;
  const above = trigger.top - gap - edge;
  const goesBelow = box.height <= below || below >= above;
  const maxHeight = Math.max(80, goesBelow ? below : above);
  const height = Math.min(box.height, maxHeight);
  const wanted = align === "start" ? trigger.left : trigger.right - box.width;
  const left = Math.max(edge, Math.min(wanted, view.width - box.width - edge));
  const top = goesBelow ? trigger.bottom + gap : trigger.top - gap - height;
  return { left, top: Math.max(edge, top), maxHeight };
}
