import { fireEvent, screen, waitFor } from "@testing-library/svelte";
import { tick, unmount } from "svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { page } from "../state/page.svelte";
import { transcript } from "../state/transcript.svelte";
import { openChat } from "./open";

let ipc: FakeIpc;
let chat: Awaited<ReturnType<typeof openChat>>;
let target: HTMLElement;

/** Opens the chat page in an ordinary window or in the popover, with a conversation. */
async function open(isInWindow: boolean): Promise<number> {
  ipc.setSettings({ general: { ...(await ipc.settings()).general, chat_in_window: isInWindow } });
  target = document.createElement("div");
  document.body.append(target);
  chat = await openChat(target);
  const { id } = ipc.addConversation("A talk", ["Question", "Answer"]);
  chat.open(id);
  await waitFor(() => expect(transcript.conversation?.id).toBe(id));
  await tick();
  return id;
}

beforeEach(() => {
  innerWidth = 420;
  ipc = new FakeIpc();
  useIpc(ipc);
});

afterEach(async () => {
  await transcript.open(null);
  page.isHistoryShown = page.isInWindow = false;
  document.title = "";
  await unmount(chat);
  target.remove();
});

const called = (name: string) => ipc.calls.filter((call) => call.name === name).map(({ values }) => values);

describe("the popover", () => {
  it("moves to a window with its conversation", async () => {
    const id = await open(false);
    expect(document.body.classList.contains("popover")).toBe(true);
    await fireEvent.click(screen.getByRole("button", { name: "Open in window" }));
    await waitFor(() => expect(called("showWindow")).toEqual([["chat", id, null]]));
    expect((await ipc.settings()).general.chat_in_window).toBe(true);
  });
});

describe("the ordinary window", () => {
  it("has a title instead of a border and a pin, and goes back", async () => {
    const id = await open(true);
    expect(document.body.className).toBe("");
    expect(document.title).toBe("A talk");
    expect(screen.queryByRole("button", { name: "Pin window" })).toBeNull();
    await fireEvent.keyDown(document.body, { key: "O", metaKey: true, shiftKey: true });
    await waitFor(() => expect(called("showWindow")).toEqual([["chat", id, null]]));
    expect((await ipc.settings()).general.chat_in_window).toBe(false);
  });

  it("stays open at Escape", async () => {
    await open(true);
    await fireEvent.keyDown(document.body, { key: "Escape" });
    expect(called("hideWindow")).toEqual([]);
  });
});
