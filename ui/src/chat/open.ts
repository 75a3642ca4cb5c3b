/** Mounts the chat page: in the app's window, in the gallery and in tests. */
import "../style/base.css";
import { mount } from "svelte";
import type { News } from "../ipc";
import { startApp } from "../state/app.svelte";
import { composer } from "../state/composer.svelte";
import { history } from "../state/history.svelte";
import { readDownloads } from "../state/shelf.svelte";
import { transcript } from "../state/transcript.svelte";
import ChatPage from "./ChatPage.svelte";

/** Resolves when the page is drawn and accepts keys. */
export async function openChat(target: HTMLElement): Promise<ReturnType<typeof ChatPage>> {
  let page: ReturnType<typeof ChatPage> | undefined;
  const early: News[] = [];

  function heed(news: News) {
    if (!page) early.push(news);
    else if (news.news === "conversations") {
      void history.refresh();
      if (!transcript.isAsking) void transcript.refresh();
    } else if (news.news === "compose") {
      page.open(null);
      composer.append(news.text);
    } else if (news.news === "drop" && news.drop.state === "attached") {
      composer.attach(`${news.drop.name}:\n${news.drop.text}`);
      page.focus();
    } else if (news.news === "shown" && news.window === "chat") {
      if (news.conversation !== null) page.open(news.conversation);
      else page.focus();
    }
  }

  await startApp(heed);
  page = mount(ChatPage, { target });
  early.forEach(heed);
  page.focus();
  void history.refresh();
  void readDownloads();
  return page;
}
