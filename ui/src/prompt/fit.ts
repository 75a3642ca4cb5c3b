/**
 * The panel is as high as what it shows: it grows with its answer, up to a height at which reading
 * by scrolling is better.
 */
import { ipc } from "../ipc";

/** Points; a panel of this height stands on every screen without moving up. */
const MOST = 560;

/** Of the part that is shown now. */
let fit = () => {};
let hasSheet = false;

/**
 * Attached to the part of the panel that scrolls, whose only child is all of its content: whatever
 * that lacks in height, the window is given.
 */
export function fitWindow(scroller: HTMLElement): () => void {
  const content = scroller.firstElementChild;
  if (!content) return () => {};
  let asked = 0;
  const own = () => {
    // Hidden, the page may have no width yet, and all of it would be one tall column.
    if (document.visibilityState === "hidden") return;
    const missing = content.getBoundingClientRect().height - scroller.clientHeight;
    const height = hasSheet ? MOST : Math.min(MOST, Math.ceil(window.innerHeight + missing));
    if (height === asked) return;
    asked = height;
    void ipc.fitPrompt(height);
  };
  fit = own;
  const sizes = new ResizeObserver(own);
  sizes.observe(scroller);
  sizes.observe(content);
  document.addEventListener("visibilitychange", own);
  return () => {
    sizes.disconnect();
    document.removeEventListener("visibilitychange", own);
  };
}

/** A sheet that lies over the panel needs the room of a full one. */
export function fitSheet(): () => void {
  hasSheet = true;
  fit();
  return () => {
    hasSheet = false;
    fit();
  };
}
