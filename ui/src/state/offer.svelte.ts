/**
 * The offer of another installed model for the task of the message that is being written.
 *
 * Rule: the app decides what is offered, and only the user switches. An offer that the user does not take is
 * not made again for its task.
 */
import { ipc, type ConversationSettings, type ModelOffer, type Route } from "../ipc";
import { app, attempt } from "./app.svelte";

export class OfferedModel {
  shown = $state.raw<ModelOffer | null>(null);
  private route: Route = "chat";
  /** The last question to the app, so that each is asked once and a late reply is not shown. */
  private asked = "";

  /** The message is on `route`, and the model with the id `model` responds with the settings `own`. */
  update(route: Route, model: string | null, own: ConversationSettings): void {
    const isOpen = route !== "chat" && !app.settings?.declined_offers.includes(route);
    const question = isOpen && model !== null ? JSON.stringify([route, model, own.context_length]) : "";
    if (question === this.asked) return;
    this.asked = question;
    this.route = route;
    this.shown = null;
    if (model === null || question === "") return;
    void ipc.modelOffer(route, model, own).then(
      (offer) => {
        if (this.asked === question) this.shown = offer;
      },
      // Without an offer, the message can be sent all the same.
      () => undefined,
    );
  }

  /** Returns the id of the model that the user takes; null if none is offered. */
  take(): string | null {
    const id = this.shown?.id ?? null;
    this.shown = null;
    return id;
  }

  /** The user keeps the current model. */
  decline(): void {
    const declined = app.settings?.declined_offers ?? [];
    if (this.shown) attempt(ipc.updateSettings({ declined_offers: [...declined, this.route] }));
    this.shown = null;
  }
}

/** The offer for the composer's message. */
export const offeredModel = new OfferedModel();
