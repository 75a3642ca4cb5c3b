/**
 * The state of the quick prompt: the input, the attachment, and the last question with its
 * response. Hiding the panel stops nothing: a response continues, and the exchange stays visible
 * for a while.
 *
 * Rule: typed text and attachments stay until the user sends or removes them.
 */
import {
  ipc, NO_SETTINGS, type ConversationSettings, type StartedTurn, type Failure, type ModelView, type TextSource,
  type CapturedText, type Route, type TargetProblem, type TargetView,
} from "../ipc";
import { announcer } from "../state/announcer.svelte";
import { app } from "../state/app.svelte";
import { Answer } from "../state/answer.svelte";
import { assistants, modelOf, withAssistant } from "../state/assistants.svelte";
import { copyText } from "../state/clipboard.svelte";
import { called, fill, matching, unknownCall } from "../state/prompts.svelte";
import { OfferedModel } from "../state/offer.svelte";
import { MessageRoute, type RouteChoice } from "../state/route.svelte";
import { failureOf, commandError } from "../state/command-error";
import { estimatedTokens } from "../state/tokens";

/** Earlier inputs for arrow-up. Kept only in memory, so that clearing the history removes them. */
const MAX_EARLIER = 50;

/** How long the last exchange is shown again and can be continued. */
export const EXCHANGE_TIMEOUT_MS = 10 * 60_000;

export class Session {
  text = $state("");
  captured = $state.raw<CapturedText | null>(null);
  /** The route of the question that is being written. */
  route = new MessageRoute();
  /** Another model for it. */
  offer = new OfferedModel();
  /** Nothing was selected or copied, or the system gave this reason. */
  nothingCaptured = $state<TextSource | null>(null);
  captureError = $state("");
  question = $state("");
  conversation = $state<number | null>(null);
  /** The name of the assistant that new conversations use; empty for none. */
  assistant = $state("");
  answer = $state.raw<Answer | null>(null);
  failure = $state.raw<Failure | null>(null);
  isAsking = $state(false);
  isCopied = $state(false);
  /** The program that the prompt was called from. */
  target = $state.raw<TargetView>({ has_selection: false, problem: "no_program" });
  /** Why the response was not inserted there; `not_taken` if the program ignored it. */
  insertProblem = $state<TargetProblem | "not_taken" | null>(null);
  /** Incremented to focus the input and select all of it. */
  focusRequests = $state(0);

  /** The running insertion, which a second press of its key must not repeat. */
  #insertion: symbol | null = null;
  #earlier: string[] = [];
  #earlierIndex = 0;
  #draft = "";
  /** The assistant of the conversation. */
  #askedWith = "";
  /** The settings of the last question. */
  #askedSettings = NO_SETTINGS;
  /** The id of the model of this conversation: the chosen one, or that of its first question. */
  #ownModel = $state<string | null>(null);
  #last: { text: string; attachment: string; containedTokens: number; route: RouteChoice } | null = null;
  /** The response to the last question, once it was accepted. */
  #lastAnswer: number | null = null;
  /** When the panel was hidden, or the response ended if that was later. */
  #leftAt = 0;
  /** The line that was submitted although its prompt does not exist. */
  #warnedText = $state<string | null>(null);

  get isWriting(): boolean {
    return this.isAsking || (this.answer?.isWriting ?? false);
  }

  /** Nothing was typed, attached or asked. */
  get isEmpty(): boolean {
    return this.text === "" && !this.captured && !this.nothingCaptured && !this.answer &&
      !this.failure && !this.isAsking;
  }

  /** The settings of a new conversation. */
  get settings(): ConversationSettings {
    const assistant = assistants().find((one) => one.name === this.assistant);
    const settings = assistant ? withAssistant(assistant, NO_SETTINGS) : NO_SETTINGS;
    return { ...settings, model: this.#ownModel ?? settings.model };
  }

  /** The model that responds next. */
  get model(): ModelView | null {
    return modelOf(this.settings);
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
    return this.text === this.#warnedText ? unknownCall(this.text.trim()) : null;
  }

  shown(): void {
    this.nothingCaptured = null;
    // A press now is meant, also while the other program still takes the earlier text.
    this.#insertion = null;
    this.focusRequests += 1;
    if (this.isWriting) return;
    if (Date.now() - this.#leftAt > EXCHANGE_TIMEOUT_MS) this.#forget();
    // The question reports why a model can't be loaded.
    void ipc.loadModel(this.settings).catch(() => undefined);
  }

  hidden(): void {
    this.insertProblem = null;
    this.#leftAt = Date.now();
  }

  async capture(source: TextSource): Promise<void> {
    this.nothingCaptured = null;
    this.captureError = "";
    try {
      const captured = await ipc.captureText(source);
      if (captured.text.trim() === "") this.nothingCaptured = source;
      else this.captured = captured;
    } catch (error) {
      const rejection = commandError(error);
      this.nothingCaptured = source;
      this.captureError = "reason" in rejection ? rejection.reason : rejection.code;
    }
    this.focusRequests += 1;
  }

  /** What is sent for the typed line and the captured text. */
  #composed = $derived(composed(this.text.trim(), this.captured?.text ?? ""));

  /** The tokens of the captured text if a saved prompt contains it. */
  #containedTokens = $derived(
    this.#composed.attachment === "" ? estimatedTokens(this.captured?.text ?? "") : 0);

  /**
   * Derived, so that news of the status that do not change it do not update the route. A loaded model keeps a
   * larger context.
   */
  #contextLength = $derived.by(() => {
    const loaded = app.status?.model;
    const ofLoaded = loaded?.name === this.model?.name ? loaded?.context_length : null;
    return Math.max(this.settings.context_length ?? 0, ofLoaded ?? 0) || null;
  });

  /** Finds the route of the question that is being written. */
  updateRoute(): void {
    const { text, attachment } = this.#composed;
    this.route.update({
      conversation: this.conversation, typed: this.text, text, model: this.model,
      attachments: attachment === "" ? [] : [{ name: null, text: attachment }],
      containedTokens: this.#containedTokens,
      contextLength: this.#contextLength,
    });
  }

  removeRoute(): void {
    this.offer.decline();
    this.route.remove();
  }

  removeAttachment(): void {
    this.captured = null;
    this.nothingCaptured = null;
  }

  async copy(): Promise<void> {
    if (this.answerText === "") return;
    await copyText(this.answerText);
    this.isCopied = true;
    setTimeout(() => (this.isCopied = false), 1600);
  }

  /**
   * Puts the response into the program that the prompt was called from: in place of the selected
   * text, or after it. If that fails, copies it and shows the prompt again. A key that is held down
   * inserts once.
   */
  async insert(replaces: boolean): Promise<void> {
    const text = this.answerText;
    if (this.#insertion || text === "" || (replaces && !this.target.has_selection)) return;
    this.insertProblem = this.target.problem;
    if (this.insertProblem) return;
    const insertion = Symbol();
    this.#insertion = insertion;
    try {
      await ipc.insertText(text, replaces);
    } catch {
      this.insertProblem = "not_taken";
      await ipc.copy(text);
      await ipc.showWindow("prompt", null, null);
    } finally {
      if (this.#insertion === insertion) this.#insertion = null;
    }
  }

  /** Sends the input. Resolves when the response has started or was refused. */
  async ask(): Promise<void> {
    const typed = this.text.trim();
    if (this.isWriting || (typed === "" && !this.captured)) return;
    if (unknownCall(typed) !== null && this.text !== this.#warnedText) {
      this.#warnedText = this.text;
      return;
    }
    await this.route.decided();
    // Another press of the key has sent it, or the user types on.
    if (this.isWriting || this.text.trim() !== typed || this.route.problem !== "") return;
    const { text, attachment } = this.#composed;
    if (text === "" && attachment === "") return;
    this.offer.decline();
    this.#remember(typed);
    this.question = typed || (this.captured?.text ?? "");
    this.#last = { text, attachment, containedTokens: this.#containedTokens, route: this.route.take(typed) };
    this.#lastAnswer = null;
    this.#warnedText = null;
    this.text = "";
    this.removeAttachment();
    this.#dropAnswer();
    await this.#start(() => this.#ask(false));
  }

  /** Retries after a failure; `overBudget` even if the model does not fit. */
  async retry(overBudget = false): Promise<void> {
    if (!this.#last || this.isWriting) return;
    const answer = this.#lastAnswer;
    const [route = null] = this.#last.route;
    await this.#start(() =>
      answer === null ? this.#ask(overBudget) : ipc.regenerate(answer, overBudget, null, route));
  }

  /** Sends the last question again, without a task. */
  async retryAsChat(): Promise<void> {
    if (this.#last) this.#last = { ...this.#last, route: ["chat"] };
    await this.retry();
  }

  async stop(): Promise<void> {
    if (this.answer?.isWriting) await ipc.stop(this.answer.id).catch(() => undefined);
  }

  /** Esc: hides the panel and restores the focus. A response continues. */
  async hide(): Promise<void> {
    await ipc.hideWindow();
  }

  /** Continues in the chat window. Typed text is sent first. */
  async openInChat(): Promise<void> {
    if (this.text.trim() !== "" && !this.isWriting) await this.ask();
    if ((this.failure && !this.answer) || this.route.problem !== "") return;
    await ipc.showWindow("chat", this.conversation, null);
    await ipc.hideWindow();
  }

  /**
   * Opens the settings that have the context length of the conversation: those of its model, or its
   * own, which came from an assistant and are in the chat window.
   */
  async changeContext(): Promise<void> {
    if (this.#askedSettings.context_length === null) {
      await ipc.showWindow("settings", null, this.model ? `model:${this.model.id}` : "model");
    } else {
      await ipc.showWindow("chat", this.conversation, null);
      await ipc.hideWindow();
    }
  }

  /** Starts a new conversation. Typed text and attachments stay. */
  startNew(): void {
    if (this.isWriting) return;
    this.#forget();
    this.focusRequests += 1;
  }

  /** Chooses an assistant for the next question, which starts a new conversation. */
  chooseAssistant(name: string): void {
    this.assistant = name;
    this.#ownModel = null;
    this.startNew();
  }

  /** Selects the model of this conversation and of new ones. */
  async chooseModel(id: string): Promise<void> {
    await ipc.chooseModel(id);
    await this.#useModel(id);
  }

  /** Finds the model to offer for the question that is being written. */
  updateOffer(): void {
    this.offer.update(this.route.shown, this.model?.id ?? null, this.settings);
  }

  /** Switches this conversation to the offered model. */
  async useOffer(): Promise<void> {
    const id = this.offer.take();
    if (id !== null) await this.#useModel(id);
  }

  async #useModel(id: string): Promise<void> {
    this.#ownModel = id;
    // The next question may start another conversation, with another assistant.
    if (this.conversation === null || this.assistant !== this.#askedWith) return;
    await ipc.setConversationSettings(this.conversation, { model: id });
  }

  /** Called when the history was cleared: removes everything. */
  forgetAll(): void {
    this.#forget();
    this.text = this.#draft = "";
    this.removeAttachment();
    this.#earlier = [];
    this.#earlierIndex = 0;
  }

  /** Goes back (-1) or forward (1) in earlier inputs. */
  recall(by: -1 | 1): void {
    const to = this.#earlierIndex + by;
    if (to < 0 || to > this.#earlier.length) return;
    if (this.#earlierIndex === this.#earlier.length) this.#draft = this.text;
    this.#earlierIndex = to;
    this.text = this.#earlier[to] ?? this.#draft;
  }

  #remember(typed: string): void {
    if (typed !== "" && this.#earlier.at(-1) !== typed) this.#earlier.push(typed);
    this.#earlier = this.#earlier.slice(-MAX_EARLIER);
    this.#earlierIndex = this.#earlier.length;
  }

  #forget(): void {
    this.#dropAnswer();
    this.#last = null;
    this.#lastAnswer = null;
    this.#ownModel = null;
    this.conversation = null;
    this.failure = null;
    this.question = "";
  }

  #dropAnswer(): void {
    this.answer?.stopFollowing();
    this.answer = null;
    this.isCopied = false;
    this.insertProblem = null;
  }

  /** Sends the last question. If its conversation was deleted, creates a new one. */
  async #ask(overBudget: boolean): Promise<StartedTurn> {
    const { text, attachment, containedTokens, route } = this.#last!;
    const how: [(Route | null)?, number?] = containedTokens === 0 ? route : [route[0] ?? null, containedTokens];
    const attachments = attachment === "" ? [] : [{ name: null, text: attachment }];
    if (this.assistant !== this.#askedWith) this.conversation = null;
    this.#askedWith = this.assistant;
    const { settings, model } = this;
    this.#askedSettings = settings;
    const ask = async () => {
      const started = await ipc.ask(this.conversation, text, attachments, overBudget, false, settings, ...how);
      this.#ownModel ??= model?.id ?? null;
      return started;
    };
    try {
      return await ask();
    } catch (error) {
      if (this.conversation === null || commandError(error).code !== "not_found") throw error;
      this.conversation = null;
      return ask();
    }
  }

  async #start(call: () => Promise<StartedTurn>): Promise<void> {
    this.failure = null;
    this.isAsking = true;
    try {
      const started = await call();
      this.conversation = started.conversation;
      this.#lastAnswer = started.answer;
      this.#dropAnswer();
      this.answer = new Answer(started.answer, {
        finished: (texts) => announcer.say(...texts),
        ended: () => this.hidden(),
      });
      await this.answer.follow();
    } catch (error) {
      this.#dropAnswer();
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
export function composed(typed: string, captured: string): { text: string; attachment: string } {
  const found = called(typed);
  if (!found) return { text: typed, attachment: captured };
  const { prompt, more } = found;
  // Without a placeholder, the text stays an attachment, which the page can collapse.
  const isFilled = more === "" && captured !== "" && prompt.text.includes("{text}");
  return {
    text: fill(prompt, more || (isFilled ? captured : "")).trim(),
    attachment: isFilled ? "" : captured,
  };
}
