/**
 * The route of the message that is being written: what kind of help it asks for. A chip shows it before
 * the message is sent, and the user can remove it.
 *
 * Rule: the app decides, by the same function for the chip and for the message. It changes what is sent
 * to the model, never which model.
 */
import { ipc, type AttachedText, type ConversationId, type Route } from "../ipc";
import { app } from "./app.svelte";
import { expand, routeOf } from "./prompts.svelte";

/** The chip appears in a pause, so that it does not flicker while the user types. */
export const ROUTE_DELAY_MS = 250;

/** The start of an attached text is enough to tell whether it is code. */
const MAX_ATTACHED_CHARS = 4000;

/** The last argument of `ask`; none lets the app decide. */
export type RouteChoice = [] | [Route];

export class MessageRoute {
  /** The route that the chip shows; `chat` for no chip. */
  shown = $state<Route>("chat");
  /** The user removed the chip. */
  isRemoved = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Counts changes, so that a late result of an earlier text is not shown. */
  private turn = 0;

  /** The message changed. A chip that the user removed stays away until the text is empty. */
  update(conversation: ConversationId | null, text: string, attachments: readonly AttachedText[]): void {
    clearTimeout(this.timer);
    const turn = ++this.turn;
    if (text.trim() === "") this.isRemoved = false;
    if (text.trim() === "" || this.isRemoved || app.settings?.general.routing_off) {
      this.shown = "chat";
      return;
    }
    const said = routeOf(text.trim());
    if (said) {
      this.shown = app.settings?.routes[said]?.is_off ? "chat" : said;
      return;
    }
    // A saved prompt is sent with its text.
    const sent = expand(text.trim()) ?? text;
    const starts = attachments.map((one) => ({ ...one, text: one.text.slice(0, MAX_ATTACHED_CHARS) }));
    this.timer = setTimeout(() => {
      void ipc.route(conversation, sent, starts).then(
        (found) => {
          if (turn === this.turn) this.shown = found;
        },
        // Without a chip, the message can be sent all the same.
        () => undefined,
      );
    }, ROUTE_DELAY_MS);
  }

  /** Makes the message plain chat. */
  remove(): void {
    clearTimeout(this.timer);
    this.turn += 1;
    this.isRemoved = true;
    this.shown = "chat";
  }

  /** The message `text` is sent: returns what the user said about its route, and starts anew. */
  take(text: string): RouteChoice {
    const said = routeOf(text.trim());
    const choice: RouteChoice = this.isRemoved ? ["chat"] : said ? [said] : [];
    clearTimeout(this.timer);
    this.turn += 1;
    this.isRemoved = false;
    this.shown = "chat";
    return choice;
  }
}

/** The route of the composer's message. */
export const messageRoute = new MessageRoute();
