/** Groups conversations by the day of their last message. */
import type { FoundConversation } from "../ipc";

const DAY = 86_400_000;

/** Groups in list order, each name once. Older ones are named by year and month, as `2026-03`. */
export function groups(
  found: readonly FoundConversation[], now: number, isSearch: boolean,
): { name: string; found: FoundConversation[] }[] {
  const all: { name: string; found: FoundConversation[] }[] = [];
  for (const one of found) {
    const { is_pinned, updated_at } = one.conversation;
    const name = isSearch ? "found" : is_pinned ? "pinned" : group(updated_at, now);
    const known = all.find((each) => each.name === name);
    if (known) known.found.push(one);
    else all.push({ name, found: [one] });
  }
  return all;
}

/** Counts calendar days, not spans of 24 hours. */
export function group(at: number, now: number): string {
  const then = new Date(at);
  const days = Math.round((midnight(new Date(now)) - midnight(then)) / DAY);
  if (days <= 0) return "today";
  if (days === 1) return "yesterday";
  if (days <= 7) return "week";
  if (days <= 30) return "month";
  return `${then.getFullYear()}-${String(then.getMonth() + 1).padStart(2, "0")}`;
}

function midnight(date: Date): number {
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
}
