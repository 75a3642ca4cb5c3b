/** The edge of a window that the system draws none around. */
import { app } from "./app.svelte";

/** For windows without a title bar: where the system adds no edge or shadow, the page has a line. */
export function frameWindow(): void {
  $effect(() => {
    const isBare = app.about?.platform === "linux";
    document.body.classList.toggle("framed", isBare);
    return () => document.body.classList.remove("framed");
  });
}
