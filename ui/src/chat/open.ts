/** Mounts the chat page: in the app's window, in the gallery and in tests. */
import "../style/base.css";
import { mount } from "svelte";
import { ipc, NO_SETTINGS, type AppEvent } from "../ipc";
import { attempt, startApp } from "../state/app.svelte";
import { composer } from "../state/composer.svelte";
import { history } from "../state/history.svelte";
import { loadDownloads } from "../state/model-source.svelte";
import { newChatToRestore, placeToRestore } from "../state/place";
import { transcript } from "../state/transcript.svelte";
import ChatPage from "./ChatPage.svelte";

/** Resolves when the page is drawn and accepts keys. */
export async function openChat(target: HTMLElement): Promise<ReturnType<typeof ChatPage>> {
  let page: ReturnType<typeof ChatPage> | undefined;
  const early: AppEvent[] = [];

  function handleEvent(event: AppEvent) {
    if (!page) early.push(event);
    else if (event.event === "conversations") {
      void history.refresh();
      if (!transcript.isAsking) void transcript.refresh();
    } else if (event.event === "deleted") {
      if (history.deleted?.id === event.id) history.deleted = null;
    } else if (event.event === "history_cleared") {
      history.deleted = null;
    } else if (event.event === "chat_form_changed") {
      attempt(moveChat());
    } else if (event.event === "compose") {
      page.open(null);
      composer.append(event.text);
    } else if (event.event === "document") {
      composer.handleDocument(event.file, event.document);
      if (event.document.state === "reading") page.focus();
    } else if (event.event === "shown" && event.window === "chat") {
      if (event.conversation !== null) page.open(event.conversation);
      else page.focus();
    }
  }

  await startApp(handleEvent);
  restoreNewChat();
  page = mount(ChatPage, { target });
  early.forEach(handleEvent);
  page.focus();
  void history.refresh();
  void loadDownloads();
  return page;
}

/** Shows the chat in its other form. This page ends then. */
async function moveChat(): Promise<void> {
  const { target, isTemporary, settings } = transcript;
  composer.save();
  placeToRestore.store(transcript.whereIs());
  // Nothing that the user wrote in a temporary chat is stored.
  const own = isTemporary ? NO_SETTINGS : settings.own;
  newChatToRestore.store(target === null ? { isTemporary, settings: own } : null);
  await settings.flush();
  await ipc.showWindow("chat", transcript.target, null);
}

/** Shows the chat without messages that the page of the other form left. */
function restoreNewChat(): void {
  const stored = newChatToRestore.take();
  if (stored?.isTemporary) transcript.openTemporary();
  if (stored) transcript.settings.change(stored.settings);
}
