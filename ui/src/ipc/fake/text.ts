/**
 * Answers of the fake app: pieces of text that grow word by word, and blocks that come whole. The
 * Markdown here is of the simplest, for the real one is made in Rust.
 */
import type { Block } from "../bindings";

/** A paragraph grows; a block is there at once. */
export type Piece = { words: string } | { html: string; source: string };

export function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Bold, code and links of one paragraph. */
export function inline(text: string): string {
  return escape(text)
    .replace(/\*\*(.+?)\*\*/g, "<strong>$1</strong>")
    .replace(/`(.+?)`/g, "<code>$1</code>")
    .replace(/\[(.+?)\]\((.+?)\)/g, '<a href="$2">$1</a>');
}

/** The pieces of a text: paragraphs part at empty lines. */
export function pieces(text: string): Piece[] {
  return text
    .split(/\n{2,}/)
    .filter((part) => part.trim() !== "")
    .map((words) => ({ words }));
}

export function blocks(all: Piece[]): Block[] {
  return all.map((piece) => ({
    is_inside: false,
    html: "words" in piece ? `<p>${inline(piece.words)}</p>` : piece.html,
  }));
}

export function source(all: Piece[]): string {
  return all.map((piece) => ("words" in piece ? piece.words : piece.source)).join("\n\n");
}
