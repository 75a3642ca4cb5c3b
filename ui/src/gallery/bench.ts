/**
 * Streams a long response to measure the cost of drawing it: `?bench&rate=500&initial=8000`. The
 * script that opens it reads the CPU time of the page's process, and the progress from
 * `data-words`.
 */
import type { FakeIpc } from "../ipc/fake";
import type { Piece } from "../ipc/fake/text";
import { codeAnswer, prose } from "./texts";
import { key, type } from "./steps";

/** About 120 words each, some with a list or code. */
function longAnswer(parts: number): Piece[] {
  const paragraphs = prose.split("\n\n");
  return Array.from({ length: parts }, (_, part) => {
    const piece: Piece = { words: paragraphs[part % paragraphs.length]! };
    return part % 12 === 11 ? [codeAnswer[1]!, codeAnswer[3]!, piece] : [piece];
  }).flat();
}

export async function bench(ipc: FakeIpc, query: URLSearchParams, target: HTMLElement): Promise<void> {
  const number = (name: string, otherwise: number) => Number(query.get(name) ?? otherwise);
  ipc.script = { answer: longAnswer(1200), rate: number("rate", 500), initialWords: number("initial", 0), stays: true };
  const { openChat } = await import("../chat/open");
  await openChat(target);
  await type("Tell me everything");
  key("Enter");
  setInterval(() => (document.documentElement.dataset.words = String(ipc.player().written)), 100);
}
