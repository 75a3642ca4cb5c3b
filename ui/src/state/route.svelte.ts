/**
 * The route of the message that is being written: what kind of help it asks for. A chip shows it before
 * the message is sent, and the user can remove it.
 *
 * Rule: the app decides, by the same function for the chip and for the message. It changes what is sent
 * to the model, never which model.
 */
import { untrack } from "svelte";
import { number, t } from "../i18n";
import { ipc, type AttachedText, type ConversationId, type ModelView, type Route, type RouteLimits } from "../ipc";
import { app } from "./app.svelte";
import { routeOf } from "./prompts.svelte";
import { attachedBytes, utf8Bytes } from "./tokens";

/** The chip appears in a pause, so that it does not flicker while the user types. */
export const ROUTE_DELAY_MS = 250;

/** The start of an attached text is enough to tell whether it is code. */
const MAX_ATTACHED_CHARS = 4000;

const NO_LIMITS: RouteLimits = { earlier_messages: null, attached_tokens: null, response_tokens: null };

/** The last argument of `ask`; none lets the app decide. */
export type RouteChoice = [] | [Route];

/** A message that is being written. */
export interface Writing {
  conversation: ConversationId | null;
  typed: string;
  /** What is sent for the typed text, such as the text of a saved prompt. */
  text: string;
  attachments: readonly AttachedText[];
  /** The model that responds; null if it is not known. */
  model: ModelView | null;
  /** Its context length; null if it is not known. */
  contextLength: number | null;
}

export class MessageRoute {
  /** The route that the chip shows; `chat` for no chip. */
  shown = $state<Route>("chat");
  /** What the request may contain on this route. */
  limits = $state.raw<RouteLimits>(NO_LIMITS);
  /** The context length of the model that would respond; null if it is not known. */
  contextLength = $state<number | null>(null);
  /** The user removed the chip. */
  isRemoved = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Counts changes, so that a late result of an earlier text is not shown. */
  private turn = 0;

  /** The message changed. A chip that the user removed stays away until the text is empty. */
  update({ conversation, typed, text, attachments, model, contextLength }: Writing): void {
    clearTimeout(this.timer);
    this.contextLength = contextLength;
    const turn = ++this.turn;
    if (typed.trim() === "") this.isRemoved = false;
    const isOff = this.isRemoved || app.settings?.general.routing_off;
    // A base model has no roles, and gets the same text on every route.
    if (typed.trim() === "" || isOff || model?.facts?.has_chat_template === false) return this.show("chat");
    const said = routeOf(typed.trim());
    if (said && app.settings?.routes[said]?.is_off) return this.show("chat");
    // A command needs no pause, but the app finds its limits.
    if (said && said !== untrack(() => this.shown)) this.show(said);
    const draft = () => ({
      conversation, text, route: said, context_length: contextLength,
      attachments: attachments.map((one) => ({ ...one, text: one.text.slice(0, MAX_ATTACHED_CHARS) })),
      n_bytes: utf8Bytes(text) + attachedBytes(attachments),
    });
    this.timer = setTimeout(() => {
      void ipc.route(draft()).then(
        (found) => {
          if (turn === this.turn) this.show(found.route, found.limits);
        },
        // Without a chip, the message can be sent all the same.
        () => undefined,
      );
    }, ROUTE_DELAY_MS);
  }

  private show(route: Route, limits = NO_LIMITS): void {
    this.shown = route;
    this.limits = limits;
  }

  /** Makes the message plain chat. */
  remove(): void {
    clearTimeout(this.timer);
    this.turn += 1;
    this.isRemoved = true;
    this.show("chat");
  }

  /** Why this many tokens of attached text are too many for the route; empty if they are not. */
  problemOf(tokens: number): string {
    const max = this.limits.attached_tokens;
    if (max === null || tokens <= max || this.shown === "chat") return "";
    // Rounded up, so that the numbers never look equal.
    const used = Math.ceil(tokens / 10) * 10;
    return t("chat.context.attached_too_long", {
      used: number(used), max: number(max), task: t(`chat.route.${this.shown}`) });
  }

  /** The message `text` is sent: returns what the user said about its route, and starts anew. */
  take(text: string): RouteChoice {
    const said = routeOf(text.trim());
    const choice: RouteChoice = this.isRemoved ? ["chat"] : said ? [said] : [];
    clearTimeout(this.timer);
    this.turn += 1;
    this.isRemoved = false;
    this.show("chat");
    return choice;
  }
}

/** The route of the composer's message. */
export const messageRoute = new MessageRoute();
