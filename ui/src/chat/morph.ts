/**
 * Makes nodes that are on the page like others, with as few changes as a growing text needs: what
 * came before stays as it is, the last text gets longer, new nodes are added.
 *
 * Rule: afterwards the page holds what it would hold if the old nodes had been replaced.
 */

/** Changes `old`, neighbours on the page, into what `fresh` holds. Returns the nodes there now. */
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

/** Makes one node like another if they are of one kind; else returns false. */
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

/** Adding to a text costs the browser less than another text. */
function lengthen(known: Text, data: string): void {
  if (data.startsWith(known.data)) {
    known.appendData(data.slice(known.length));
  } else known.data = data;
}
