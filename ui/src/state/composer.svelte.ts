/**
 * What is being written, one draft per conversation. Drafts outlive the page, which the app closes
 * when it was long unused.
 *
 * Rule: a draft is deleted with its conversation and with the history, also one that is just being
 * sent and would be put back if it is refused.
 */
import type { ConversationId } from "../ipc";

export interface Draft {
  text: string;
  attachment: string;
}

/** A pasted text of more than this becomes an attachment. */
export const LONG_PASTE_CHARS = 1500;
const LONG_PASTE_LINES = 25;
const KEY = "transom.drafts";
const MAX_DRAFTS = 40;

/** Whether a pasted text is put beside the message rather than into it. */
export function isLongPaste(text: string): boolean {
  return text.length > LONG_PASTE_CHARS || text.split("\n").length > LONG_PASTE_LINES;
}

export class Composer {
  text = $state("");
  attachment = $state("");
  private key = "new";
  private drafts = new Map<string, Draft>();
  /** What was handed over to be sent, until that was taken or refused. */
  private sending: { key: string; draft: Draft } | null = null;

  constructor(private storage: Pick<Storage, "getItem" | "setItem"> | null) {
    try {
      const kept = JSON.parse(storage?.getItem(KEY) ?? "[]") as [string, Draft][];
      this.drafts = new Map(kept);
    } catch {
      // A draft that cannot be read is none.
    }
    this.read();
  }

  /** Goes to the draft of another conversation; the one that was written stays where it was. */
  switchTo(conversation: ConversationId | null): void {
    const key = conversation === null ? "new" : String(conversation);
    if (key === this.key) return;
    this.keep();
    this.key = key;
    this.read();
  }

  /** What was begun without a conversation belongs to this one now. */
  settle(conversation: ConversationId): void {
    if (this.key !== "new") return;
    this.drafts.delete("new");
    this.key = String(conversation);
  }

  clear(): void {
    this.text = "";
    this.attachment = "";
    this.keep();
  }

  attach(text: string): void {
    this.attachment = joined(this.attachment, text);
    this.keep();
  }

  /** Puts `text` below what is written. */
  append(text: string): void {
    this.text = joined(this.text, text);
    this.keep();
  }

  /** Empties the composer to send what it held. The stored draft stays until `sent`. */
  take(): Draft {
    const draft = { text: this.text, attachment: this.attachment };
    this.sending = { key: this.key, draft };
    this.text = "";
    this.attachment = "";
    return draft;
  }

  /** What was taken was sent, or refused: then it goes back where it was written. */
  sent(wasTaken: boolean): void {
    const { sending } = this;
    this.sending = null;
    if (wasTaken) this.keep();
    else if (sending) this.putBack(sending.key, sending.draft);
  }

  private putBack(key: string, { text, attachment }: Draft): void {
    if (key === this.key) {
      this.text = joined(text, this.text);
      this.attachment = joined(attachment, this.attachment);
      return this.keep();
    }
    const later = this.drafts.get(key);
    this.drafts.set(key, {
      text: joined(text, later?.text ?? ""), attachment: joined(attachment, later?.attachment ?? ""),
    });
    this.write();
  }

  /** The conversation was deleted. */
  forget(conversation: ConversationId): void {
    const key = String(conversation);
    if (this.sending?.key === key) this.sending = null;
    if (this.key === key) this.clear();
    this.drafts.delete(key);
    this.write();
  }

  /** The history was cleared. */
  forgetAll(): void {
    this.sending = null;
    this.drafts.clear();
    this.clear();
  }

  /** Remembers what is written; called at pauses and before the page goes. */
  keep(): void {
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
    const kept = [...this.drafts].slice(-MAX_DRAFTS);
    if (this.stored(kept)) return;
    // There is no room for all of it: what was typed counts more than what was attached.
    this.stored(kept.map(([key, { text }]) => [key, { text, attachment: "" }]));
  }

  private stored(drafts: [string, Draft][]): boolean {
    try {
      this.storage?.setItem(KEY, JSON.stringify(drafts));
      return true;
    } catch {
      return false;
    }
  }
}

/** Two texts, an empty line between them. */
function joined(first: string, second: string): string {
  return first && second ? `${first}\n\n${second}` : first + second;
}

export const composer = new Composer(typeof localStorage === "undefined" ? null : localStorage);
