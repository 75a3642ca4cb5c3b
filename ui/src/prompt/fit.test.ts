/** The height that the panel requests, from the missing height of its scrolling part. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { fitSheet, fitWindow } from "./fit";

let fake: FakeIpc;
let end: () => void;

/** A part of the panel with `room` points of height and content of `needed` points. */
function part(room: number, needed: number): HTMLElement {
  const scroller = document.createElement("div");
  const content = scroller.appendChild(document.createElement("div"));
  Object.defineProperty(scroller, "clientHeight", { value: room });
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
