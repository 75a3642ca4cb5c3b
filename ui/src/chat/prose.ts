/**
 * Draws the blocks of a text. `Block` in the Rust code documents what a block is and where it goes.
 *
 * Rule: a block keeps its elements until its HTML changes, so that selection, position and layout
 * are preserved.
 */
import type { Block } from "../ipc";
import { elements } from "../state/elements";
import { morph } from "./morph";

/** Changes that the page makes to new elements, such as labels of buttons. */
export type Finish = (fresh: ParentNode) => void;

export class Prose {
  private drawn: { block: Block; nodes: ChildNode[] }[] = [];

  constructor(private root: HTMLElement, private finish: Finish = () => {}) {}

  update(blocks: readonly Block[]): void {
    blocks.forEach((block, index) => {
      const known = this.drawn[index];
      if (known?.block === block) return;
      if (known?.block.html !== block.html || known.block.is_inside !== block.is_inside) {
        this.draw(block, index);
      } else known.block = block;
    });
    this.cut(blocks.length);
  }

  private draw(block: Block, index: number): void {
    const fresh = this.parse(block.html);
    const known = this.drawn[index];
    let nodes: ChildNode[];
    if (known && this.isAlike(block, index)) nodes = morph(known.nodes, fresh);
    else {
      this.cut(index);
      nodes = [...fresh.childNodes];
      this.place(block).append(fresh);
    }
    this.drawn[index] = { block, nodes };
  }

  /** Returns true if the elements at `index` can be updated to `block`: no other blocks are inside them. */
  private isAlike(block: Block, index: number): boolean {
    if (this.drawn[index]!.block.is_inside !== block.is_inside) return false;
    return block.is_inside || !this.drawn[index + 1]?.block.is_inside;
  }

  /** Returns the parent for a block that is appended. */
  private place(block: Block): ParentNode {
    if (!block.is_inside) return this.root;
    let at = this.drawn.length - 1;
    while (at > 0 && this.drawn[at]!.block.is_inside) at -= 1;
    const frame = this.drawn[at]?.nodes.find((node) => node instanceof Element);
    if (!frame || frame.matches("ul, ol")) return frame ?? this.root;
    return frame.querySelector("tbody, pre > code") ?? this.root;
  }

  private cut(index: number): void {
    for (const { nodes } of this.drawn.splice(index)) for (const node of nodes) node.remove();
  }

  private parse(html: string): DocumentFragment {
    const parsed = elements(html);
    this.finish(parsed);
    return parsed;
  }
}
