/** The list of conversations: all of them, or those that a search found. A page at a time. */
import { ipc, type ConversationId, type FileFormat, type FoundConversation } from "../ipc";
import { refusal } from "./refusal";

const PAGE = 60;

export class History {
  query = $state("");
  found = $state.raw<FoundConversation[]>([]);
  hasMore = $state(false);
  isReady = $state(false);
  /** What the last export or import did, or could not. */
  note = $state.raw<{ kind: "exported"; path: string } | { kind: "imported"; n: number } |
    { kind: "failed"; reason: string } | null>(null);

  private turn = 0;

  /** Looks for `query`, or lists all where it is empty. */
  async search(query: string): Promise<void> {
    this.query = query;
    await this.load(0, PAGE);
  }

  /** Asks again for what is shown. */
  refresh(): Promise<void> {
    return this.load(0, Math.max(PAGE, this.found.length));
  }

  async more(): Promise<void> {
    if (this.hasMore) await this.load(this.found.length, PAGE);
  }

  private async load(offset: number, limit: number): Promise<void> {
    const turn = ++this.turn;
    try {
      // One more than is shown tells whether there are more.
      const found = await ipc.conversations(this.query.trim(), offset, limit + 1);
      if (turn !== this.turn) return;
      this.hasMore = found.length > limit;
      // One that moved up while a page was read would come twice.
      const before = this.found.slice(0, offset);
      const known = new Set(before.map((one) => one.conversation.id));
      const fresh = found.slice(0, limit).filter((one) => !known.has(one.conversation.id));
      this.found = [...before, ...fresh];
    } catch (error) {
      if (turn === this.turn) this.fail(error);
    } finally {
      this.isReady = true;
    }
  }

  /** The conversation `by` places after `id` in the list; null at its ends. */
  beside(id: ConversationId | null, by: number): ConversationId | null {
    const here = this.found.findIndex((one) => one.conversation.id === id);
    const index = here < 0 ? (by > 0 ? 0 : -1) : here + by;
    return this.found[index]?.conversation.id ?? null;
  }

  rename(id: ConversationId, title: string): Promise<void> {
    return this.do(() => ipc.renameConversation(id, title));
  }

  pin(id: ConversationId, isPinned: boolean): Promise<void> {
    return this.do(() => ipc.pinConversation(id, isPinned));
  }

  delete(id: ConversationId): Promise<void> {
    return this.do(() => ipc.deleteConversation(id));
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
    const said = refusal(error);
    this.note = { kind: "failed", reason: "reason" in said ? said.reason : said.code };
  }
}

export const history = new History();
