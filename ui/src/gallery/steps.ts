/** Building blocks of states: conversations, clicks and keys. */
import { tick } from "svelte";
import type { Conversation, MessageView } from "../ipc";
import type { FakeIpc } from "../ipc/fake";
import { blocks, source, type Piece } from "../ipc/fake/text";
import { page } from "../state/page.svelte";
import { prose } from "./texts";

export function wait(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}

/**
 * Waits until the page contains the text that identifies the state, visibly or for screen readers,
 * so that no screenshot shows another state. Fails after two seconds.
 */
export async function claim(name: string, shows: string): Promise<void> {
  for (let tries = 0; tries < 40; tries++) {
    if (text().includes(shows)) return;
    await wait(50);
  }
  throw new Error(`the state ${name} does not show “${shows}” but: ${text().slice(0, 500)}`);
}

function text(): string {
  const named = ["aria-label", "title", "placeholder"];
  const names = [...document.querySelectorAll<HTMLElement>("body *")].flatMap((element) =>
    named.flatMap((name) => element.getAttribute(name) ?? []));
  const typed = [...document.querySelectorAll<HTMLInputElement>("input, textarea")].map((field) => field.value);
  return [document.body.textContent, ...names, ...typed].join("\n").replace(/\s+/g, " ");
}

export async function click(selector: string): Promise<void> {
  for (let tries = 0; tries < 40; tries++) {
    const found = document.querySelector<HTMLElement>(selector);
    if (found) {
      found.click();
      await tick();
      return;
    }
    await wait(25);
  }
  throw new Error(`nothing to click: ${selector}`);
}

export async function type(text: string, selector = "textarea"): Promise<void> {
  const field = document.querySelector<HTMLInputElement | HTMLTextAreaElement>(selector);
  if (!field) throw new Error(`nothing to type in: ${selector}`);
  field.focus();
  field.value = text;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
  await tick();
}

export async function showHistory(): Promise<void> {
  page.isHistoryShown = true;
  await tick();
}

export function key(name: string, more: KeyboardEventInit = {}): void {
  const target = document.activeElement ?? document.body;
  target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
}

/** One question and its response, after an older exchange. */
export function answered(
  ipc: FakeIpc, question: string, answer: Piece[], more: Partial<MessageView> = {},
): Conversation {
  return ipc.addConversation(question.replace(/[.?]$/, ""), [
    question, { blocks: blocks(answer), text: source(answer), ...more },
  ]);
}

const talk = [
  ["How long does bread need to rise?", "Until it has about doubled: an hour at 25 °C, two or three in a cool kitchen. Press a floured finger into it; when the dent comes back slowly, it is ready."],
  ["And overnight in the fridge?", "That works well, and tastes better for it. Use **half the yeast**, cover the bowl, and give it 8 to 16 hours. Let it come to room temperature for an hour before you shape it.\n\nThe cold slows the yeast more than the enzymes, so the dough grows slowly while its flavor goes on developing."],
  ["What if I forget the salt?", "It rises faster, spreads more, and tastes of little. If you notice before baking, knead the salt in with a spoon of water; the dough will feel slack for a minute, and then tighten."],
] as const;

export function longConversation(ipc: FakeIpc, count: number): Conversation {
  const texts = Array.from({ length: count }, (_, index) => {
    const exchange = talk[Math.floor(index / 2) % talk.length]!;
    if (index % 2 === 0) return exchange[0];
    return index % 6 === 5 ? `${exchange[1]}\n\n${prose}` : exchange[1];
  });
  return ipc.addConversation("Bread and how it rises", texts);
}

const titles: [string, number][] = [
  ["A note to the neighbors about Saturday", 1], ["Regular expressions for dates", 3],
  ["Five dinners with lentils", 27], ["Why is the sky blue", 30], ["Packing list for the coast", 80],
  ["What does a transom do", 110], ["Translate the landlord’s letter", 140],
  ["Names for a gray cat", 400], ["Interest, compounded monthly", 520], ["Haiku about rain", 1500],
];

export function manyConversations(ipc: FakeIpc): void {
  for (const [title, age] of titles.toReversed()) {
    const made = ipc.addConversation(title, [title, "Here is a thought about that."], age);
    if (title.startsWith("Packing")) {
      ipc.tree.conversations.set(made.id, { ...made, is_pinned: true });
    }
  }
  longConversation(ipc, 6);
}
