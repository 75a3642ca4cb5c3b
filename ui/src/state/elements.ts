/** The only place where HTML becomes elements. */

/**
 * Returns the elements of a block's HTML, which Rust has sanitized. They belong to no document
 * until they are inserted into one; until then nothing in them loads or runs.
 */
export function elements(html: string): DocumentFragment {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}
