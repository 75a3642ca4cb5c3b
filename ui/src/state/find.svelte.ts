/**
 * The search in the visible conversation. Only some messages are on the page, so the texts of all
 * of them are loaded, and searched as they are shown.
 */
import { ipc, type MessageId, type MessageView } from "../ipc";
import { failureOf } from "./command-error";
import { elements } from "./elements";
import { matchesIn, textIn } from "./matches";
import { transcript } from "./transcript.svelte";

/** Messages per call. */
const PAGE = 100;

/** A match: its message, and its number among the matches of the message. */
export interface Found {
  message: MessageId;
  nth: number;
}

class Find {
  isShown = $state(false);
  query = $state("");
  found = $state.raw<Found[]>([]);
  /** The index of the current match. */
  index = $state(0);
  /** The texts are loaded and searched. */
  isDone = $state(false);

  /** Texts of messages that the transcript has not loaded. */
  #texts = new Map<MessageId, string>();
  /** Texts of its messages. One that was edited or continued is another view. */
  #shown = new WeakMap<MessageView, string>();
  #turn = 0;
  /** The query of `found`. */
  #searched = "";

  get current(): Found | null {
    return this.found[this.index] ?? null;
  }

  /**
   * Searches again. The current match stays the same object; for a new query, it is the first from
   * the message `from` on.
   */
  async search(from: number): Promise<void> {
    const turn = ++this.#turn;
    const { heads } = transcript;
    const { query } = this;
    this.isDone = false;
    try {
      if (query !== "") await this.#load(heads.map((head) => head.id));
    } catch (error) {
      if (turn === this.#turn) transcript.failure = failureOf(error);
    }
    if (turn !== this.#turn) return;
    const before = query === this.#searched ? this.current : null;
    this.#searched = query;
    const found = heads.flatMap(({ id }) =>
      matchesIn(this.#textOf(id), query).map((_, nth): Found => ({ message: id, nth })));
    const later = new Set(heads.slice(from).map((head) => head.id));
    const kept = found.findIndex((one) =>
      one.message === before?.message && one.nth === before.nth);
    if (before && kept >= 0) found[kept] = before;
    const next = found.findIndex((one) => later.has(one.message));
    this.found = found;
    this.index = kept >= 0 ? kept : Math.max(0, next);
    this.isDone = true;
  }

  /** Goes to the next match, or with -1 to the previous one. */
  go(by: number): void {
    const n = this.found.length;
    if (n > 0) this.index = (this.index + by + n) % n;
  }

  close(): void {
    this.#turn += 1;
    this.isShown = false;
    this.found = [];
    this.#texts.clear();
  }

  async #load(ids: MessageId[]): Promise<void> {
    const missing = ids.filter((id) =>
      !this.#texts.has(id) && !viewOf(id) && !transcript.answers.has(id));
    for (let at = 0; at < missing.length; at += PAGE) {
      for (const view of await ipc.messages(missing.slice(at, at + PAGE))) {
        this.#texts.set(view.id, shownText(view));
      }
    }
  }

  #textOf(id: MessageId): string {
    const view = viewOf(id);
    if (!view) return this.#texts.get(id) ?? "";
    const answer = transcript.answers.get(id);
    if (answer?.isWriting) return shownText(view, answer.blocks);
    const text = this.#shown.get(view) ?? shownText(view, answer?.blocks);
    this.#shown.set(view, text);
    return text;
  }
}

function viewOf(id: MessageId): MessageView | null {
  return transcript.views.get(id) ?? transcript.answers.get(id)?.message ?? null;
}

/** Returns the text of a message without its Markdown. */
function shownText(view: MessageView, blocks = view.blocks): string {
  if (view.speaker === "user") return view.text;
  return blocks.map((block) => textIn(elements(block.html)).text).join("\n");
}

export const find = new Find();
