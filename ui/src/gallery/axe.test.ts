/** Checks the accessibility of every state of the chat. Contrast needs a real browser. */
import axe from "axe-core";
import { tick, unmount } from "svelte";
import { afterEach, describe, expect, it } from "vitest";
import { openChat } from "../chat/open";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { app } from "../state/app.svelte";
import { composer } from "../state/composer.svelte";
import { find } from "../state/find.svelte";
import { history } from "../state/history.svelte";
import { page } from "../state/page.svelte";
import { transcript } from "../state/transcript.svelte";
import { states } from "./states";
import { claim, wait } from "./steps";

let chat: Awaited<ReturnType<typeof openChat>> | null = null;

afterEach(async () => {
  await transcript.open(null);
  find.close();
  find.query = "";
  page.link = null;
  page.isHistoryShown = page.isStatusShown = page.areShortcutsShown = false;
  composer.forgetAll();
  app.status = null;
  app.notices = [];
  history.query = "";
  history.isArchive = false;
  if (chat) await unmount(chat);
  document.body.replaceChildren();
});

describe("axe finds no violation in", () => {
  it.each(Object.entries(states))("%s", async (name, state) => {
    innerWidth = 420;
    const ipc = new FakeIpc();
    useIpc(ipc);
    state.set?.(ipc);
    const target = document.createElement("div");
    document.body.append(target);
    document.documentElement.lang = "en";
    document.title = "Transom";
    chat = await openChat(target);
    const last = [...ipc.tree.conversations.keys()].at(-1);
    if (last !== undefined) chat.open(last);
    await wait(30);
    await state.after?.(ipc);
    await wait(30);
    await tick();
    await claim(name, state.shows);
    const found = await axe.run(document, { rules: { "color-contrast": { enabled: false } } });
    const wrong = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ; ")}`);
    expect(wrong).toEqual([]);
  });
});
