/**
 * The composer's text, one draft per conversation. Drafts survive the page, which the app closes
 * after a long time without use.
 *
 * Rule: a draft is deleted with its conversation and with the history, even if it is being sent and
 * would be restored after a failure.
 */
import type { AttachedText, ConversationId, DocumentProblem, DocumentView } from "../ipc";
import { pageStorage, storedList, storeList, type Stored } from "./stored";

export interface Draft {
  text: string;
  attachments: AttachedText[];
}

/** A document that is being read for a draft, or can't be attached to it. */
export interface PendingFile {
  file: number;
  /** The key of its draft. */
  key: string;
  name: string;
  /** When reading it began, in milliseconds since 1970. */
  since: number;
  /** Null while it is being read. */
  problem: DocumentProblem | null;
}

const EMPTY: Draft = { text: "", attachments: [] };

/** A longer pasted text becomes an attachment. */
export const LONG_PASTE_CHARS = 1500;
const LONG_PASTE_LINES = 25;
const DRAFTS = "transom.drafts";
const MAX_DRAFTS = 40;

/** Documents that are being read: the chat may move to another page meanwhile, which gets their texts. */
const READING = "transom.reading";
/** A new page does not wait for earlier ones: their app may have ended. */
const MAX_READING_MS = 60_000;

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
  return text.trim() !== "" &&
    (text.length > LONG_PASTE_CHARS || text.split("\n").length > LONG_PASTE_LINES);
}

export class Composer {
  text = $state("");
  attachments = $state.raw<AttachedText[]>([]);
  private key = $state("new");
  /** Documents of all drafts. */
  private pending = $state.raw<PendingFile[]>([]);
  private drafts = new Map<string, Draft>();
  /** The draft that is being sent, until it was accepted or refused. */
  private sending: { key: string; draft: Draft } | null = null;

  constructor(private storage: Stored) {
    const drafts = storedList<[string, Partial<Draft>]>(storage, DRAFTS).filter(Array.isArray);
    this.drafts = new Map(drafts.map(([key, draft]) => [key, { ...EMPTY, ...draft }]));
    this.pending = storedList<PendingFile>(storage, READING)
      .filter(({ since }) => Date.now() - since < MAX_READING_MS);
    this.read();
  }

  /** Documents of this draft that are being read, or can't be attached. */
  get files(): PendingFile[] {
    return this.pending.filter((one) => one.key === this.key);
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
    this.dismissFiles(TEMPORARY);
    if (this.sending?.key === TEMPORARY) this.sending = null;
    this.key = key;
    this.read();
  }

  /** Assigns the draft without a conversation to the new conversation. */
  assignDraft(conversation: ConversationId): void {
    if (this.key !== "new") return;
    this.drafts.delete("new");
    const key = String(conversation);
    this.key = key;
    this.pending = this.pending.map((one) => one.key === "new" ? { ...one, key } : one);
  }

  clear(): void {
    this.text = "";
    this.attachments = [];
    this.dismissFiles(this.key);
    this.save();
  }

  attach(attached: AttachedText): void {
    this.put(this.key, (draft) => joined(draft, { text: "", attachments: [attached] }));
  }

  detach(attached: AttachedText): void {
    this.attachments = this.attachments.filter((one) => one !== attached);
    this.save();
  }

  append(text: string): void {
    this.put(this.key, (draft) => joined(draft, { text, attachments: [] }));
  }

  /** A document is being read for this draft, was read, or can't be attached. */
  handleDocument(file: number, document: DocumentView): void {
    if (document.state === "reading") {
      const { key } = this;
      this.pending = [...this.pending, { file, key, name: document.name, since: Date.now(), problem: null }];
      return this.write();
    }
    const known = this.pending.find((one) => one.file === file);
    // The user removed it, or deleted its draft.
    if (!known) return;
    if (document.state === "failed") {
      const failed = { ...known, problem: document.problem };
      this.pending = this.pending.map((one) => one === known ? failed : one);
      return this.write();
    }
    this.dismissFile(file);
    const attachments = [document.attached];
    this.put(known.key, (draft) => joined(draft, { text: "", attachments }));
  }

  /** Removes a document that is being read or failed. */
  dismissFile(file: number): void {
    this.pending = this.pending.filter((one) => one.file !== file);
    this.write();
  }

  private dismissFiles(key: string): void {
    this.pending = this.pending.filter((one) => one.key !== key);
  }

  /** Empties the composer to send its content. The stored draft stays until `sent`. */
  take(): Draft {
    const draft = { text: this.text, attachments: this.attachments };
    this.sending = { key: this.key, draft };
    this.text = "";
    this.attachments = [];
    this.dismissFiles(this.key);
    return draft;
  }

  /** The content was sent; or it was refused and is restored. */
  sent(wasAccepted: boolean): void {
    const { sending } = this;
    this.sending = null;
    if (wasAccepted) this.save();
    else if (sending) this.restore(sending.key, sending.draft);
  }

  private restore(key: string, earlier: Draft): void {
    this.put(key, (draft) => joined(earlier, draft));
  }

  /** Changes a draft, whether it is shown or not. */
  private put(key: string, change: (draft: Draft) => Draft): void {
    if (key === this.key) {
      ({ text: this.text, attachments: this.attachments } = change(this));
      return this.save();
    }
    this.drafts.set(key, change(this.drafts.get(key) ?? EMPTY));
    this.write();
  }

  /** Deletes the draft of a conversation and returns it, so that it can be put back. */
  forget(conversation: ConversationId): Draft | undefined {
    const key = String(conversation);
    if (this.sending?.key === key) this.sending = null;
    if (this.key === key) this.save();
    const draft = this.drafts.get(key);
    if (this.key === key) this.clear();
    this.dismissFiles(key);
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
    this.pending = [];
    this.clear();
  }

  /** Stores the draft. Called at pauses and before the page closes. */
  save(): void {
    this.drafts.delete(this.key);
    const { text, attachments } = this;
    if (text || attachments.length > 0) this.drafts.set(this.key, { text, attachments });
    this.write();
  }

  private read(): void {
    ({ text: this.text, attachments: this.attachments } = this.drafts.get(this.key) ?? EMPTY);
  }

  private write(): void {
    const reading = this.pending.filter(({ key, problem }) => key !== TEMPORARY && problem === null);
    storeList(this.storage, READING, reading);
    let kept = [...this.drafts].filter(([key]) => key !== TEMPORARY).slice(-MAX_DRAFTS);
    // If there is too little space for everything, texts are more important than attachments, and the
    // draft with the longest attachments loses them first.
    while (!storeList(this.storage, DRAFTS, kept)) {
      const longest = Math.max(...kept.map(([, draft]) => attachedChars(draft)));
      if (longest <= 0) return;
      kept = kept.map(([key, draft]): [string, Draft] =>
        [key, attachedChars(draft) === longest ? { ...draft, attachments: [] } : draft]);
    }
  }
}

function attachedChars({ attachments }: Draft): number {
  return attachments.reduce((sum, { text }) => sum + text.length, 0);
}

/** Two drafts as one, with an empty line between their texts. */
function joined(first: Draft, second: Draft): Draft {
  const gap = first.text && second.text ? "\n\n" : "";
  return { text: first.text + gap + second.text, attachments: [...first.attachments, ...second.attachments] };
}

export const composer = new Composer(pageStorage);
