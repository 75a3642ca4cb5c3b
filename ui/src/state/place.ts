/** What only the page knows of the chat, stored for the page that shows it in its other form. */
import type { ConversationSettings, MessageId } from "../ipc";

/** Where the chat is scrolled to. */
export interface Place {
  /** The first visible message. */
  message: MessageId;
  /** The part of the message above the view. In the other form the message has another height. */
  part: number;
}

/** A chat without messages, which the app does not know. */
export interface NewChat {
  isTemporary: boolean;
  settings: ConversationSettings;
}

/** A value that is stored until it is taken, once. Without storage it is null. */
class OneTimeValue<T> {
  constructor(private key: string) {}

  store(value: T | null): void {
    try {
      localStorage.setItem(this.key, JSON.stringify(value));
    } catch {
      // The other form opens as if nothing had been stored.
    }
  }

  take(): T | null {
    try {
      const value = JSON.parse(localStorage.getItem(this.key) ?? "null") as T | null;
      localStorage.removeItem(this.key);
      return value;
    } catch {
      return null;
    }
  }
}

/** Null for the end of the chat. */
export const placeToRestore = new OneTimeValue<Place>("transom.place");
/** Null for a chat with messages. */
export const newChatToRestore = new OneTimeValue<NewChat>("transom.new_chat");
