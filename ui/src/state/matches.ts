/** Text of messages as it is on the page, and the matches of a query in it. */

/** No match continues from one of these to the next. */
const LINES = "p, li, td, th, dt, dd, pre, h1, h2, h3, h4, h5, h6, blockquote, figure, div";

/** Labels on the page that are not part of a message. */
const LABELS = "button, .language, .alert-title";

/** Where a match starts and ends in a text. */
type Match = [number, number];

interface TextNodes {
  text: string;
  /** The text nodes, and where each starts in `text`. */
  nodes: { node: Text; start: number }[];
}

/** Returns the text in an element or in the parsed HTML of a block. */
export function textIn(root: Node): TextNodes {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const nodes: TextNodes["nodes"] = [];
  let text = "";
  let line: Element | null = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (parent?.closest(LABELS)) continue;
    const own = parent?.closest(LINES) ?? null;
    if (own !== line) text += "\n";
    line = own;
    nodes.push({ node: node as Text, start: text.length });
    text += node.textContent ?? "";
  }
  return { text, nodes };
}

/** Returns the matches of a query in a text, in any case. */
export function matchesIn(text: string, query: string): Match[] {
  if (query === "") return [];
  const pattern = new RegExp(query.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "giu");
  return [...text.matchAll(pattern)].map((found) => [found.index, found.index + found[0].length]);
}

/** Returns the matches of a query in an element. */
export function rangesIn(root: Node, query: string): Range[] {
  const { text, nodes } = textIn(root);
  // Matches are in order, so each node is passed once. Code has thousands of both.
  let at = 0;
  const nodeAt = (offset: number) => {
    while (nodes[at + 1] && nodes[at + 1]!.start <= offset) at += 1;
    return nodes[at]!;
  };
  return matchesIn(text, query).map(([start, end]) => {
    const first = nodeAt(start);
    const last = nodeAt(end - 1);
    const range = document.createRange();
    range.setStart(first.node, start - first.start);
    range.setEnd(last.node, end - last.start);
    return range;
  });
}

/**
 * Marks the matches on the page, and one of them as the current one. A web view without the CSS
 * Custom Highlight API selects the current one.
 */
export function mark(ranges: Range[], current: Range | undefined): void {
  const found = registry();
  if (found) {
    const one = new Highlight(...(current ? [current] : []));
    one.priority = 1;
    // One by one: a call can't have as many arguments as a long chat has matches of a letter.
    const all = new Highlight();
    for (const range of ranges) all.add(range);
    found.set("find", all);
    found.set("find-current", one);
  } else if (current) {
    const selection = getSelection();
    selection?.removeAllRanges();
    selection?.addRange(current);
  }
}

export function unmark(): void {
  const found = registry();
  found?.delete("find");
  found?.delete("find-current");
}

function registry(): HighlightRegistry | undefined {
  return typeof CSS === "undefined" ? undefined : (CSS.highlights as HighlightRegistry | undefined);
}
