/** Applies blocks of a text to those that were there before: by their index, as the app says. */
import type { Block } from "../ipc";

/** A new list where anything changed; blocks that stay are the same objects. */
export function settle(known: Block[], fresh: Block[]): Block[] {
  if (fresh.length === 0) return known;
  const blocks = known.slice();
  for (const block of fresh) blocks[Math.min(block.index, blocks.length)] = block;
  return blocks;
}
