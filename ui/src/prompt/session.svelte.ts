/**
 * The state of the quick prompt: the input, the attachment, and the last question with its
 * response. Hiding the panel stops nothing: a response continues, and the exchange stays visible
 * for a while.
 *
 * Rule: typed text and attachments stay until the user sends or removes them.
 */
import { ipc, type Begun, type Failure, type TakenFrom, type TakenText } from "../ipc";
import { announcer } from "../state/announcer.svelte";
import { Answer } from "../state/answer.svelte";
import { copyText } from "../state/clipboard.svelte";
import { called, fill, matching, unknownCall } from "../state/prompts.svelte";
import { failureOf, refusal } from "../state/refusal";

/** Earlier inputs for arrow-up. Kept only in memory, so that clearing the history removes them. */
const KEPT = 50;

/** How long the last exchange is shown again and can be continued. */
export const EXCHANGE_KEPT_MS = 10 * 60_000;

export class Session {
  text = $state("");
  taken = $state.raw<TakenText | null>(null);
  /** Nothing was selected or copied, or the system gave this reason. */
  nothingTaken = $state<TakenFrom | null>(null);
  takeRefused = $state("");
  /** The question as typed. */
  question = $state("");
  conversation = $state<number | null>(null);
  answer = $state.raw<Answer | null>(null);
  failure = $state.raw<Failure | null>(null);
  isAsking = $state(false);
  /** The response was just copied. */
  isCopied = $state(false);
  /** Incremented to focus the input and select all of it. */
  focuses = $state(0);

  #past: string[] = [];
  #at = 0;
  #draft = "";
  #last: { text: string; attachment: string } | null = null;
  /** The response to the last question, once it was accepted. */
  #lastAnswer: number | null = null;
  /** When the panel was hidden, or the response ended if that was later. */
  #leftAt = 0;
  /** The line that was submitted although its prompt does not exist. */
  #warnedOf = $state<string | null>(null);

  get isWriting(): boolean {
    return this.isAsking || (this.answer?.isWriting ?? false);
  }

  /** Saved prompts that match the typed line; empty if none does. */
  get completions() {
    return matching(this.text) ?? [];
  }

  /** The response's text; empty while it is streaming. */
  get answerText(): string {
    return this.isWriting ? "" : (this.answer?.message?.text ?? "");
  }

  /** The `/name` in the line that no saved prompt has. The second Enter sends it. */
  get unknown(): string | null {
    return this.text === this.#warnedOf ? unknownCall(this.text.trim()) : null;
  }

  /** Called when the panel is shown. */
  shown(): void {
    this.nothingTaken = null;
    if (!this.isWriting && Date.now() - this.#leftAt > EXCHANGE_KEPT_MS) this.#forget();
    this.focuses += 1;
  }

  /** Called when the panel is hidden. */
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

  /** Sends the input. Resolves when the response has started or was refused. */
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

  /** Retries after a failure; `overBudget` even if the model does not fit. */
  async again(insist = false): Promise<void> {
    if (!this.#last || this.isWriting) return;
    const answer = this.#lastAnswer;
    await this.#begin(() => answer === null ? this.#ask(insist) : ipc.regenerate(answer, insist));
  }

  async stop(): Promise<void> {
    if (this.answer?.isWriting) await ipc.stop(this.answer.id).catch(() => undefined);
  }

  /** Esc: hides the panel and restores the focus. A response continues. */
  async hide(): Promise<void> {
    await ipc.hideWindow();
  }

  /** Continues in the chat window. Typed text is sent first. */
  async handOff(): Promise<void> {
    if (this.text.trim() !== "" && !this.isWriting) await this.ask();
    if (this.failure && !this.answer) return;
    await ipc.showWindow("chat", this.conversation, null);
    await ipc.hideWindow();
  }

  /** Starts a new conversation. Typed text and attachments stay. */
  fresh(): void {
    if (this.isWriting) return;
    this.#forget();
    this.focuses += 1;
  }

  /** Called when the history was cleared: removes everything. */
  forgetAll(): void {
    this.#forget();
    this.text = this.#draft = "";
    this.drop();
    this.#past = [];
    this.#at = 0;
  }

  /** Goes back (-1) or forward (1) in earlier inputs. */
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

  /** Sends the last question. If its conversation was deleted, creates a new one. */
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
 * Returns the text to send. `/name more` stands for the saved prompt of that name. Its `{text}` is
 * the text after the name, else the attachment, which then is not sent separately.
 */
export function composed(typed: string, taken: string): { text: string; attachment: string } {
  const found = called(typed);
  if (!found) return { text: typed, attachment: taken };
  const { prompt, more } = found;
  // Without a placeholder, the text stays an attachment, which the page can collapse.
  const isFilled = more === "" && taken !== "" && prompt.text.includes("{text}");
  return {
    text: fill(prompt, more || (isFilled ? taken : "")).trim(),
    attachment: isFilled ? "" : taken,
  };
}
