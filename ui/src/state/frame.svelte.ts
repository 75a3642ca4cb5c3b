/** The border of a window without system decorations. */
import { app } from "./app.svelte";

/**
 * For panels, which have no title bar: if the system adds no border or shadow, the page draws a line.
 * If it draws a material with rounded corners, the page is the content of its popover.
 */
export function frameWindow(): void {
  $effect(() => {
    const edge = app.about?.platform === "linux" ? "framed" : "popover";
    document.body.classList.add(edge);
    return () => document.body.classList.remove(edge);
  });
}
