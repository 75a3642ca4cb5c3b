/**
 * The composer's text, one draft per conversation. Drafts survive the page, which the app closes
 * after a long time without use.
 *
 * Rule: a draft is deleted with its conversation and with the history, even if it is being sent and
 * would be restored after a failure.
 */
import type { ConversationId } from "../ipc";

export interface Draft {
  text: string;
  attachment: string;
}

/** A longer pasted text becomes an attachment. */
export const LONG_PASTE_CHARS = 1500;
const LONG_PASTE_LINES = 25;
const KEY = "transom.drafts";
const MAX_DRAFTS = 40;

/** The draft of a temporary chat, which is never stored. */
const TEMPORARY = "temporary";

/** The first id of temporary conversations, as in the store. */
const FIRST_TEMPORARY_ID = 2 ** 50;

/** Returns true for a temporary conversation, such as one that moved here with the chat. */
export function isTemporaryId(id: ConversationId | null): boolean {
  return id !== null && id >= FIRST_TEMPORARY_ID;
}

/** Returns true if a pasted text should become an attachment. */
export function isLongPaste(text: string): boolean {
  return text.length > LONG_PASTE_CHARS || text.split("\n").length > LONG_PASTE_LINES;
}

export class Composer {
  text = $state("");
  attachment = $state("");
  private key = "new";
  private drafts = new Map<string, Draft>();
  /** The draft that is being sent, until it was accepted or refused. */
  private sending: { key: string; draft: Draft } | null = null;

  constructor(private storage: Pick<Storage, "getItem" | "setItem"> | null) {
    try {
      const kept = JSON.parse(storage?.getItem(KEY) ?? "[]") as [string, Draft][];
      this.drafts = new Map(kept);
    } catch {
      // An unreadable draft counts as empty.
    }
    this.read();
  }

  /**
   * Switches to the draft of another conversation; the current draft stays stored, unless it is of
   * a temporary chat.
   */
  switchTo(conversation: ConversationId | null, isTemporary = false): void {
    const isPrivate = isTemporary || isTemporaryId(conversation);
    const key = isPrivate ? TEMPORARY : conversation === null ? "new" : String(conversation);
    if (key === this.key) return;
    this.save();
    this.drafts.delete(TEMPORARY);
    if (this.sending?.key === TEMPORARY) this.sending = null;
    this.key = key;
    this.read();
  }

  /** Assigns the draft without a conversation to the new conversation. */
  assignDraft(conversation: ConversationId): void {
    if (this.key !== "new") return;
    this.drafts.delete("new");
    this.key = String(conversation);
  }

  clear(): void {
    this.text = "";
    this.attachment = "";
    this.save();
  }

  attach(text: string): void {
    this.attachment = joined(this.attachment, text);
    this.save();
  }

  append(text: string): void {
    this.text = joined(this.text, text);
    this.save();
  }

  /** Empties the composer to send its content. The stored draft stays until `sent`. */
  take(): Draft {
    const draft = { text: this.text, attachment: this.attachment };
    this.sending = { key: this.key, draft };
    this.text = "";
    this.attachment = "";
    return draft;
  }

  /** The content was sent; or it was refused and is restored. */
  sent(wasAccepted: boolean): void {
    const { sending } = this;
    this.sending = null;
    if (wasAccepted) this.save();
    else if (sending) this.restore(sending.key, sending.draft);
  }

  private restore(key: string, { text, attachment }: Draft): void {
    if (key === this.key) {
      this.text = joined(text, this.text);
      this.attachment = joined(attachment, this.attachment);
      return this.save();
    }
    const later = this.drafts.get(key);
    this.drafts.set(key, {
      text: joined(text, later?.text ?? ""), attachment: joined(attachment, later?.attachment ?? ""),
    });
    this.write();
  }

  /** Deletes the draft of a conversation and returns it, so that it can be put back. */
  forget(conversation: ConversationId): Draft | undefined {
    const key = String(conversation);
    if (this.sending?.key === key) this.sending = null;
    if (this.key === key) this.save();
    const draft = this.drafts.get(key);
    if (this.key === key) this.clear();
    this.drafts.delete(key);
    this.write();
    return draft;
  }

  putBack(conversation: ConversationId, draft: Draft): void {
    this.restore(String(conversation), draft);
  }

  forgetAll(): void {
    this.sending = null;
    this.drafts.clear();
    this.clear();
  }

  /** Stores the draft. Called at pauses and before the page closes. */
  save(): void {
    this.drafts.delete(this.key);
    const { text, attachment } = this;
    if (text || attachment) this.drafts.set(this.key, { text, attachment });
    this.write();
  }

  private read(): void {
    const draft = this.drafts.get(this.key);
    this.text = draft?.text ?? "";
    this.attachment = draft?.attachment ?? "";
  }

  private write(): void {
    const kept = [...this.drafts].filter(([key]) => key !== TEMPORARY).slice(-MAX_DRAFTS);
    if (this.tryStore(kept)) return;
    // There is too little space for everything: the text is more important than the attachment.
    this.tryStore(kept.map(([key, { text }]) => [key, { text, attachment: "" }]));
  }

  private tryStore(drafts: [string, Draft][]): boolean {
    try {
      this.storage?.setItem(KEY, JSON.stringify(drafts));
      return true;
    } catch {
      return false;
    }
  }
}

/** Two texts with an empty line between them. */
function joined(first: string, second: string): string {
  return first && second ? `${first}\n\n${second}` : first + second;
}

export const composer = new Composer(typeof localStorage === "undefined" ? null : localStorage);
