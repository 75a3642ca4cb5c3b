/** Prints a chat, or saves it as PDF: the page draws all of it for the printer, hidden on the screen. */
import { tick } from "svelte";
import { ipc, type ConversationId, type MessageView, type SummaryView } from "../ipc";

class Printing {
  /** The chat on paper; null if none is printed. */
  chat = $state.raw<{ title: string; views: MessageView[]; summaries: SummaryView[] } | null>(null);

  async start(id: ConversationId): Promise<void> {
    const { conversation, messages, summaries } = await ipc.openConversation(id);
    const views = await ipc.messages(messages.map((head) => head.id));
    this.chat = { title: conversation.title, views, summaries };
    await tick();
    try {
      await ipc.printPage(true);
    } catch (error) {
      this.stop();
      throw error;
    }
  }

  stop(): void {
    this.chat = null;
  }
}

export const printing = new Printing();
