import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { beforeEach, describe, expect, it } from "vitest";
import { chooseLanguage } from "../i18n";
import { useIpc, type HotkeyView } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { app } from "../state/app.svelte";
import HotkeyRecorder from "./parts/HotkeyRecorder.svelte";

let fake: FakeIpc;
let answer: HotkeyView | null;

beforeEach(() => {
  fake = new FakeIpc();
  answer = null;
  const set = fake.setHotkey.bind(fake);
  Object.assign(fake, { setHotkey: async (shortcut: string) => answer ?? set(shortcut) });
  useIpc(fake);
  chooseLanguage("en");
});

const works: HotkeyView = { hotkey: "registered", shortcut: "Alt+Space" };

function draw(hotkey: HotkeyView = works, platform = "macos") {
  app.about = { ...fake.aboutView, platform };
  render(HotkeyRecorder, { hotkey, usual: "Alt+Space" });
  return screen.getAllByRole("button")[0]!;
}

async function press(well: HTMLElement, code: string, held: object = {}, key = code) {
  await fireEvent.keyDown(well, { code, key, ...held });
}

function recordings(): unknown[] {
  return fake.calls.filter((call) => call.name === "recordHotkey").map((call) => call.values[0]);
}

describe("the recorder", () => {
  it("records a shortcut, shows its keys and says that it works", async () => {
    const well = draw();
    await fireEvent.click(well);
    expect(well.textContent).toContain("Type a shortcut");
    await press(well, "ShiftLeft", { shiftKey: true, ctrlKey: true }, "Shift");
    expect(well.textContent).toContain("⌃⇧");
    await press(well, "KeyK", { shiftKey: true, ctrlKey: true }, "K");
    expect(fake.calls.find((call) => call.name === "setHotkey")?.values).toEqual(["Control+Shift+K"]);
    expect(recordings()).toEqual([true, false]);
  });

  it("keeps the old shortcut on Escape", async () => {
    const well = draw();
    await fireEvent.click(well);
    await press(well, "Escape");
    expect(well.textContent).toContain("⌥");
    expect(fake.calls.some((call) => call.name === "setHotkey")).toBe(false);
    expect(recordings()).toEqual([true, false]);
  });

  it("clears the shortcut on Backspace", async () => {
    const well = draw();
    await fireEvent.click(well);
    await press(well, "Backspace");
    expect(fake.calls.find((call) => call.name === "setHotkey")?.values).toEqual([""]);
  });

  it("keeps waiting for a modifier", async () => {
    const well = draw();
    await fireEvent.click(well);
    await press(well, "KeyK", {}, "k");
    await screen.findByText(/^Include Control/);
    expect(fake.calls.some((call) => call.name === "setHotkey")).toBe(false);
  });

  it("stops when another element gets the focus", async () => {
    const well = draw();
    await fireEvent.click(well);
    await fireEvent.blur(well);
    expect(recordings()).toEqual([true, false]);
  });

  it("says that another program uses it, and that the old one stays", async () => {
    answer = { hotkey: "taken", shortcut: "Control+Space" };
    const well = draw(works, "linux");
    await fireEvent.click(well);
    await press(well, "Space", { ctrlKey: true });
    await screen.findByText("Another app uses Ctrl+Space. Transom still uses Alt+Space.");
    expect(well.textContent).toContain("Alt");
  });

  it("says that a shortcut is unusable", async () => {
    answer = { hotkey: "unusable", shortcut: "Alt+F4" };
    const well = draw(works, "linux");
    await fireEvent.click(well);
    await press(well, "F4", { altKey: true });
    await screen.findByText("Alt+F4 can’t be used as a shortcut. Choose a different shortcut.");
  });

  it("shows from the start that the shortcut is not available", async () => {
    draw({ hotkey: "taken", shortcut: "Alt+Space" });
    await waitFor(() => expect(screen.getByRole("status").textContent).toContain("Another app uses ⌥"));
  });

  it("has no button if the session has no global shortcuts", () => {
    const hotkey: HotkeyView = { hotkey: "unavailable", reason: "no portal" };
    app.about = { ...fake.aboutView, platform: "linux" };
    render(HotkeyRecorder, { hotkey, usual: "Alt+Space" });
    expect(screen.queryByRole("button")).toBeNull();
    expect(screen.getByRole("status").textContent).toContain("Global shortcuts aren’t available");
  });
});
