/** Conversations of the fake app: a tree of messages with one visible path. */
import type {
  Conversation, ConversationId, ConversationSettings, MessageHead, MessageId, MessageView, Speaker, SummaryView,
} from "../bindings";
import { NO_SETTINGS } from "../commands";

export interface StoredMessage {
  view: MessageView;
  parent: MessageId | null;
}

export class Tree {
  conversations = new Map<ConversationId, Conversation>();
  settings = new Map<ConversationId, ConversationSettings>();
  messages = new Map<MessageId, StoredMessage>();
  /** By the last message that they cover. */
  summaries = new Map<MessageId, SummaryView>();
  private leaves = new Map<ConversationId, MessageId>();
  private last = 0;

  begin(title: string, at = Date.now()): Conversation {
    const id = ++this.last;
    const conversation: Conversation = {
      id, title, is_pinned: false, is_archived: false, created_at: at, updated_at: at, n_messages: 0,
    };
    this.conversations.set(id, conversation);
    this.settings.set(id, NO_SETTINGS);
    return conversation;
  }

  add(
    conversation: ConversationId, parent: MessageId | null, speaker: Speaker,
    more: Partial<MessageView> = {},
  ): MessageView {
    const id = ++this.last;
    const view: MessageView = {
      id, conversation, speaker, reasoning: [], blocks: [], text: "", attachments: [],
      ending: { ending: "stop" }, model: speaker === "assistant" ? "Qwen3 4B · 4-bit" : null, stats: null,
      created_at: Date.now(), siblings: [], ...more,
    };
    this.messages.set(id, { view, parent });
    const siblings = this.children(conversation, parent);
    for (const sibling of siblings) this.messages.get(sibling)!.view.siblings = siblings;
    this.leaves.set(conversation, id);
    return view;
  }

  children(conversation: ConversationId, parent: MessageId | null): MessageId[] {
    return [...this.messages.values()]
      .filter((kept) => kept.parent === parent && kept.view.conversation === conversation)
      .map((kept) => kept.view.id);
  }

  leaf(conversation: ConversationId): MessageId | null {
    return this.leaves.get(conversation) ?? null;
  }

  /** Shows the newest path through `message`. */
  show(message: MessageId): void {
    const { conversation } = this.messages.get(message)!.view;
    let leaf = message;
    for (let next = message as MessageId | undefined; next; ) {
      leaf = next;
      next = this.children(conversation, next).at(-1);
    }
    this.leaves.set(conversation, leaf);
  }

  path(conversation: ConversationId): MessageHead[] {
    const heads: MessageHead[] = [];
    for (let id = this.leaf(conversation); id !== null; ) {
      const kept: StoredMessage = this.messages.get(id)!;
      const { speaker, text } = kept.view;
      heads.push({ id, speaker, n_chars: text.length });
      id = kept.parent;
    }
    return heads.reverse();
  }

  /** Returns the summaries on the visible path, without those that were removed. */
  summariesOf(conversation: ConversationId): SummaryView[] {
    const found = this.path(conversation).flatMap(({ id }) => this.summaries.get(id) ?? []);
    return found.filter(({ text, is_writing, failure }) => text !== "" || is_writing || failure !== null);
  }

  changeSummary(last: MessageId, change: Partial<SummaryView>): void {
    const none = { last, text: "", blocks: [], is_writing: false, failure: null };
    this.summaries.set(last, { ...(this.summaries.get(last) ?? none), ...change });
  }

  /** Removes a question and its responses with all their versions. Later messages move up. */
  removeExchange(question: MessageId): void {
    const { view, parent } = this.messages.get(question)!;
    const versions = this.children(view.conversation, parent)
      .filter((id) => this.messages.get(id)!.view.speaker === "user");
    const responses = versions.flatMap((id) => this.children(view.conversation, id))
      .filter((id) => this.messages.get(id)!.view.speaker === "assistant");
    const gone = [...versions, ...responses];
    for (const [id, kept] of this.messages) {
      if (kept.parent === null || !gone.includes(kept.parent) || gone.includes(id)) continue;
      kept.parent = parent;
      this.removeStats(id);
    }
    for (const id of gone) {
      this.messages.delete(id);
      this.summaries.delete(id);
    }
    const siblings = this.children(view.conversation, parent);
    for (const sibling of siblings) this.messages.get(sibling)!.view.siblings = siblings;
    const leaf = this.leaf(view.conversation);
    if (leaf !== null && this.messages.has(leaf)) return;
    const last = siblings.at(-1) ?? parent;
    if (last === null) this.leaves.delete(view.conversation);
    else this.show(last);
  }

  /** Removes the statistics and summaries of a message and of all below it, which are of another text. */
  removeStats(id: MessageId): void {
    const { view } = this.messages.get(id)!;
    view.stats = null;
    this.summaries.delete(id);
    for (const child of this.children(view.conversation, id)) this.removeStats(child);
  }

  remove(conversation: ConversationId): void {
    this.conversations.delete(conversation);
    for (const [id, kept] of this.messages) {
      if (kept.view.conversation === conversation) this.messages.delete(id);
    }
  }
}
