/**
 * Unsaved changes of messages, one per conversation. They survive the page, as drafts do.
 *
 * Rule: a change is deleted with its conversation and with the history, and that of a temporary chat
 * is never stored.
 */
import type { ConversationId, MessageId } from "../ipc";
import { isTemporaryId } from "./composer.svelte";
import { pageStorage, storedList, storeList, type Stored } from "./stored";

export interface Edit {
  message: MessageId;
  text: string;
}

const KEY = "transom.edits";
const MAX_EDITS = 40;

export class Edits {
  private edits: Map<ConversationId, Edit>;

  constructor(private storage: Stored) {
    this.edits = new Map(storedList<[ConversationId, Edit]>(storage, KEY).filter(Array.isArray));
  }

  of(conversation: ConversationId): Edit | undefined {
    return this.edits.get(conversation);
  }

  keep(conversation: ConversationId, edit: Edit): void {
    if (isTemporaryId(conversation)) return;
    this.edits.delete(conversation);
    this.edits.set(conversation, edit);
    this.write();
  }

  /** Deletes the change of a conversation and returns it, so that it can be put back. */
  forget(conversation: ConversationId): Edit | undefined {
    const edit = this.edits.get(conversation);
    if (this.edits.delete(conversation)) this.write();
    return edit;
  }

  forgetAll(): void {
    this.edits.clear();
    this.write();
  }

  private write(): void {
    storeList(this.storage, KEY, [...this.edits].slice(-MAX_EDITS));
  }
}

export const edits = new Edits(pageStorage);
