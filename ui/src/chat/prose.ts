/**
 * Draws the blocks of a text: each once, when it comes. How blocks continue and replace others is
 * written at `Block` in the app.
 *
 * Rule: what is drawn stays the same element for as long as its block is the same object, so a
 * selection in it, its place and its layout survive whatever follows.
 */
import type { Block, Tail } from "../ipc";

/** What a page adds to fresh elements, such as names of buttons. */
export type Finish = (fresh: ParentNode) => void;

export class Prose {
  private drawn: { block: Block; nodes: ChildNode[] }[] = [];
  private tail: ChildNode[] = [];
  private tailHtml = "";

  constructor(private root: HTMLElement, private finish: Finish = () => {}) {}

  update(blocks: readonly Block[], tail: Tail | null): void {
    let first = 0;
    while (first < this.drawn.length && this.drawn[first]!.block === blocks[first]) first += 1;
    const isSame = first === this.drawn.length && first === blocks.length;
    const html = tail?.html ?? "";
    if (isSame && html === this.tailHtml) return;
    for (const node of this.tail) node.remove();
    this.tail = [];
    this.tailHtml = html;
    if (!isSame) this.redraw(blocks, first);
    if (tail && html) this.tail = this.add(html, this.place(tail.continues, this.drawn.length), null);
  }

  /** Draws the blocks from `first` on, as far as they are others than before. */
  private redraw(blocks: readonly Block[], first: number): void {
    for (let index = first; index < blocks.length; ) {
      const known = this.drawn[index];
      if (!known) {
        this.draw(blocks[index]!, index, null);
        index += 1;
      } else if (known.block === blocks[index]) index += 1;
      else index = this.redrawGroup(blocks, index);
    }
    for (const gone of this.drawn.splice(blocks.length)) remove(gone.nodes);
  }

  /** Draws the whole group anew that `index` is in. Returns the index after it. */
  private redrawGroup(blocks: readonly Block[], index: number): number {
    let start = index;
    while (start > 0 && blocks[start]!.continues) start -= 1;
    let end = index + 1;
    while (end < blocks.length && blocks[end]!.continues) end += 1;
    let oldEnd = index + 1;
    while (oldEnd < this.drawn.length && this.drawn[oldEnd]!.block.continues) oldEnd += 1;
    const after = this.drawn[oldEnd]?.nodes[0] ?? null;
    for (const old of this.drawn.slice(start, oldEnd)) remove(old.nodes);
    for (let at = start; at < end; at++) this.draw(blocks[at]!, at, after);
    return end;
  }

  private draw(block: Block, index: number, before: ChildNode | null): void {
    const place = this.place(block.continues, index);
    const nodes = this.add(block.html, place, place === this.root ? before : null);
    this.drawn[index] = { block, nodes };
  }

  /** Where a block at `index` goes: into the last group before it, or after that. */
  private place(continues: boolean, index: number): ParentNode & Node {
    if (!continues) return this.root;
    let start = index - 1;
    while (start > 0 && this.drawn[start]!.block.continues) start -= 1;
    for (const node of this.drawn[start]?.nodes ?? []) {
      if (!(node instanceof Element)) continue;
      const more = node.classList.contains("more") ? node : node.querySelector(".more");
      if (more) return more;
    }
    return this.root;
  }

  private add(html: string, place: ParentNode & Node, before: ChildNode | null): ChildNode[] {
    const template = document.createElement("template");
    template.innerHTML = html;
    const nodes = [...template.content.childNodes];
    this.finish(template.content);
    place.insertBefore(template.content, before);
    return nodes;
  }
}

function remove(nodes: ChildNode[]): void {
  for (const node of nodes) node.remove();
}
