/**
 * Draws the blocks of a text: each once, when it comes. How blocks continue and replace others is
 * written at `Block` in the app.
 *
 * Rule: what is drawn stays the same element for as long as its block is the same object, so a
 * selection in it, its place and its layout survive whatever follows.
 */
import type { Block, Tail } from "../ipc";
import { morph } from "./morph";

/** So many nodes of a line of text are laid out together. */
const MAX_TOGETHER = 200;

/** What a page adds to fresh elements, such as names of buttons. */
export type Finish = (fresh: ParentNode) => void;

export class Prose {
  private drawn: { block: Block; nodes: ChildNode[] }[] = [];
  private blocks: readonly Block[] = [];
  private tail: ChildNode[] = [];
  private tailHtml = "";
  private tailPlace: (ParentNode & Node) | null = null;

  constructor(private root: HTMLElement, private finish: Finish = () => {}) {}

  update(blocks: readonly Block[], tail: Tail | null): void {
    const html = tail?.html ?? "";
    const isSame = blocks === this.blocks;
    if (isSame && html === this.tailHtml && this.tailPlace === this.placeOf(tail)) return;
    this.blocks = blocks;
    const isOther = !isSame && this.isOther(blocks);
    if (!isOther && html && this.tail.length && this.tailPlace === this.placeOf(tail)) {
      this.tail = morph(this.tail, this.parse(html));
    } else {
      remove(this.tail);
      if (isOther) this.redraw(blocks);
      this.tailPlace = this.placeOf(tail);
      this.tail = this.tailPlace ? this.add(html, this.tailPlace, null) : [];
    }
    this.tailHtml = html;
  }

  private isOther(blocks: readonly Block[]): boolean {
    return blocks.length !== this.drawn.length ||
      this.drawn.some(({ block }, index) => block !== blocks[index]);
  }

  /** Where a tail goes; null where there is none. */
  private placeOf(tail: Tail | null): (ParentNode & Node) | null {
    return tail?.html ? this.place(tail.continues, this.drawn.length) : null;
  }

  /** Draws the blocks, as far as they are others than before. */
  private redraw(blocks: readonly Block[]): void {
    for (let index = 0; index < blocks.length; ) {
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
      if (more) return more.localName === "code" ? lines(more) : more;
    }
    return this.root;
  }

  private add(html: string, place: ParentNode & Node, before: ChildNode | null): ChildNode[] {
    const fresh = this.parse(html);
    const nodes = [...fresh.childNodes];
    place.insertBefore(fresh, before);
    return nodes;
  }

  private parse(html: string): DocumentFragment {
    const template = document.createElement("template");
    template.innerHTML = html;
    this.finish(template.content);
    return template.content;
  }
}

function remove(nodes: ChildNode[]): void {
  for (const node of nodes) node.remove();
}

/**
 * Where more lines of code go. All text in one element is one text to the browser, laid out anew
 * for each line that comes; so when it is long the next lines get an element of their own.
 */
function lines(code: Element): Element {
  const last = code.lastElementChild?.classList.contains("lines") ? code.lastElementChild : code;
  const isFull = last.childNodes.length >= MAX_TOGETHER;
  if (!isFull || !last.lastChild?.textContent?.endsWith("\n")) return last;
  const next = document.createElement("span");
  next.className = "lines";
  code.append(next);
  return next;
}
