/** Shows one state of one page: `?state=chat-code&appearance=dark&lang=de&platform=linux`. */
import "./clear";
import "../style/base.css";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { bench } from "./bench";
import { modelsStates } from "./models-states";
import { promptStates } from "./prompt-states";
import { settingsStates } from "./settings-states";
import { states, type ChatState } from "./states";
import { claim, wait } from "./steps";
import { showZoomed, zoomedStates } from "./zoomed-states";

const query = new URLSearchParams(location.search);
const target = document.getElementById("app")!;

async function open(): Promise<void> {
  const name = query.get("state") ?? "chat-empty";
  const ipc = new FakeIpc();
  useIpc(ipc);
  const appearance = query.get("appearance");
  const { general } = await ipc.settings();
  ipc.setSettings({ general: { ...general, language: query.get("lang") ?? "en",
    appearance: appearance === "light" || appearance === "dark" ? appearance : "system" } });
  const platform = query.get("platform");
  if (platform) ipc.aboutView = { ...ipc.aboutView, platform };
  const zoomed = zoomedStates[name];
  if (query.has("bench")) await bench(ipc, query, target);
  else if (zoomed) await showZoomed(zoomed.of, query, target);
  else await show(name, ipc);
  await document.fonts.ready;
  await wait(400);
  document.documentElement.dataset.ready = "yes";
}

async function show(name: string, ipc: FakeIpc): Promise<void> {
  const chat = states[name];
  const other = { ...promptStates, ...modelsStates, ...settingsStates }[name];
  const state = chat ?? other;
  if (!state) throw new Error(`there is no state ${name}`);
  if (chat) await showChat(chat, ipc);
  else await other?.show(ipc, target);
  await claim(name, state.shows);
}

async function showChat(state: ChatState, ipc: FakeIpc): Promise<void> {
  state.set?.(ipc);
  const { openChat } = await import("../chat/open");
  const chat = await openChat(target);
  const last = [...ipc.tree.conversations.keys()].at(-1);
  if (last !== undefined) chat.open(last);
  await wait(120);
  await state.after?.(ipc);
}

open().catch((error: unknown) => {
  document.documentElement.dataset.wrong = String(error);
});
