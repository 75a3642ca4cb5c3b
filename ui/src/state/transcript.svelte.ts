/**
 * The visible conversation: the heads of its path, the loaded messages, and the growing response.
 * Messages are loaded when needed, a page at a time.
 *
 * Rule: a message is stored either as a view or as a growing `Answer`; the `Answer` has priority.
 */
import { SvelteMap } from "svelte/reactivity";
import {
  ipc, NO_SETTINGS, type AttachedText, type StartedTurn, type Conversation, type ConversationId, type Failure,
  type MessageHead, type MessageId, type MessageView, type OpenedConversation, type Route,
  type SummaryView,
} from "../ipc";
import { announcer } from "./announcer.svelte";
import { Answer } from "./answer.svelte";
import { ChatSettings } from "./chat-settings.svelte";
import { composer, isTemporaryId } from "./composer.svelte";
import { failureOf, commandError } from "./command-error";
import { edits } from "./edits";
import { placeToRestore, type Place } from "./place";
import type { RouteChoice } from "./route.svelte";

/** Maximum number of loaded messages; the least recently used are removed. */
const MAX_VIEWS = 600;

/** Maximum number of ended responses that keep their elements; older ones become views. */
const MAX_ENDED = 8;

export class Transcript {
  conversation = $state.raw<Conversation | null>(null);
  readonly settings = new ChatSettings();
  /** The conversation that was opened last, even while its messages are loading. */
  target = $state<ConversationId | null>(null);
  /** The conversation is never written to the disk, and is discarded when the page leaves it. */
  isTemporary = $state(false);
  heads = $state.raw<MessageHead[]>([]);
  /** Summaries of the beginning of the path. */
  summaries = $state.raw<SummaryView[]>([]);
  views = new SvelteMap<MessageId, MessageView>();
  answers = new SvelteMap<MessageId, Answer>();
  failure = $state.raw<Failure | null>(null);
  /** A question is being sent and its response has not started. */
  isAsking = $state(false);
  /** Incremented to scroll to the end. */
  jumps = $state(0);
  /** The question that the user wants to delete, to be confirmed. */
  deleting = $state<MessageId | null>(null);
  /** The message that is being edited. */
  editing = $state<MessageId | null>(null);
  /** The summary of the messages up to `last` that is being edited. */
  summaryEdit = $state.raw<{ last: MessageId; text: string } | null>(null);
  /** Where the conversation was scrolled to on another page; null for its end. */
  place: Place | null = null;
  /** Returns where it is scrolled to here. Set by the view. */
  whereIs: () => Place | null = () => null;

  private requested = new Set<MessageId>();
  private isFetching = false;
  private opening = 0;

  /** `onCreated` is called when a question created a conversation, before it is shown. */
  constructor(private onCreated: (id: ConversationId) => void = () => {}) {}

  /** The messages of `target` are loading; another conversation is still shown. */
  get isOpening(): boolean {
    return this.target !== (this.conversation?.id ?? null);
  }

  /** The running response, if it is on the path. */
  get writing(): Answer | null {
    const last = this.heads.at(-1);
    const answer = last && this.answers.get(last.id);
    return answer?.isWriting ? answer : null;
  }

  /** Shows a conversation, or an empty page. If it cannot be opened, the previous one stays. */
  async open(id: ConversationId | null): Promise<void> {
    const turn = ++this.opening;
    const isCurrent = () => turn === this.opening;
    if (this.isTemporary && (id === null || id !== this.target)) this.discard();
    this.target = id;
    this.isTemporary = isTemporaryId(id);
    this.failure = null;
    this.editing = null;
    this.summaryEdit = null;
    this.deleting = null;
    if (id === null) return this.clear();
    try {
      const opened = await this.read(id);
      if (!isCurrent()) return;
      const isIn = (message?: MessageId) => opened.messages.some((head) => head.id === message);
      const place = placeToRestore.take();
      this.place = isIn(place?.message) ? place : null;
      await this.load(opened, isCurrent);
      if (!isCurrent()) return;
      const edit = edits.of(id);
      if (edit && isIn(edit.message)) this.editing = edit.message;
      if (!this.place) this.jumps += 1;
    } catch (error) {
      if (!isCurrent()) return;
      this.target = this.conversation?.id ?? null;
      this.isTemporary = isTemporaryId(this.target);
      this.fail(error);
    }
  }

  /** Shows an empty page for a temporary conversation. */
  openTemporary(): void {
    void this.open(null);
    this.isTemporary = true;
  }

  private discard(): void {
    this.isTemporary = false;
    this.clear();
    if (this.target !== null) void this.do(ipc.discardTemporary());
  }

  /** Reloads the path after a change. */
  async refresh(): Promise<void> {
    const id = this.conversation?.id;
    if (id === undefined) return;
    const turn = this.opening;
    const isShown = () => turn === this.opening && this.conversation?.id === id;
    try {
      const opened = await this.read(id);
      if (isShown()) await this.load(opened, isShown);
    } catch (error) {
      if (!isShown()) return;
      if (commandError(error).code !== "not_found") this.fail(error);
      else {
        // It was deleted, here or in another window.
        this.clear();
        if (this.target === id) this.target = null;
      }
    }
  }

  private clear(): void {
    for (const answer of this.answers.values()) answer.stopFollowing();
    this.answers.clear();
    this.views.clear();
    this.requested.clear();
    this.heads = [];
    this.summaries = [];
    this.conversation = null;
    this.settings.show(null, NO_SETTINGS);
  }

  /** Returns a stored conversation, and the revision of the settings before it was read. */
  private async read(id: ConversationId): Promise<OpenedConversation & { revision: number }> {
    const { revision } = this.settings;
    return { ...await ipc.openConversation(id), revision };
  }

  private async load(
    { conversation, settings, messages: heads, summaries, revision }: OpenedConversation & { revision: number },
    isCurrent: () => boolean,
  ): Promise<void> {
    // Loads the end before drawing, because it is shown first.
    const unknown = heads.slice(-8).map((head) => head.id)
      .filter((id) => !this.views.has(id) && !this.answers.has(id));
    const views = unknown.length ? await ipc.messages(unknown) : [];
    if (!isCurrent()) return;
    this.keep(views);
    this.conversation = conversation;
    this.summaries = summaries;
    this.settings.show(conversation.id, settings, revision);
    this.removeOtherBranches(heads);
    if (!isSame(heads, this.heads)) this.heads = heads;
  }

  /** Removes messages of other branches: when they are shown again, they may have more siblings. */
  private removeOtherBranches(heads: MessageHead[]): void {
    const path = new Set(heads.map((head) => head.id));
    for (const id of this.views.keys()) if (!path.has(id)) this.views.delete(id);
    for (const [id, answer] of this.answers) {
      if (path.has(id)) continue;
      answer.stopFollowing();
      this.answers.delete(id);
    }
  }

  private keep(views: MessageView[]): void {
    for (const view of views) {
      this.requested.delete(view.id);
      if (view.ending.ending === "writing") this.follow(view.id);
      else this.views.set(view.id, view);
    }
    for (const id of this.views.keys()) {
      if (this.views.size <= MAX_VIEWS) break;
      this.views.delete(id);
    }
  }

  need(ids: MessageId[]): void {
    const missing = ids.filter(
      (id) => !this.views.has(id) && !this.answers.has(id) && !this.requested.has(id),
    );
    for (const id of missing) this.requested.add(id);
    if (missing.length) void this.fetch();
  }

  private async fetch(): Promise<void> {
    if (this.isFetching) return;
    this.isFetching = true;
    try {
      // Everything requested during a load becomes one page.
      for (let page = [...this.requested]; page.length; page = [...this.requested]) {
        const views = await ipc.messages(page);
        // Messages of a conversation that was closed meanwhile are neither kept nor followed.
        const path = new Set(this.heads.map((head) => head.id));
        this.keep(views.filter((view) => path.has(view.id)));
        for (const id of page) this.requested.delete(id);
      }
    } catch (error) {
      this.requested.clear();
      this.fail(error);
    } finally {
      this.isFetching = false;
    }
  }

  private follow(id: MessageId): Answer {
    const known = this.answers.get(id);
    if (known) return known;
    const answer = new Answer(id, {
      finished: (texts) => announcer.say(...texts),
      ended: (message) => this.finish(message),
    });
    const view = this.views.get(id);
    if (view) {
      // A continued response shows its text until the snapshot arrives.
      answer.reasoning = view.reasoning;
      answer.blocks = view.blocks;
    }
    this.answers.set(id, answer);
    answer.follow().catch((error: unknown) => {
      if (this.answers.get(id) !== answer) return;
      // It ended before it could be followed.
      this.answers.delete(id);
      this.views.delete(id);
      void ipc.messages([id]).then(
        (views) => views.forEach((view) => this.views.set(id, view)),
        () => this.fail(error),
      );
    });
    return answer;
  }

  private finish(message: MessageView): void {
    this.views.set(message.id, message);
    const ended = [...this.answers.values()].filter((answer) => !answer.isWriting);
    for (const answer of ended.slice(0, -MAX_ENDED)) this.answers.delete(answer.id);
    void this.refresh();
  }

  /**
   * Sends a question in the visible conversation. Resolves to whether it was accepted. While
   * another conversation is loading, nothing is sent.
   */
  async ask(
    text: string, attachments: AttachedText[] = [], overBudget = false, ...route: RouteChoice
  ): Promise<boolean> {
    const { target } = this;
    if (this.isOpening) return false;
    return this.begin(() =>
      ipc.ask(target, text, attachments, overBudget, this.isTemporary, this.settings.own, ...route));
  }

  /**
   * Answers the question again, with the model of the chat or the one with the id `model`, and on the
   * route of the answer or on `route`.
   */
  regenerate(
    answer: MessageId, overBudget = false, model: string | null = null, route: Route | null = null,
  ): Promise<boolean> {
    return this.begin(() => ipc.regenerate(answer, overBudget, model, route));
  }

  /** Adds text to a response that ended too early. */
  continue(answer: MessageId, overBudget = false): Promise<boolean> {
    // The ended one; its view stays.
    this.answers.delete(answer);
    return this.begin(() => ipc.continueAnswer(answer, overBudget));
  }

  edit(message: MessageId, text: string, route: Route): Promise<boolean> {
    return this.begin(() => ipc.editMessage(message, text, route));
  }

  /** Replaces the text of a response. The editor stays open if that fails. */
  async editAnswer(answer: MessageId, text: string): Promise<void> {
    this.failure = null;
    try {
      await ipc.editAnswer(answer, text);
      const views = await ipc.messages([answer]);
      this.removeStats(this.heads.slice(this.heads.findIndex((head) => head.id === answer)));
      // One that streamed here has the old text.
      this.answers.delete(answer);
      this.keep(views);
      this.endEdit();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Asks for a summary of the messages up to `last`. An event of the app brings it. */
  summarize(last: MessageId): Promise<void> {
    return this.do(ipc.summarize(last));
  }

  /** Replaces the summary of the messages up to `last`; an empty text removes it. */
  setSummary(last: MessageId, text: string): Promise<void> {
    return this.do(ipc.setSummary(last, text));
  }

  /** Saves the summary that is being edited. */
  async saveSummary(): Promise<void> {
    if (!this.summaryEdit) return;
    const { last, text } = this.summaryEdit;
    await this.setSummary(last, text.trim());
    this.summaryEdit = null;
  }

  /** Closes the editor and deletes what was not saved. */
  endEdit(): void {
    this.editing = null;
    if (this.conversation) edits.forget(this.conversation.id);
  }

  private async begin(call: () => Promise<StartedTurn>): Promise<boolean> {
    const turn = ++this.opening;
    const isCurrent = () => turn === this.opening;
    const before = this.conversation?.id ?? null;
    const { isTemporary } = this;
    this.target = before;
    this.failure = null;
    this.isAsking = true;
    let isAccepted = false;
    try {
      const started = await (this.settings.isSaved ? call() : this.settings.flush().then(call));
      isAccepted = true;
      if (before !== null) edits.forget(before);
      if (!isCurrent()) {
        // The page left it before it began.
        if (isTemporary && !this.isTemporary) void this.do(ipc.discardTemporary());
        return true;
      }
      if (before === null) this.onCreated(started.conversation);
      this.target = started.conversation;
      this.editing = null;
      const opened = await this.read(started.conversation);
      if (!isCurrent()) return true;
      this.follow(started.answer);
      await this.load(opened, isCurrent);
      if (isCurrent()) this.jumps += 1;
      return true;
    } catch (error) {
      if (isCurrent()) {
        this.target = before;
        this.fail(error);
        if (commandError(error).code === "not_found") void this.refresh();
      }
      return isAccepted;
    } finally {
      this.isAsking = false;
    }
  }

  async stop(): Promise<void> {
    if (this.writing) await this.do(ipc.stop(this.writing.id));
  }

  async showBranch(message: MessageId): Promise<void> {
    await this.do(ipc.showBranch(message));
    await this.refresh();
  }

  /** Deletes a question with its responses. */
  async deleteExchange(question: MessageId): Promise<void> {
    const after = this.heads.slice(this.heads.findIndex((head) => head.id === question) + 1);
    const next = after.find((head) => head.speaker === "user");
    await this.do(ipc.deleteExchange(question));
    this.removeStats(after);
    // It may have other siblings now.
    if (next) await this.do(ipc.messages([next.id]).then((views) => this.keep(views)));
    await this.refresh();
    if (!this.heads.some((head) => head.id === this.editing)) this.endEdit();
  }

  /** These count text that was changed or deleted. The store has removed their statistics, too. */
  private removeStats(heads: MessageHead[]): void {
    for (const { id } of heads) {
      const answer = this.answers.get(id);
      if (answer) answer.stats = null;
      const view = this.views.get(id);
      if (view?.stats) this.views.set(id, { ...view, stats: null });
    }
  }

  async rename(title: string): Promise<void> {
    const { conversation } = this;
    if (!conversation || title === conversation.title) return;
    this.conversation = { ...conversation, title };
    await this.do(ipc.renameConversation(conversation.id, title));
  }

  private async do(call: Promise<unknown>): Promise<void> {
    try {
      await call;
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.failure = failureOf(error);
  }
}

function isSame(some: MessageHead[], others: MessageHead[]): boolean {
  return some.length === others.length &&
    some.every((head, index) => head.id === others[index]?.id && head.n_chars === others[index].n_chars);
}

export const transcript = new Transcript((id) => composer.assignDraft(id));
