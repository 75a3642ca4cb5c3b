/** What only the page knows of the chat, stored for the page that shows it in its other form. */
import type { ConversationSettings, MessageId } from "../ipc";
import { pageStorage, storedList, storeList } from "./stored";

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
    storeList(pageStorage, this.key, value === null ? [] : [value]);
  }

  take(): T | null {
    const [value = null] = storedList<T>(pageStorage, this.key);
    this.store(null);
    return value;
  }
}

/** Null for the end of the chat. */
export const placeToRestore = new OneTimeValue<Place>("transom.place");
/** Null for a chat with messages. */
export const newChatToRestore = new OneTimeValue<NewChat>("transom.new_chat");
