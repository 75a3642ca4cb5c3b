/** The edge of a window that the system draws none around. */
import { app } from "./app.svelte";

/**
 * For windows without a title bar: where the system adds no edge or shadow, the page has a line; where
 * it draws a material with round corners, the page is its popover.
 */
export function frameWindow(): void {
  $effect(() => {
    const edge = app.about?.platform === "linux" ? "framed" : "popover";
    document.body.classList.add(edge);
    return () => document.body.classList.remove(edge);
  });
}
