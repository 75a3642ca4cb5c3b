/** The height that the panel requests, from the missing height of its scrolling part. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { fitSheet, fitWindow } from "./fit";

let fake: FakeIpc;
let end: () => void;

/**
 * The scrolling part of a panel with `room` points of height and content of `needed` points. Other
 * parts of the panel are cut off by `cut` points.
 */
function part(room: number, needed: number, cut = 0): HTMLElement {
  const panel = document.createElement("main");
  Object.defineProperty(panel, "scrollHeight", { value: cut });
  const scroller = panel.appendChild(document.createElement("div"));
  const content = scroller.appendChild(document.createElement("div"));
  scroller.getBoundingClientRect = () => new DOMRect(0, 0, 600, room);
  content.getBoundingClientRect = () => new DOMRect(0, 0, 600, needed);
  return scroller;
}

/** The requested heights. */
function asked(): unknown[] {
  return fake.calls.filter((call) => call.name === "fitPrompt").map((call) => call.values[0]);
}

beforeEach(() => {
  fake = new FakeIpc();
  useIpc(fake);
  window.innerHeight = 300;
});
afterEach(() => end());

it("requests missing height, and releases extra height", () => {
  end = fitWindow(part(200, 260.2));
  document.dispatchEvent(new Event("visibilitychange"));
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toEqual([361]);
  end();
  end = fitWindow(part(200, 50));
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toEqual([361, 150]);
});

it("repeats its request when the window got the height of an earlier one", () => {
  const scroller = part(0, 78);
  end = fitWindow(scroller);
  document.dispatchEvent(new Event("visibilitychange"));
  scroller.firstElementChild!.getBoundingClientRect = () => new DOMRect(0, 0, 600, 0);
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toEqual([378, 300]);
  scroller.getBoundingClientRect = () => new DOMRect(0, 0, 600, 78);
  window.innerHeight = 378;
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toEqual([378, 300, 300]);
  scroller.getBoundingClientRect = () => new DOMRect(0, 0, 600, 0);
  window.innerHeight = 300;
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toEqual([378, 300, 300]);
});

it("requests height for a line that grew or appeared", () => {
  end = fitWindow(part(0, 0, 34));
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toEqual([334]);
});

it("ends at the height where scrolling starts", () => {
  end = fitWindow(part(200, 5000));
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toEqual([560]);
});

it("grows for a sheet, and shrinks after it", () => {
  end = fitWindow(part(200, 100));
  const close = fitSheet();
  expect(asked()).toEqual([560]);
  close();
  expect(asked()).toEqual([560, 200]);
});
