/** Copies text and announces it. */
import { t } from "../i18n";
import { ipc } from "../ipc";
import { announcer } from "./announcer.svelte";

export async function copyText(text: string): Promise<void> {
  await ipc.copy(text);
  announcer.say(t("chat.common.copied"));
}
