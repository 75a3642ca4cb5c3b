/** Where the chat is scrolled to, kept for the page that shows it in its other form. */
import type { MessageId } from "../ipc";

export interface Place {
  /** The first visible message. */
  message: MessageId;
  /** The part of the message above the view. In the other form the message has another height. */
  part: number;
}

const KEY = "transom.place";

/** Keeps a place; null for the end. */
export function keepPlace(place: Place | null): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(place));
  } catch {
    // Without storage the chat opens at its end.
  }
}

/** Returns the place that was kept, once. */
export function takePlace(): Place | null {
  try {
    const place = JSON.parse(localStorage.getItem(KEY) ?? "null") as Place | null;
    localStorage.removeItem(KEY);
    return place;
  } catch {
    return null;
  }
}
