/**
 * The settings of the chat that is shown. Those of a new chat are sent with its first question, later
 * changes at once or after a delay.
 */
import {
  ipc, NO_SETTINGS, type ConversationId, type ConversationSettings, type ModelSettings, type ModelView,
} from "../ipc";
import { choicesFor } from "../settings/patch";
import { app, attempt } from "./app.svelte";
import { modelOf } from "./assistants.svelte";

/** The delay before changes of a slider or a text are sent. */
const DELAY_MS = 250;

export class ChatSettings {
  own = $state.raw<ConversationSettings>(NO_SETTINGS);
  /** The changes that the app does not have yet. */
  #unsaved: Partial<ConversationSettings> | null = null;
  #sent: Partial<ConversationSettings> | null = null;
  #conversation: ConversationId | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #last: Promise<unknown> = Promise.resolve();
  /** Grows when the user changes the settings and when the app has them. */
  revision = 0;

  /** The model that responds next. */
  model: ModelView | null = $derived(modelOf(this.own));
  /** The settings of the model without those of the chat. */
  defaults: ModelSettings | null = $derived(
    app.settings && this.model ? choicesFor(app.settings, this.model.id) : null);
  /** The settings of the next response. */
  choices: ModelSettings | null = $derived(this.defaults && inChat(this.defaults, this.own));

  get isSaved(): boolean {
    return this.#unsaved === null;
  }

  /** Shows the settings of a conversation as they were at `revision`, unless the user has changed them since. */
  show(conversation: ConversationId | null, own: ConversationSettings, revision = this.revision): void {
    const isOther = conversation !== this.#conversation;
    if (!isOther && (!this.isSaved || revision !== this.revision)) return;
    if (isOther) void this.flush();
    this.#unsaved = null;
    this.#conversation = conversation;
    this.own = own;
  }

  /** `isDelayed` delays changes that come many times in a row. */
  change(patch: Partial<ConversationSettings>, isDelayed = false): void {
    this.own = { ...this.own, ...patch };
    this.revision += 1;
    if (this.#conversation === null) return;
    this.#unsaved = { ...this.#unsaved, ...patch };
    clearTimeout(this.#timer);
    if (isDelayed) this.#timer = setTimeout(() => void this.flush(), DELAY_MS);
    else void this.flush();
  }

  /** Selects the model of this chat and of new ones. */
  chooseModel(id: string): Promise<void> {
    this.change({ model: this.#conversation === null ? null : id });
    return ipc.chooseModel(id);
  }

  /** Sends the changes that wait. Resolves when the app has replied. */
  flush(): Promise<unknown> {
    clearTimeout(this.#timer);
    const [id, patch] = [this.#conversation, this.#unsaved];
    if (id === null || patch === null || patch === this.#sent) return this.#last;
    this.#sent = patch;
    const sent = this.#last.then(() => ipc.setConversationSettings(id, patch));
    attempt(sent);
    this.#last = sent.catch(() => undefined).then(() => {
      if (this.#unsaved === patch) this.#unsaved = null;
      this.revision += 1;
    });
    return this.#last;
  }
}

/** Returns the settings of a model with those of a chat in place of them, as the app does. */
export function inChat(model: ModelSettings, own: ConversationSettings): ModelSettings {
  return {
    ...model,
    context_length: own.context_length ?? model.context_length,
    temperature: own.temperature ?? model.temperature,
    system_prompt: own.instructions ?? model.system_prompt,
    thinking: own.thinking ?? model.thinking,
  };
}
