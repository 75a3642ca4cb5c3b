/**
 * What the quick prompt shows: what is typed and attached, and the last question with its answer.
 * Hiding the panel ends nothing: an answer goes on, and the exchange is shown again for a while.
 *
 * Rule: what is typed or attached stays until it is sent or removed.
 */
import { ipc, type Begun, type Failure, type TakenFrom, type TakenText } from "../ipc";
import { announcer } from "../state/announcer.svelte";
import { Answer } from "../state/answer.svelte";
import { copyText } from "../state/clipboard.svelte";
import { called, fill, matching, unknownCall } from "../state/prompts.svelte";
import { failureOf, refusal } from "../state/refusal";

/** Prompts that arrow-up goes back to; kept in memory only, so that clearing the history is true. */
const KEPT = 50;

/** How long an exchange that was left is shown again, and followed up. */
export const EXCHANGE_KEPT_MS = 10 * 60_000;

export class Session {
  text = $state("");
  taken = $state.raw<TakenText | null>(null);
  /** Nothing was selected, or nothing copied; or the system gave this reason not to read it. */
  nothingTaken = $state<TakenFrom | null>(null);
  takeRefused = $state("");
  /** What was asked, as it was typed. */
  question = $state("");
  conversation = $state<number | null>(null);
  answer = $state.raw<Answer | null>(null);
  failure = $state.raw<Failure | null>(null);
  isAsking = $state(false);
  /** The answer was just copied. */
  isCopied = $state(false);
  /** Raised when the input shall have the focus, all of it selected. */
  focuses = $state(0);

  #past: string[] = [];
  #at = 0;
  #draft = "";
  #last: { text: string; attachment: string } | null = null;
  /** The answer to the last question, once that was taken. */
  #lastAnswer: number | null = null;
  /** When the panel was left, or the answer ended if that was later. */
  #leftAt = 0;
  /** The line that was asked for though it calls a prompt that does not exist. */
  #warnedOf = $state<string | null>(null);

  get isWriting(): boolean {
    return this.isAsking || (this.answer?.isWriting ?? false);
  }

  /** The reusable prompts that the typed line may mean; empty when it means none. */
  get completions() {
    return matching(this.text) ?? [];
  }

  /** The answer's text; empty while it is written. */
  get answerText(): string {
    return this.isWriting ? "" : (this.answer?.message?.text ?? "");
  }

  /** The name that the line calls though no saved prompt has it; it is sent at the second Enter. */
  get unknown(): string | null {
    return this.text === this.#warnedOf ? unknownCall(this.text.trim()) : null;
  }

  /** The panel was shown again. */
  shown(): void {
    this.nothingTaken = null;
    if (!this.isWriting && Date.now() - this.#leftAt > EXCHANGE_KEPT_MS) this.#forget();
    this.focuses += 1;
  }

  /** The panel was hidden. */
  left(): void {
    this.#leftAt = Date.now();
  }

  async take(source: TakenFrom): Promise<void> {
    this.nothingTaken = null;
    this.takeRefused = "";
    try {
      const taken = await ipc.take(source);
      if (taken.text.trim() === "") this.nothingTaken = source;
      else this.taken = taken;
    } catch (error) {
      const said = refusal(error);
      this.nothingTaken = source;
      this.takeRefused = "reason" in said ? said.reason : said.code;
    }
    this.focuses += 1;
  }

  drop(): void {
    this.taken = null;
    this.nothingTaken = null;
  }

  async copy(): Promise<void> {
    if (this.answerText === "") return;
    await copyText(this.answerText);
    this.isCopied = true;
    setTimeout(() => (this.isCopied = false), 1600);
  }

  /** Asks what is typed; resolves when the answer has begun or was refused. */
  async ask(): Promise<void> {
    const typed = this.text.trim();
    if (this.isWriting || (typed === "" && !this.taken)) return;
    const { text, attachment } = composed(typed, this.taken?.text ?? "");
    if (text === "" && attachment === "") return;
    if (unknownCall(typed) !== null && this.text !== this.#warnedOf) {
      this.#warnedOf = this.text;
      return;
    }
    this.#remember(typed);
    this.question = typed || (this.taken?.text ?? "");
    this.#last = { text, attachment };
    this.#lastAnswer = null;
    this.#warnedOf = null;
    this.text = "";
    this.drop();
    this.#leaveAnswer();
    await this.#begin(() => this.#ask(false));
  }

  /** The same again after it failed; `insist` though the model does not fit. */
  async again(insist = false): Promise<void> {
    if (!this.#last || this.isWriting) return;
    const answer = this.#lastAnswer;
    await this.#begin(() => answer === null ? this.#ask(insist) : ipc.regenerate(answer, insist));
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

  /** The next question is no follow-up. What is typed and attached stays for it. */
  fresh(): void {
    if (this.isWriting) return;
    this.#forget();
    this.focuses += 1;
  }

  /** The history was cleared: nothing of it stays here. */
  forgetAll(): void {
    this.#forget();
    this.text = this.#draft = "";
    this.drop();
    this.#past = [];
    this.#at = 0;
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
    this.#leaveAnswer();
    this.#last = null;
    this.#lastAnswer = null;
    this.conversation = null;
    this.failure = null;
    this.question = "";
  }

  #leaveAnswer(): void {
    this.answer?.leave();
    this.answer = null;
    this.isCopied = false;
  }

  /** Asks the last question. If its conversation was deleted, another one is begun. */
  async #ask(insist: boolean): Promise<Begun> {
    const { text, attachment } = this.#last!;
    try {
      return await ipc.ask(this.conversation, text, attachment, insist);
    } catch (error) {
      if (this.conversation === null || refusal(error).code !== "not_found") throw error;
      this.conversation = null;
      return ipc.ask(null, text, attachment, insist);
    }
  }

  async #begin(call: () => Promise<Begun>): Promise<void> {
    this.failure = null;
    this.isAsking = true;
    try {
      const begun = await call();
      this.conversation = begun.conversation;
      this.#lastAnswer = begun.answer;
      this.#leaveAnswer();
      this.answer = new Answer(begun.answer, {
        finished: (texts) => announcer.say(...texts),
        ended: () => this.left(),
      });
      await this.answer.follow();
    } catch (error) {
      this.#leaveAnswer();
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
  const found = called(typed);
  if (!found) return { text: typed, attachment: taken };
  const { prompt, more } = found;
  // Without a place for it the taken text stays an attachment, which the page can fold.
  const isFilled = more === "" && taken !== "" && prompt.text.includes("{text}");
  return {
    text: fill(prompt, more || (isFilled ? taken : "")).trim(),
    attachment: isFilled ? "" : taken,
  };
}
