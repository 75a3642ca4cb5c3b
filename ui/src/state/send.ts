/** Sends the composer's content. Typed text must never be lost. */
import { composer } from "./composer.svelte";
import { offeredModel } from "./offer.svelte";
import { expand } from "./prompts.svelte";
import { messageRoute } from "./route.svelte";
import { transcript } from "./transcript.svelte";

export async function sendDraft(): Promise<void> {
  const { text, attachments } = composer.take();
  const question = (expand(text.trim()) ?? text).trim();
  offeredModel.decline();
  const route = messageRoute.take(text);
  composer.sent(await transcript.ask(question, attachments, false, ...route));
}
