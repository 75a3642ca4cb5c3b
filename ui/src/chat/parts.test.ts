import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { createRawSnippet, tick } from "svelte";
import { describe, expect, it, vi } from "vitest";
import Dialog from "../parts/Dialog.svelte";
import { place } from "../parts/menu";
import Segmented from "../parts/Segmented.svelte";
import Switch from "../parts/Switch.svelte";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { app, attempt } from "../state/app.svelte";
import { noticeView } from "./notices";
import Notices from "./Notices.svelte";

describe("a menu", () => {
  const view = { width: 400, height: 600 };
  const box = { width: 200, height: 300 };

  it("opens below its button, or above where there is more room", () => {
    const high = place({ left: 20, right: 60, top: 10, bottom: 40 }, box, view, "start");
    expect(high).toEqual({ left: 20, top: 45, maxHeight: 547 });
    const low = place({ left: 20, right: 60, top: 540, bottom: 570 }, box, view, "start");
    expect(low.top).toBe(235);
  });

  it("stays within the window, whatever its size", () => {
    const right = place({ left: 380, right: 396, top: 10, bottom: 40 }, box, view, "start");
    expect(right.left).toBe(192);
    const left = place({ left: 4, right: 30, top: 10, bottom: 40 }, box, view, "end");
    expect(left.left).toBe(8);
    const tall = place({ left: 20, right: 60, top: 300, bottom: 330 }, { width: 200, height: 2000 }, view, "start");
    expect(tall.top).toBeGreaterThanOrEqual(8);
    expect(tall.maxHeight).toBeLessThan(300);
  });
});

describe("a dialog", () => {
  it("restores the focus", async () => {
    const before = document.createElement("button");
    document.body.append(before);
    before.focus();
    const children = createRawSnippet(() => ({ render: () => "<input aria-label='inside'>" }));
    const onclose = vi.fn();
    const { unmount } = render(Dialog, { title: "Sure?", onclose, children });
    await tick();
    screen.getByLabelText("inside").focus();
    await fireEvent(screen.getByRole("dialog"), new Event("cancel", { cancelable: true }));
    expect(onclose).toHaveBeenCalledOnce();
    unmount();
    expect(document.activeElement).toBe(before);
    before.remove();
  });
});

describe("controls", () => {
  it("move between options with arrow keys, with one tab stop", async () => {
    const onchange = vi.fn();
    const options = ["a", "b", "c"].map((value) => ({ value, label: value }));
    render(Segmented, { value: "c", options, label: "Letters", onchange });
    const stops = screen.getAllByRole("radio").map((radio) => radio.tabIndex);
    expect(stops).toEqual([-1, -1, 0]);
    await fireEvent.keyDown(screen.getByText("c"), { key: "ArrowRight" });
    expect(onchange).toHaveBeenCalledWith("a");
    expect(document.activeElement).toBe(screen.getByText("a"));
  });

  it("say whether they are on", async () => {
    const onchange = vi.fn();
    render(Switch, { checked: false, labelledby: "pin", onchange });
    const control = screen.getByRole("switch");
    await fireEvent.click(control);
    expect(control.getAttribute("aria-checked")).toBe("true");
    expect(onchange).toHaveBeenCalledWith(true);
  });
});

describe("a notice", () => {
  it("shows a failed command until it is dismissed", async () => {
    const ipc = new FakeIpc();
    useIpc(ipc);
    ipc.refuse("eject", { code: "other", reason: "the engine does not answer" });
    render(Notices);
    attempt(ipc.eject());
    await screen.findByText("Something went wrong: the engine does not answer");
    await fireEvent.click(screen.getByLabelText("Dismiss"));
    await waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
    expect(app.notices).toEqual([]);
  });

  it("stays visible with later ones, and cannot be dismissed if its state lasts", async () => {
    useIpc(new FakeIpc());
    render(Notices);
    app.notify({ code: "store_unavailable", detail: "transom.db: permission denied", values: {} });
    app.notify({ code: "hotkey_taken", detail: "Alt+Space", values: {} });
    app.notify({ code: "hotkey_taken", detail: "Alt+Space", values: {} });
    await waitFor(() => expect(screen.getAllByRole("alert")).toHaveLength(2));
    screen.getByText("transom.db: permission denied");
    await fireEvent.click(screen.getByLabelText("Dismiss"));
    await waitFor(() => expect(screen.getAllByRole("alert")).toHaveLength(1));
    screen.getByText("Can’t open your chat history. New chats will be lost when you quit.");
    app.dismiss();
    expect(app.notices).toHaveLength(1);
    app.notices = [];
  });

  it("of a shortcut that another app uses opens the settings where it can be changed", async () => {
    const ipc = new FakeIpc();
    useIpc(ipc);
    render(Notices);
    app.notify({ code: "hotkey_taken", detail: "Alt+Space", values: {} });
    await fireEvent.click(await screen.findByRole("button", { name: "Change…" }));
    expect(ipc.calls).toContainEqual({ name: "showWindow", values: ["settings", null, "general"] });
    app.notices = [];
  });

  it("of a recovery says how much was saved and where the damaged file is", async () => {
    const ipc = new FakeIpc();
    useIpc(ipc);
    render(Notices);
    app.notify({ code: "store_recovered", detail: "database disk image is malformed",
      values: { conversations: 1, messages: 1200, damaged: "/data/transom-damaged-2026-11-22.db" } });
    await screen.findByText("Your chat history was damaged. Transom recovered 1 chat with 1,200 messages " +
      "and kept the damaged file: /data/transom-damaged-2026-11-22.db");
    screen.getByText("database disk image is malformed");
    await fireEvent.click(screen.getByRole("button", { name: "Show Folder" }));
    expect(ipc.calls.map((call) => call.name)).toContain("openDataFolder");
    app.notices = [];
  });

  it("of a recovery from a backup says its date", () => {
    const at = new Date(2026, 10, 21, 12).getTime();
    const view = noticeView({ code: "store_recovered", detail: "x",
      values: { conversations: 2, messages: 8, damaged: "/d.db", backed_up_at: at } });
    expect(view?.text).toMatch(/restored 2 chats with 8 messages from the backup of November 21, 2026\./);
  });

  it("of a refused load says why", () => {
    const view = noticeView({ code: "turn", detail: "", values: { failure: { code: "no_model" } } });
    expect(view?.text).toBe("There’s no model yet.");
    expect(view?.detail).toMatch(/^Download one in Settings/);
  });

  it("has a sentence for every code of the app", () => {
    for (const code of ["hotkey_taken", "store_recovered", "store_unavailable", "store_setting_ignored",
      "settings_unreadable", "engine_missing", "unsaved", "instance_other_version", "instance_silent",
      "instance_alone"]) {
      expect(noticeView({ code, detail: "x", values: {} })?.text, code).not.toMatch(/went wrong/);
    }
  });
});
