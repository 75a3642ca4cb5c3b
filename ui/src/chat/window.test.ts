import { fireEvent, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { called, ipc, makeApp, openWith, reset } from "./test-page";

/** Opens the chat page in an ordinary window or in the popover, with a conversation. */
async function openForm(isInWindow: boolean): Promise<number> {
  ipc.setSettings({ general: { ...(await ipc.settings()).general, chat_in_window: isInWindow } });
  return openWith(["Question", "Answer"]);
}

beforeEach(makeApp);
afterEach(reset);

const shown = () => called("showWindow").map(({ values }) => values);

describe("the popover", () => {
  it("moves to a window with its conversation", async () => {
    const id = await openForm(false);
    expect(document.body.classList.contains("popover")).toBe(true);
    await fireEvent.click(screen.getByRole("button", { name: "Open in window" }));
    await waitFor(() => expect(shown()).toEqual([["chat", id, null]]));
    expect((await ipc.settings()).general.chat_in_window).toBe(true);
  });
});

describe("the ordinary window", () => {
  it("has a title instead of a border and a pin, and goes back", async () => {
    const id = await openForm(true);
    expect(document.body.className).toBe("");
    expect(document.title).toBe("A talk");
    expect(screen.queryByRole("button", { name: "Pin window" })).toBeNull();
    await fireEvent.keyDown(document.body, { key: "O", metaKey: true, shiftKey: true });
    await waitFor(() => expect(shown()).toEqual([["chat", id, null]]));
    expect((await ipc.settings()).general.chat_in_window).toBe(false);
  });

  it("stays open at Escape", async () => {
    await openForm(true);
    await fireEvent.keyDown(document.body, { key: "Escape" });
    expect(called("hideWindow")).toHaveLength(0);
  });
});
