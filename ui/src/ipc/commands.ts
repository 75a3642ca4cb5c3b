/**
 * The commands of the app, one line each, in the order of `api.ts`. A Rust test compares the names
 * called here with those of the app.
 */
import { Channel, invoke } from "@tauri-apps/api/core";
import { getCurrentWebviewWindow } from "@tauri-apps/api/webviewWindow";
import type { Ipc, Unsubscribe } from "./api";
import type { AppEvent, Update } from "./bindings";

/** Listeners that are being registered. The page is not ready before they are. */
const registrations = new Set<Promise<unknown>>();

function onEvent(listener: (event: AppEvent) => void): Unsubscribe {
  let isStopped = false;
  const listening = getCurrentWebviewWindow().listen<AppEvent>("app-event", (event) => {
    if (!isStopped) listener(event.payload);
  });
  registrations.add(listening);
  void listening.finally(() => registrations.delete(listening));
  return () => {
    isStopped = true;
    void listening.then((unlisten) => unlisten());
  };
}

async function follow(answer: number, onUpdate: (update: Update) => void): Promise<Unsubscribe> {
  let isStopped = false;
  const updates = new Channel<Update>((update) => {
    if (!isStopped) onUpdate(update);
  });
  const follower = await invoke<number>("follow", { answer, updates });
  return () => {
    if (isStopped) return;
    isStopped = true;
    void invoke("unfollow", { follower });
  };
}

export const commands: Ipc = {
  conversations: (search, offset, limit) => invoke("conversations", { search, offset, limit }),
  openConversation: (id) => invoke("open_conversation", { id }),
  messages: (ids) => invoke("messages", { ids }),
  renameConversation: (id, title) => invoke("rename_conversation", { id, title }),
  pinConversation: (id, isPinned) => invoke("pin_conversation", { id, isPinned }),
  deleteConversation: (id) => invoke("delete_conversation", { id }),
  clearHistory: () => invoke("clear_history"),
  showBranch: (message) => invoke("show_branch", { message }),
  exportConversation: (id, format) => invoke("export_conversation", { id, format }),
  importConversations: () => invoke("import_conversations"),

  ask: (conversation, text, attachment, overBudget) =>
    invoke("ask", { conversation, text, attachment, overBudget }),
  regenerate: (answer, overBudget) => invoke("regenerate", { answer, overBudget }),
  editMessage: (message, text) => invoke("edit_message", { message, text }),
  stop: (answer) => invoke("stop", { answer }),
  follow,

  models: () => invoke("models"),
  chooseModel: (id) => invoke("choose_model", { id }),
  fit: (id, settings) => invoke("fit", { id, settings }),
  addModel: (kind) => invoke("add_model", { kind }),
  forgetModel: (id) => invoke("forget_model", { id }),
  removeModel: (id) => invoke("remove_model", { id }),
  loadModel: () => invoke("load_model"),
  eject: () => invoke("eject"),
  pause: (isPaused) => invoke("pause", { isPaused }),

  catalog: () => invoke("catalog"),
  tiers: () => invoke("tiers"),
  searchHub: (words) => invoke("search_hub", { words }),
  hubEntry: (repository) => invoke("hub_entry", { repository }),
  install: (variant) => invoke("install", { variant }),
  downloads: () => invoke("downloads"),
  changeDownload: (id, change) => invoke("change_download", { id, change }),
  hubAccess: () => invoke("hub_access"),
  setHubToken: (token) => invoke("set_hub_token", { token }),
  setHubEndpoint: (endpoint) => invoke("set_hub_endpoint", { endpoint }),

  status: () => invoke("status"),
  settings: () => invoke("settings"),
  updateSettings: (patch) => invoke("update_settings", { patch }),
  setHotkey: (shortcut) => invoke("set_hotkey", { shortcut }),
  recordHotkey: (isRecording) => invoke("record_hotkey", { isRecording }),
  captureText: (source) => invoke("capture_text", { source }),
  copy: (text) => invoke("copy", { text }),
  openLink: (url) => invoke("open_link", { url }),
  about: () => invoke("about"),
  licenses: () => invoke("licenses"),
  saveDiagnostics: () => invoke("save_diagnostics"),
  openDataFolder: () => invoke("open_data_folder"),
  showWindow: (window, conversation, pane) =>
    invoke("show_window", { window, conversation, pane }),
  fitPrompt: (height) => invoke("fit_prompt", { height }),
  hideWindow: () => invoke("hide_window"),
  pageReady: async () => {
    await Promise.all(registrations);
    await invoke("page_ready");
  },
  onEvent,
};
