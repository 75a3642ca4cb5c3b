/** How much of the context the next message needs. Created by a component, whose life it shares. */
import { untrack } from "svelte";
import { ModelFits } from "../models/fits.svelte";
import { app } from "../state/app.svelte";
import { composer } from "../state/composer.svelte";
import { messageRoute } from "../state/route.svelte";
import { transcript } from "../state/transcript.svelte";
import {
  attachedTokens, contextUse, type ContextUse, type HistoryShare, estimatedTokens, historyOf, isWorthShowing,
} from "./context";

/** That of the user, else the built-in one. */
const historyShare: HistoryShare = (route) =>
  app.settings?.routes[route]?.history ?? app.about?.routes.find(([name]) => name === route)?.[1].history ?? 1;

export class Meter {
  #fits = new ModelFits();
  #choices = $derived(transcript.settings.choices);
  #model = $derived(transcript.settings.model);
  #overflow = $derived(transcript.settings.own.overflow);
  #loadedLength = $derived.by(() => {
    const loaded = app.status?.model;
    return loaded && loaded.name === this.#model?.name ? loaded.context_length : null;
  });

  /** The tokens of the typed text and the attachments. */
  draft = $derived(estimatedTokens(composer.text) + attachedTokens(composer.attachments));

  /** The tokens that the context holds; null until the model is known. */
  limit: number | null = $derived.by(() => {
    const length = transcript.settings.own.context_length ?? this.#loadedLength ??
      (this.#model && this.#fits.get(this.#model.id)?.context_length);
    // No limit applies to a chat that may not be shortened.
    const limits = this.#overflow === "stop" ? [] : app.status?.limits ?? [];
    const tokens = limits.flatMap(({ limit }) => (limit.limit === "context" ? [limit.tokens] : []));
    return length ? Math.min(length, ...tokens) : null;
  });

  /** Null while the limit is not known, and in an empty chat. */
  use: ContextUse | null = $derived.by(() => {
    if (this.limit === null || (this.draft === 0 && transcript.heads.length === 0)) return null;
    const all = historyOf(transcript.heads, (id) => transcript.views.get(id), this.#choices?.system_prompt ?? "",
      this.#overflow, historyShare);
    const share = historyShare(messageRoute.shown);
    const history = share < 1 ? Math.min(all, Math.floor(share * this.limit)) : all;
    return contextUse(history, this.draft, this.limit, this.#choices?.max_tokens ?? null, this.#overflow);
  });

  isShown = $derived(this.use !== null && isWorthShowing(this.use, composer.attachments.length > 0));

  /** The draft alone has more tokens than the context. */
  isTooLong = $derived(this.use?.outcome === "too_long");

  constructor() {
    // The context length of a model that is not loaded is estimated with its memory.
    $effect(() => {
      const model = this.#model;
      if (transcript.settings.defaults && model && this.#loadedLength === null) {
        void untrack(() => this.#fits.load([model]));
      }
    });
  }
}
