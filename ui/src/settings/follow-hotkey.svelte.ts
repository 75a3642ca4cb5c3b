/** Settings tell which shortcut is wished for; whether it works is asked anew when that changes. */
import { untrack } from "svelte";
import { ipc } from "../ipc";
import { app } from "../state/app.svelte";

/** To be called while a component is set up: `app.about` stays true for as long as it is there. */
export function followHotkey(): void {
  let before = app.settings?.general.hotkey;
  $effect(() => {
    const now = app.settings?.general.hotkey;
    if (now === before) return;
    before = now;
    untrack(() => void ipc.about().then((about) => (app.about = about)));
  });
}
