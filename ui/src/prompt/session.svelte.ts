/**
 * One visit to the quick prompt: what is typed, what is taken along, the answer. Hiding ends nothing:
 * an answer that is being written is still there when the panel comes back, and in the history.
 */
import { ipc, type Failure, type TakenFrom, type TakenText } from "../ipc";
import { announcer } from "../state/announcer.svelte";
import { app } from "../state/app.svelte";
import { Answer } from "../state/answer.svelte";
import { fill, matching, prompts } from "../state/prompts.svelte";
import { failureOf } from "../state/refusal";

/** Prompts that arrow-up goes back to; kept in memory only, so that clearing the history is true. */
const KEPT = 50;

export class Session {
  text = $state("");
  taken = $state.raw<TakenText | null>(null);
  /** Nothing was selected, or nothing copied. */
  nothingTaken = $state<TakenFrom | null>(null);
  /** What was asked, as it was typed. */
  question = $state("");
  conversation = $state<number | null>(null);
  answer = $state.raw<Answer | null>(null);
  failure = $state.raw<Failure | null>(null);
  isAsking = $state(false);
  /** Raised when the input shall have the focus, all of it selected. */
  focuses = $state(0);

  #past: string[] = [];
  #at = 0;
  #draft = "";
  #last: { text: string; attachment: string } | null = null;

  get isWriting(): boolean {
    return this.isAsking || (this.answer?.isWriting ?? false);
  }

  /** The reusable prompts that the typed line may mean; empty when it means none. */
  get completions() {
    return matching(this.text) ?? [];
  }

  /** The panel was shown again. */
  shown(): void {
    if (!this.isWriting) this.#forget();
    this.focuses += 1;
  }

  async take(source: TakenFrom): Promise<void> {
    this.nothingTaken = null;
    app.notice = null;
    const taken = await ipc.take(source).catch((): TakenText => ({ source, text: "" }));
    if (taken.text.trim() === "") this.nothingTaken = source;
    else this.taken = taken;
    this.focuses += 1;
  }

  drop(): void {
    this.taken = null;
    this.nothingTaken = null;
  }

  /** Asks what is typed; resolves when the answer has begun or was refused. */
  async ask(): Promise<void> {
    const typed = this.text.trim();
    if (this.isWriting || (typed === "" && !this.taken)) return;
    const { text, attachment } = composed(typed, this.taken?.text ?? "");
    if (text === "" && attachment === "") return;
    this.#remember(typed);
    this.question = typed || (this.taken?.text ?? "");
    this.#last = { text, attachment };
    this.text = "";
    this.drop();
    await this.#begin(false);
  }

  /** The same again after it failed; `insist` though the model does not fit. */
  async again(insist = false): Promise<void> {
    if (!this.#last || this.isWriting) return;
    await this.#begin(insist);
  }

  async stop(): Promise<void> {
    if (this.answer?.isWriting) await ipc.stop(this.answer.id).catch(() => undefined);
  }

  /** Esc: away, and the focus back to where it was. An answer goes on. */
  async hide(): Promise<void> {
    await ipc.hideWindow();
  }

  /** The exchange goes on in the chat window. A text that was typed but not asked is asked first. */
  async handOff(): Promise<void> {
    if (this.text.trim() !== "" && !this.isWriting) await this.ask();
    if (this.failure && !this.answer) return;
    await ipc.showWindow("chat", this.conversation, null);
    await ipc.hideWindow();
  }

  /** Begins anew: the next question is no follow-up. */
  fresh(): void {
    if (this.isWriting) return;
    this.#forget();
    this.text = "";
    this.focuses += 1;
  }

  /** One step back (-1) or forth (1) in what was asked before. */
  recall(by: -1 | 1): void {
    const to = this.#at + by;
    if (to < 0 || to > this.#past.length) return;
    if (this.#at === this.#past.length) this.#draft = this.text;
    this.#at = to;
    this.text = this.#past[to] ?? this.#draft;
  }

  #remember(typed: string): void {
    if (typed !== "" && this.#past.at(-1) !== typed) this.#past.push(typed);
    this.#past = this.#past.slice(-KEPT);
    this.#at = this.#past.length;
  }

  #forget(): void {
    this.answer?.leave();
    this.answer = null;
    this.conversation = null;
    this.failure = null;
    this.question = "";
    this.drop();
  }

  async #begin(insist: boolean): Promise<void> {
    const { text, attachment } = this.#last!;
    this.failure = null;
    this.isAsking = true;
    try {
      const begun = await ipc.ask(this.conversation, text, attachment, insist);
      this.conversation = begun.conversation;
      this.answer?.leave();
      this.answer = new Answer(begun.answer, { sentences: (said) => announcer.say(...said) });
      await this.answer.follow();
    } catch (error) {
      this.answer = null;
      this.failure = failureOf(error);
    } finally {
      this.isAsking = false;
    }
  }
}

/**
 * What is sent. `/name more` stands for the reusable prompt of that name; its `{text}` is what was
 * typed after the name, else what was taken along, which then is not sent a second time.
 */
export function composed(typed: string, taken: string): { text: string; attachment: string } {
  const called = /^\/(\S+)(?:\s+([\s\S]*))?$/.exec(typed);
  const prompt = called && prompts().find((one) => one.name.toLowerCase() === called[1]?.toLowerCase());
  if (!prompt) return { text: typed, attachment: taken };
  const more = called[2]?.trim() ?? "";
  // Without a place for it the taken text stays an attachment, which the page can fold.
  const isFilled = more === "" && taken !== "" && prompt.text.includes("{text}");
  return {
    text: fill(prompt, more || (isFilled ? taken : "")).trim(),
    attachment: isFilled ? "" : taken,
  };
}
