/** Sends what the composer holds. Nothing that was typed may be lost on the way. */
import { composer } from "./composer.svelte";
import { expand } from "./prompts.svelte";
import { transcript } from "./transcript.svelte";

export async function sendDraft(): Promise<void> {
  const { text, attachment } = composer;
  const asked = (expand(text.trim()) ?? text).trim();
  composer.text = "";
  composer.attachment = "";
  if (await transcript.ask(asked, attachment)) composer.keep();
  else if (!composer.text && !composer.attachment) {
    composer.text = text;
    composer.attachment = attachment;
  }
}
