/** Settings contain the requested shortcut. Whether it works is asked again when it changes. */
import { untrack } from "svelte";
import { ipc } from "../ipc";
import { app } from "../state/app.svelte";

/** Call this while a component is set up: keeps `app.about` current while the component exists. */
export function followHotkey(): void {
  let before = app.settings?.general.hotkey;
  $effect(() => {
    const now = app.settings?.general.hotkey;
    if (now === before) return;
    before = now;
    untrack(() => void ipc.about().then((about) => (app.about = about)));
  });
}
