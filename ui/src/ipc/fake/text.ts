/**
 * Responses of the fake app: paragraphs that grow word by word, and blocks that appear as a whole.
 * It supports only simple Markdown; the real renderer is in Rust.
 */
import type { Block } from "../bindings";

/** A paragraph grows; a block appears as a whole. */
export type Piece = { words: string } | { html: string; source: string };

export function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

export function inline(text: string): string {
  return escape(text)
    .replace(/\*\*(.+?)\*\*/g, "<strong>$1</strong>")
    .replace(/`(.+?)`/g, "<code>$1</code>")
    .replace(/\[(.+?)\]\((.+?)\)/g, '<a href="$2">$1</a>');
}

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
