/** Assistants: settings of a chat under a name, for the chat and for the quick prompt. */
import { NO_SETTINGS, type Assistant, type ConversationSettings, type ModelView } from "../ipc";
import { app } from "./app.svelte";

export function assistants(): Assistant[] {
  return app.settings?.assistants ?? [];
}

/** The model of a chat with these settings. If its own is gone, the current one takes its place. */
export function modelOf(own: ConversationSettings): ModelView | null {
  return app.models.find((model) => model.id === own.model && !model.is_missing) ?? app.model;
}

/** All settings but the model. */
const VALUES = ["instructions", "temperature", "context_length", "thinking", "overflow"] as const;

/** Returns true if anything but the model is set. */
export function hasValues(own: ConversationSettings): boolean {
  return VALUES.some((name) => own[name] !== NO_SETTINGS[name]);
}

/** The assistant with exactly these values; its model counts if it has one. */
export function assistantOf(own: ConversationSettings): Assistant | undefined {
  return assistants().find(({ settings }) =>
    (hasValues(settings) || settings.model !== null) &&
    (settings.model === null || settings.model === own.model) &&
    VALUES.every((name) => settings[name] === own[name]));
}

/** The settings of a chat with an assistant: the chat keeps its model if the assistant has none. */
export function withAssistant({ settings }: Assistant, own: ConversationSettings): ConversationSettings {
  return { ...settings, model: settings.model ?? own.model };
}
