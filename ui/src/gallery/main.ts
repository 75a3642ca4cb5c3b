/** Shows one state of one page: `?state=chat-code&appearance=dark&lang=de&contrast=more&platform=linux`. */
import "../style/base.css";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { bench } from "./bench";
import { promptStates } from "./prompt-states";
import { settingsStates, type GalleryState } from "./settings-states";
import { states, type ChatState } from "./states";
import { claim, wait } from "./steps";

const query = new URLSearchParams(location.search);
const target = document.getElementById("app")!;

async function open(): Promise<void> {
  const name = query.get("state") ?? "chat-empty";
  const ipc = new FakeIpc();
  useIpc(ipc);
  // Removes drafts of other states.
  localStorage.clear();
  const appearance = query.get("appearance");
  const { general } = await ipc.settings();
  ipc.setSettings({ general: { ...general, language: query.get("lang") ?? "en",
    appearance: appearance === "light" || appearance === "dark" ? appearance : "system" } });
  if (query.has("contrast")) document.documentElement.dataset.contrast = "more";
  const platform = query.get("platform");
  if (platform) ipc.aboutView = { ...ipc.aboutView, platform };
  if (query.has("bench")) await bench(ipc, query, target);
  else await show(name, ipc);
  await document.fonts.ready;
  await wait(400);
  document.documentElement.dataset.ready = "yes";
}

async function show(name: string, ipc: FakeIpc): Promise<void> {
  const chat = states.find((state) => state.name === name);
  if (chat) {
    await showChat(chat, ipc);
    return claim(chat);
  }
  const others: GalleryState[] = [...promptStates, ...settingsStates];
  const other = others.find((state) => state.name === name);
  if (!other) throw new Error(`there is no state ${name}`);
  await other.show(ipc, target);
  await claim(other);
}

async function showChat(state: ChatState, ipc: FakeIpc): Promise<void> {
  state.set?.(ipc);
  const { openChat } = await import("../chat/open");
  const chat = await openChat(target);
  const last = [...ipc.tree.conversations.keys()].at(-1);
  if (last !== undefined && state.opens !== "none") chat.open(last);
  await wait(120);
  await state.after?.(ipc);
}

open().catch((error: unknown) => {
  document.documentElement.dataset.wrong = String(error);
});
