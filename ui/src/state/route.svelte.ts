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
import { attachedBytes, attachedTokens, utf8Bytes } from "./tokens";

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
  /** Tokens of an attached text that `text` contains, such as a selection in a saved prompt. */
  containedTokens?: number;
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
  /** Why the attached text is too long for the route, as the app decided; empty if it is not. */
  problem = $state("");
  /** The user removed the chip. */
  isRemoved = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Asks the app about the newest text, which it was not asked about yet. */
  private ask: (() => Promise<void>) | undefined;
  /** Resolves when the app has answered the last question. */
  private asked: Promise<void> = Promise.resolve();
  /** Counts changes, so that a late result of an earlier text is not shown. */
  private turn = 0;

  /** The message changed. A chip that the user removed stays away until the text is empty. */
  update({ conversation, typed, text, attachments, containedTokens = 0, model, contextLength }: Writing): void {
    this.forget();
    this.contextLength = contextLength;
    const { turn } = this;
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
      attached_tokens: containedTokens + attachedTokens(attachments),
    });
    this.ask = () => {
      clearTimeout(this.timer);
      this.ask = undefined;
      const asked = draft();
      return this.asked = ipc.route(asked).then(
        ({ route, limits, is_attached_too_long: isTooLong }) => {
          if (turn !== this.turn) return;
          this.show(route, limits, isTooLong ? problemOf(asked.attached_tokens, route, limits) : "");
        },
        // The message can be sent all the same, without limits, and without the task of an earlier text.
        () => {
          if (turn === this.turn) this.show(said ?? "chat");
        },
      );
    };
    this.timer = setTimeout(this.ask, ROUTE_DELAY_MS);
  }

  /** Resolves when the app has decided about the newest text; asks it now if a pause has not come yet. */
  async decided(): Promise<void> {
    await (this.ask?.() ?? this.asked);
  }

  private show(route: Route, limits = NO_LIMITS, problem = ""): void {
    this.shown = route;
    this.limits = limits;
    this.problem = problem;
  }

  /** Forgets the text that the app was or would be asked about. */
  private forget(): void {
    clearTimeout(this.timer);
    this.ask = undefined;
    this.turn += 1;
  }

  /** Makes the message plain chat. */
  remove(): void {
    this.forget();
    this.isRemoved = true;
    this.show("chat");
  }

  /** The message `text` is sent: returns what the user said about its route, and starts anew. */
  take(text: string): RouteChoice {
    const said = routeOf(text.trim());
    const choice: RouteChoice = this.isRemoved ? ["chat"] : said ? [said] : [];
    this.forget();
    this.isRemoved = false;
    this.show("chat");
    return choice;
  }
}

function problemOf(tokens: number, route: Route, { attached_tokens: max }: RouteLimits): string {
  if (route === "chat") return "";
  // Rounded up, so that the numbers never look equal.
  const used = Math.ceil(tokens / 10) * 10;
  return t("chat.context.attached_too_long", {
    used: number(used), max: number(max ?? 0), task: t(`chat.route.${route}`) });
}

/** The route of the composer's message. */
export const messageRoute = new MessageRoute();
