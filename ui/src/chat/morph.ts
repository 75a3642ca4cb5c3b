/**
 * Updates nodes on the page to match others, with the few changes that a growing text needs:
 * unchanged nodes stay, the last text gets longer, new nodes are appended.
 *
 * Rule: afterwards the page has the same content as if the old nodes had been replaced.
 */

/** Changes the siblings `old` to match `fresh`. Returns the resulting nodes. */
export function morph(old: ChildNode[], fresh: ParentNode): ChildNode[] {
  const parent = old[0]?.parentNode;
  const after = old.at(-1)?.nextSibling ?? null;
  const nodes = [...fresh.childNodes].map((node, index) => {
    const known = old[index];
    if (known && become(known, node)) return known;
    if (known) known.replaceWith(node);
    else parent?.insertBefore(node, after);
    return node;
  });
  for (const gone of old.slice(nodes.length)) gone.remove();
  return nodes;
}

/** Changes one node to match another of the same kind; otherwise returns false. */
function become(known: ChildNode, node: ChildNode): boolean {
  if (known.isEqualNode(node)) return true;
  if (known instanceof Text && node instanceof Text) lengthen(known, node.data);
  else if (!(known instanceof Element) || !(node instanceof Element)) return false;
  else if (!known.cloneNode().isEqualNode(node.cloneNode())) return false;
  else within(known, node);
  return true;
}

function within(known: Element, node: Element): void {
  if (known.hasChildNodes()) morph([...known.childNodes], node);
  else known.replaceChildren(...node.childNodes);
}

/** Appending to a text node is cheaper for the browser than replacing it. */
function lengthen(known: Text, data: string): void {
  if (data.startsWith(known.data)) {
    known.appendData(data.slice(known.length));
  } else known.data = data;
}
