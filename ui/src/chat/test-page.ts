/** What tests of the chat page share: a page with a fake app for each test, and a clean state after it. */
import { screen, waitFor } from "@testing-library/svelte";
import { tick, unmount } from "svelte";
import { expect } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { announcer } from "../state/announcer.svelte";
import { app } from "../state/app.svelte";
import { composer } from "../state/composer.svelte";
import { edits } from "../state/edits";
import { find } from "../state/find.svelte";
import { history } from "../state/history.svelte";
import { page } from "../state/page.svelte";
import { transcript } from "../state/transcript.svelte";
import { openChat } from "./open";

export let ipc: FakeIpc;
export let chat: Awaited<ReturnType<typeof openChat>>;
let target: HTMLElement;

/** Makes the app of the next page. The window is narrow. */
export function makeApp(): void {
  innerWidth = 420;
  ipc = new FakeIpc();
  useIpc(ipc);
}

export async function open(): Promise<void> {
  target = document.createElement("div");
  document.body.append(target);
  chat = await openChat(target);
  await tick();
}

/** Opens the page with a conversation, and returns its id. */
export async function openWith(texts: Parameters<FakeIpc["addConversation"]>[1]): Promise<number> {
  const { id } = ipc.addConversation("A talk", texts);
  await open();
  chat.open(id);
  await waitFor(() => expect(screen.getAllByRole("article")).toHaveLength(texts.length));
  return id;
}

/** Closes the page without the app noticing, as when its window is destroyed. */
export async function close(): Promise<void> {
  await transcript.open(null);
  await unmount(chat);
  target.remove();
}

/** Closes the page and resets what it left. */
export async function reset(): Promise<void> {
  await close();
  page.isHistoryShown = page.isStatusShown = page.areShortcutsShown = page.isInWindow = false;
  page.link = null;
  find.close();
  find.query = "";
  composer.forgetAll();
  edits.forgetAll();
  history.deleted = null;
  app.notices = [];
  app.status = null;
  announcer.announcements = [];
  document.title = "";
}

/** Returns the calls of a command. */
export const called = (name: string) => ipc.calls.filter((call) => call.name === name);
