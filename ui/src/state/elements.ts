/** The one place where markup becomes elements. */

/**
 * Returns the elements of a block's HTML, which Rust has sanitized. They belong to no document until
 * they are put into one, and nothing in them loads or runs before.
 */
export function elements(html: string): DocumentFragment {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}
