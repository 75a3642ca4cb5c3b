import { fireEvent } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { startApp } from "./app.svelte";
import { isPressed, pressOf } from "./shortcuts";

let ipc: FakeIpc;
let stop: () => void;

beforeEach(async () => {
  ipc = new FakeIpc();
  ipc.aboutView = { ...ipc.aboutView, platform: "linux" };
  useIpc(ipc);
  stop = await startApp();
});

afterEach(() => {
  stop();
  document.body.innerHTML = "";
});

function zooms(): unknown[] {
  return ipc.calls.filter(({ name }) => name === "zoom").flatMap(({ values }) => values);
}

describe("the zoom shortcuts", () => {
  it("work in every window, and other keys change nothing", async () => {
    // A key, and whether Shift is needed for it.
    const presses: [string, boolean][] = [["=", false], ["+", true], ["-", false], ["0", false]];
    for (const [key, shiftKey] of presses) {
      const isDefault = await fireEvent.keyDown(document.body, { key, shiftKey, ctrlKey: true });
      expect(isDefault, key).toBe(false);
    }
    await fireEvent.keyDown(document.body, { key: "-" });
    await fireEvent.keyDown(document.body, { key: "0", metaKey: true });
    expect(zooms()).toEqual(["in", "in", "out", "reset"]);
  });

  it("leave the page with the app's events", async () => {
    stop();
    await fireEvent.keyDown(document.body, { key: "0", ctrlKey: true });
    expect(zooms()).toEqual([]);
  });
});

describe("the system's context menu", () => {
  it("appears only for text that can be edited or copied", async () => {
    document.body.innerHTML = `<p>Text</p><input><a href="https://example.com">Link</a>`;
    const isShown = (element: string) => fireEvent.contextMenu(document.querySelector(element)!);
    expect(await isShown("p")).toBe(false);
    expect(await isShown("a")).toBe(false);
    expect(await isShown("input")).toBe(true);
    getSelection()?.selectAllChildren(document.querySelector("p")!);
    expect(await isShown("p")).toBe(true);
    expect(await isShown("a")).toBe(false);
  });
});

describe("an item of the menu bar", () => {
  it("does what its keys do on the page", () => {
    const pressed: string[] = [];
    const listen = (event: KeyboardEvent) => {
      if (isPressed(event, "Mod+Shift+G", false)) pressed.push((event.target as Element).tagName);
    };
    window.addEventListener("keydown", listen);
    document.body.innerHTML = "<textarea></textarea>";
    document.querySelector("textarea")!.focus();
    ipc.emit({ event: "shortcut", keys: "Mod+Shift+G" });
    ipc.emit({ event: "shortcut", keys: "Mod+0" });
    window.removeEventListener("keydown", listen);
    expect(pressed).toEqual(["TEXTAREA"]);
    expect(zooms()).toEqual(["reset"]);
  });

  it("presses Command on a Mac", () => {
    expect(isPressed(pressOf("Mod+/", true), "Mod+/", true)).toBe(true);
    expect(isPressed(pressOf("Mod+/", true), "Mod+/", false)).toBe(false);
  });
});
