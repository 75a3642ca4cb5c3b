/** Browser functions that jsdom lacks. */
import { cleanup } from "@testing-library/svelte";
import { afterEach } from "vitest";

class NoResizes implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

globalThis.ResizeObserver ??= NoResizes;

globalThis.matchMedia ??= (query: string) =>
  ({
    matches: false, media: query, onchange: null,
    addEventListener() {}, removeEventListener() {}, addListener() {}, removeListener() {},
    dispatchEvent: () => false,
  }) as MediaQueryList;

HTMLElement.prototype.scrollIntoView ??= () => {};
HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
  this.setAttribute("open", "");
};
HTMLDialogElement.prototype.close ??= function (this: HTMLDialogElement) {
  this.removeAttribute("open");
};
Element.prototype.animate ??= () => ({ finished: Promise.resolve(), cancel() {} }) as unknown as Animation;

// axe-core needs this to look for letters used as icons.
HTMLCanvasElement.prototype.getContext = () => null;

afterEach(() => cleanup());
