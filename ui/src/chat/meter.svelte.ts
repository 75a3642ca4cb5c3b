/** How much of the context the next message needs. Created by a component, whose life it shares. */
import { untrack } from "svelte";
import { ModelFits } from "../models/fits.svelte";
import { app } from "../state/app.svelte";
import { composer } from "../state/composer.svelte";
import { messageRoute } from "../state/route.svelte";
import { transcript } from "../state/transcript.svelte";
import { attachedTokens, estimatedTokens, tokensOfLength } from "../state/tokens";
import { contextUse, type ContextUse, historyOf, isWorthShowing } from "./context";

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

  #n_chars = $derived(composer.attachments.reduce((sum, { text }) => sum + text.length, composer.text.length));

  /** The context length of the model, which is loaded again for a larger one; null until it is known. */
  length: number | null = $derived(Math.max(this.#choices?.context_length ?? 0, this.#loadedLength ?? 0) ||
    ((this.#model && this.#fits.get(this.#model.id)?.context_length) ?? null));

  /** The tokens that the context holds: fewer than its length while the machine is short of something. */
  limit: number | null = $derived.by(() => {
    // No limit applies to a chat that may not be shortened.
    const limits = this.#overflow === "stop" ? [] : app.status?.limits ?? [];
    const tokens = limits.flatMap(({ limit }) => (limit.limit === "context" ? [limit.tokens] : []));
    return this.length ? Math.min(this.length, ...tokens) : null;
  });

  /** The tokens of the earlier messages that the next request contains. */
  #history = $derived(historyOf(transcript.heads, (id) => transcript.views.get(id),
    this.#choices?.system_prompt ?? "", this.#overflow, messageRoute.limits.earlier_messages));

  /** Null while the limit is not known, and in an empty chat. */
  use: ContextUse | null = $derived.by(() => {
    if (this.limit === null || (this.draft === 0 && transcript.heads.length === 0)) return null;
    const response = this.#choices?.max_tokens ?? messageRoute.limits.response_tokens;
    return contextUse(this.#history, this.draft, this.limit, response, this.#overflow);
  });

  isShown = $derived(this.use !== null && isWorthShowing(this.use, composer.attachments.length > 0));

  /** The draft alone has more tokens than the context, as far as is known. */
  isTooLong = $derived(this.use?.outcome === "too_long");

  /** It has, also if its tokens are long. */
  cannotFit = $derived(this.limit !== null && tokensOfLength(this.#n_chars) >= this.limit);

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
