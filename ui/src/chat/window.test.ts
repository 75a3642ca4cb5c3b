import { fireEvent, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { NO_SETTINGS } from "../ipc";
import { transcript } from "../state/transcript.svelte";
import { called, chat, close, ipc, makeApp, open, openWith, reset } from "./test-page";

async function setForm(isInWindow: boolean): Promise<void> {
  ipc.setSettings({ general: { ...(await ipc.settings()).general, chat_in_window: isInWindow } });
}

/** Opens the chat page in an ordinary window or in the popover, with a conversation. */
async function openForm(isInWindow: boolean): Promise<number> {
  await setForm(isInWindow);
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

describe("a form that is chosen in the settings", () => {
  const choose = (isInWindow: boolean) => ipc.updateSettings({ general: { chat_in_window: isInWindow } });

  /** Opens the page of the other form, as the app does. */
  async function moveWith(id: number) {
    await waitFor(() => expect(shown()).toEqual([["chat", id, null]]));
    await close();
    await open();
    chat.open(id);
  }

  it("moves an open chat with its draft", async () => {
    const id = await openForm(false);
    await fireEvent.input(screen.getByLabelText("Message"), { target: { value: "Not sent" } });
    await choose(true);
    expect(localStorage.getItem("transom.drafts")).toContain("Not sent");
    await moveWith(id);
    await waitFor(() => expect(screen.getByLabelText<HTMLTextAreaElement>("Message").value).toBe("Not sent"));
  });

  it("keeps the text of a message that is being edited", async () => {
    const id = await openForm(false);
    await fireEvent.click(screen.getByRole("button", { name: "Edit" }));
    const field = () => screen.findByLabelText<HTMLTextAreaElement>("Edit your message");
    await fireEvent.input(await field(), { target: { value: "Another question" } });
    await choose(true);
    await moveWith(id);
    expect((await field()).value).toBe("Another question");
    await fireEvent.keyDown(await field(), { key: "Escape" });
    expect(localStorage.getItem("transom.edits")).toBe("[]");
    await screen.findByText("Question", { selector: ".bubble" });
  });

  it("saves the settings of the chat before the page ends", async () => {
    const id = await openForm(false);
    transcript.settings.change({ temperature: 0.5 }, true);
    await choose(true);
    await waitFor(() => expect(shown()).toHaveLength(1));
    expect(called("setConversationSettings").map(({ values }) => values))
      .toEqual([[id, { temperature: 0.5 }]]);
  });

  /** Moves a chat without messages that has instructions. Returns what the first page stored. */
  async function moveEmpty(isTemporary: boolean): Promise<string | null> {
    await setForm(false);
    await open();
    if (isTemporary) transcript.openTemporary();
    transcript.settings.change({ instructions: "Be brief." });
    await choose(true);
    await waitFor(() => expect(shown()).toEqual([["chat", null, null]]));
    const stored = localStorage.getItem("transom.new_chat");
    await close();
    await open();
    return stored;
  }

  it("keeps the settings of a chat without messages, once", async () => {
    await moveEmpty(false);
    expect(transcript.isTemporary).toBe(false);
    expect(transcript.settings.own).toEqual({ ...NO_SETTINGS, instructions: "Be brief." });
    expect(localStorage.getItem("transom.new_chat")).toBe("[]");
  });

  it("keeps a chat without messages temporary, and stores nothing of it", async () => {
    expect(await moveEmpty(true)).not.toContain("Be brief.");
    expect(transcript.isTemporary).toBe(true);
    expect(transcript.settings.own).toEqual(NO_SETTINGS);
  });

  it("keeps the position, once", async () => {
    const { id } = ipc.addConversation("Long", Array.from({ length: 40 }, (_, index) => `Message ${index}`));
    await open();
    chat.open(id);
    await screen.findByText("Message 39");
    const view = () => document.querySelector<HTMLElement>("section.view")!;
    Object.defineProperties(view(), { scrollHeight: { value: 4000 }, clientHeight: { value: 400 } });
    for (const top of [3600, 1000]) {
      view().scrollTop = top;
      await fireEvent.scroll(view());
    }
    await choose(true);
    await moveWith(id);
    await waitFor(() => expect(view()?.scrollTop).toBeCloseTo(1000));
    expect(localStorage.getItem("transom.place")).toBe("[]");
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
