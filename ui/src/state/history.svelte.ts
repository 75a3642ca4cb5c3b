/** The list of conversations or search results, loaded page by page. */
import { ipc, type ConversationId, type FileFormat, type FoundConversation } from "../ipc";
import { composer, type Draft } from "./composer.svelte";
import { commandError } from "./command-error";
import { edits, type Edit } from "./edits";

const PAGE = 60;

/** The app's maximum number per call. */
const MOST = 500;

/** A deleted chat, with what was not sent or saved. */
interface Deleted {
  id: ConversationId;
  title: string;
  draft: Draft | undefined;
  edit: Edit | undefined;
}

export class History {
  query = $state("");
  /** Whether the archived chats are listed instead of the others. A search finds both. */
  isArchive = $state(false);
  /** A deleted chat, which is hidden and can be restored until its deletion is finished. */
  deleted = $state.raw<Deleted | null>(null);
  private loaded = $state.raw<FoundConversation[]>([]);
  found = $derived(this.loaded.filter((one) => one.conversation.id !== this.deleted?.id));
  hasMore = $state(false);
  isReady = $state(false);
  /** The result or error of the last copy, export or import. */
  note = $state.raw<{ kind: "copied" } | { kind: "exported"; path: string } |
    { kind: "imported"; n: number } | { kind: "failed"; reason: string } | null>(null);

  private turn = 0;

  /** Searches for `query`, or lists conversations if it is empty. */
  async search(query: string): Promise<void> {
    this.query = query;
    await this.load(0, PAGE);
  }

  async showArchive(isArchive: boolean): Promise<void> {
    this.isArchive = isArchive;
    await this.search("");
  }

  refresh(): Promise<void> {
    return this.load(0, Math.max(PAGE, this.loaded.length));
  }

  async more(): Promise<void> {
    if (this.hasMore) await this.load(this.loaded.length, PAGE);
  }

  private async load(offset: number, limit: number): Promise<void> {
    const turn = ++this.turn;
    try {
      // Requests one more than it shows, to know whether there are more.
      const found = await list(this.query.trim(), this.isArchive, offset, limit + 1);
      if (turn !== this.turn) return;
      this.hasMore = found.length > limit;
      // A conversation that moved up while a page was loaded would appear twice.
      const loaded = [...this.loaded.slice(0, offset), ...found.slice(0, limit)];
      this.loaded = [...new Map(loaded.map((one) => [one.conversation.id, one])).values()];
    } catch (error) {
      if (turn === this.turn) this.fail(error);
    } finally {
      this.isReady = true;
    }
  }

  /** The conversation `by` positions after `id` in the list; null at its ends. */
  neighbor(id: ConversationId | null, by: number): ConversationId | null {
    const current = this.found.findIndex((one) => one.conversation.id === id);
    const index = current < 0 ? (by > 0 ? 0 : -1) : current + by;
    return this.found[index]?.conversation.id ?? null;
  }

  rename(id: ConversationId, title: string): Promise<void> {
    return this.do(() => ipc.renameConversation(id, title));
  }

  pin(id: ConversationId, isPinned: boolean): Promise<void> {
    return this.do(() => ipc.pinConversation(id, isPinned));
  }

  archive(id: ConversationId, isArchived: boolean): Promise<void> {
    return this.do(() => ipc.archiveConversation(id, isArchived));
  }

  /** Hides a chat. The app deletes it some seconds later, unless it is restored. */
  delete(id: ConversationId): Promise<void> {
    return this.do(async () => {
      await ipc.deleteConversation(id);
      const title = this.loaded.find((one) => one.conversation.id === id)?.conversation.title ?? "";
      this.deleted = { id, title, draft: composer.forget(id), edit: edits.forget(id) };
    });
  }

  restore(): Promise<void> {
    return this.do(async () => {
      const { deleted } = this;
      if (!deleted) return;
      await ipc.restoreConversation(deleted.id);
      if (deleted.draft) composer.putBack(deleted.id, deleted.draft);
      if (deleted.edit) edits.keep(deleted.id, deleted.edit);
      this.deleted = null;
    });
  }

  finishDeletion(): Promise<void> {
    return this.do(() => ipc.finishDeletion());
  }

  duplicate(id: ConversationId, title: string): Promise<void> {
    return this.do(() => ipc.duplicateConversation(id, title));
  }

  /** Copies a chat as Markdown. */
  copy(id: ConversationId): Promise<void> {
    return this.do(async () => {
      await ipc.copyConversation(id);
      this.note = { kind: "copied" };
    });
  }

  export(id: ConversationId | null, format: FileFormat): Promise<void> {
    return this.do(async () => {
      const path = await ipc.exportConversation(id, format);
      if (path !== null) this.note = { kind: "exported", path };
    });
  }

  import(): Promise<void> {
    return this.do(async () => {
      const n = await ipc.importConversations();
      if (n !== null) this.note = { kind: "imported", n };
    });
  }

  private async do(call: () => Promise<void>): Promise<void> {
    this.note = null;
    try {
      await call();
    } catch (error) {
      this.fail(error);
    }
    await this.refresh();
  }

  private fail(error: unknown): void {
    const rejection = commandError(error);
    this.note = { kind: "failed", reason: "reason" in rejection ? rejection.reason : rejection.code };
  }
}

/** Loads the conversations from `offset` on, up to `limit` if given. */
async function list(
  query: string, isArchive: boolean, offset: number, limit: number,
): Promise<FoundConversation[]> {
  const found: FoundConversation[] = [];
  for (let left = limit; left > 0; left = limit - found.length) {
    const page = Math.min(left, MOST);
    const more = await ipc.conversations(query, isArchive, offset + found.length, page);
    found.push(...more);
    if (more.length < page) break;
  }
  return found;
}

export const history = new History();
