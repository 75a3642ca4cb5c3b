/**
 * Fits the panel's height to its content: it grows with the response, up to a height at which
 * scrolling is better.
 */
import { ipc } from "../ipc";

/** In points. A panel of this height fits every screen without moving up. */
const MOST = 560;

/** Of the currently visible part. */
let fit = () => {};
let hasSheet = false;

/**
 * An attachment for the scrolling part of the panel, whose only child has all of its content. The
 * window grows by the height that this content and the other parts of the panel lack. Those have to
 * be there from the start, even if they are empty.
 */
export function fitWindow(scroller: HTMLElement): () => void {
  const content = scroller.firstElementChild;
  const panel = scroller.parentElement;
  if (!content || !panel) return () => {};
  let asked = 0;
  let seen = 0;
  const own = () => {
    // A hidden page may have no width yet, so all of it would be one tall column.
    if (document.visibilityState === "hidden") return;
    // With fractions, because a rounded height could alternate between two values.
    const missing = content.getBoundingClientRect().height - scroller.getBoundingClientRect().height +
      panel.scrollHeight - panel.clientHeight;
    const height = hasSheet ? MOST : Math.min(MOST, Math.ceil(window.innerHeight + missing));
    const isUnchanged = window.innerHeight === seen || window.innerHeight === height;
    seen = window.innerHeight;
    // An earlier request may have been carried out after the last one, so that is repeated.
    if (height === asked && isUnchanged) return;
    asked = height;
    void ipc.fitPrompt(height);
  };
  fit = own;
  const sizes = new ResizeObserver(own);
  for (const part of [content, ...panel.children]) sizes.observe(part);
  document.addEventListener("visibilitychange", own);
  return () => {
    sizes.disconnect();
    document.removeEventListener("visibilitychange", own);
  };
}

/** A sheet over the panel needs the height of a full panel. */
export function fitSheet(): () => void {
  hasSheet = true;
  fit();
  return () => {
    hasSheet = false;
    fit();
  };
}
