/** What every window needs because its page is an app and not a web site. */
import { ipc, type ZoomStep } from "../ipc";
import { app, attempt } from "./app.svelte";
import { isPressed, pressOf } from "./shortcuts";

const zoomKeys: [string, ZoomStep][] = [
  ["Mod+Plus", "in"], ["Mod+=", "in"], ["Mod+-", "out"], ["Mod+0", "reset"],
];

/** Handles the zoom shortcuts and the context menu. Returns a function that stops it. */
export function handlePage(): () => void {
  window.addEventListener("keydown", zoom);
  window.addEventListener("contextmenu", showMenu);
  return () => {
    window.removeEventListener("keydown", zoom);
    window.removeEventListener("contextmenu", showMenu);
  };
}

/** Does what `keys` do on this page, for an item of the menu bar. */
export function press(keys: string): void {
  (document.activeElement ?? document.body).dispatchEvent(pressOf(keys, app.isMac));
}

function zoom(event: KeyboardEvent): void {
  if (event.isComposing || event.defaultPrevented) return;
  const found = zoomKeys.find(([keys]) => isPressed(event, keys, app.isMac));
  if (!found) return;
  event.preventDefault();
  attempt(ipc.zoom(found[1]));
}

/** The system's menu is useful for text. Elsewhere it offers to reload the page or to go back. */
function showMenu(event: MouseEvent): void {
  const target = event.target instanceof Element ? event.target : null;
  const isText = target?.closest("input, textarea") || getSelection()?.isCollapsed === false;
  if (!isText || target?.closest("a[href]")) event.preventDefault();
}
