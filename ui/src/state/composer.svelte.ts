/**
 * What is being written, one draft per conversation. Drafts outlive the page, which the app closes
 * when it was long unused; a deleted conversation takes its draft along.
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
    if (this.key === "new") this.key = String(conversation);
  }

  clear(): void {
    this.text = "";
    this.attachment = "";
    this.keep();
  }

  attach(text: string): void {
    this.attachment = this.attachment ? `${this.attachment}\n\n${text}` : text;
    this.keep();
  }

  forget(conversation: ConversationId): void {
    this.drafts.delete(String(conversation));
    this.write();
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
    try {
      this.storage?.setItem(KEY, JSON.stringify(kept));
    } catch {
      // Without room drafts live as long as the page.
    }
  }
}

export const composer = new Composer(typeof localStorage === "undefined" ? null : localStorage);
