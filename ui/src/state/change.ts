/** Applies a change to the blocks of a text. */
import type { Block, Change } from "../ipc";

/** Returns the blocks after `change`. Blocks that did not change are the same objects. */
export function changed(known: readonly Block[], change: Change): Block[] {
  const blocks = known.slice(0, change.n_blocks);
  for (const [index, block] of change.blocks) blocks[index] = block;
  return blocks;
}
