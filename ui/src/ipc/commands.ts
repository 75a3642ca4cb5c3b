/**
 * All commands that pages may call. `fake.ts` replaces them in tests and in the gallery. Names and
 * arguments are those of `src-tauri/src/commands`; a Rust test compares the names. A command that
 * fails rejects with a `CommandError`.
 */
import { Channel, invoke } from "@tauri-apps/api/core";
import { getCurrentWebviewWindow } from "@tauri-apps/api/webviewWindow";
import type {
  AboutView, AttachedText, BenchmarkFormat, BenchmarksView, StartedTurn, CatalogView, ConversationId, ConversationSettings, DownloadChange,
  DownloadView, Draft, DraftRoute, EntryView, FileFormat, FileSource, FitView, FoundConversation, HotkeyView, HubAccessView,
  ApiSetupView, LocalApiView,
  MessageId, MessageView, ModelOffer, ModelSettings, ModelView, AppEvent, OpenedConversation, Route, Settings, StatusView,
  TextSource, CapturedText,
  TierView, Update, UpdatesView, Window, ZoomStep,
} from "./bindings";

export type Unsubscribe = () => void;

/** A JSON merge patch (RFC 7396): `null` resets a field to its default. */
export type Patch<T> = { [K in keyof T]?: T[K] extends object ? Patch<T[K]> | null : T[K] | null };

type ModelPath = "folder" | "file";

/** The current model with its own settings. */
export const NO_SETTINGS: ConversationSettings = {
  model: null, instructions: null, temperature: null, context_length: null, thinking: null, overflow: "drop_oldest",
};

/** Listeners that are being registered. */
const registrations = new Set<Promise<unknown>>();

function onEvent(listener: (event: AppEvent) => void): Unsubscribe {
  let isStopped = false;
  const registration = getCurrentWebviewWindow().listen<AppEvent>("app-event", (event) => {
    if (!isStopped) listener(event.payload);
  });
  registrations.add(registration);
  void registration.finally(() => registrations.delete(registration));
  return () => {
    isStopped = true;
    void registration.then((unlisten) => unlisten());
  };
}

/** Gets the updates of a follower that `start` begins on the channel. */
async function following<T>(
  onUpdate: (update: T) => void, start: (updates: Channel<T>) => Promise<number>,
): Promise<Unsubscribe> {
  let isStopped = false;
  const follower = await start(new Channel<T>((update) => {
    if (!isStopped) onUpdate(update);
  }));
  return () => {
    if (isStopped) return;
    isStopped = true;
    void invoke("unfollow", { follower });
  };
}

export const commands = {
  // Conversations
  /**
   * The archived ones or all others, pinned first, then newest first; with `search`, all that match,
   * best match first.
   */
  conversations: (search: string, isArchived: boolean, offset: number, limit: number) =>
    invoke<FoundConversation[]>("conversations", { search, isArchived, offset, limit }),
  /** The settings, and the visible path, first message first. */
  openConversation: (id: ConversationId) => invoke<OpenedConversation>("open_conversation", { id }),
  /** Changes settings of a conversation, which count from the next response. */
  setConversationSettings: (id: ConversationId, patch: Partial<ConversationSettings>) =>
    invoke<void>("set_conversation_settings", { id, patch }),
  /** Messages with their blocks; unknown ids are left out. */
  messages: (ids: MessageId[]) => invoke<MessageView[]>("messages", { ids }),
  renameConversation: (id: ConversationId, title: string) => invoke<void>("rename_conversation", { id, title }),
  pinConversation: (id: ConversationId, isPinned: boolean) => invoke<void>("pin_conversation", { id, isPinned }),
  /** Moves a conversation to the archive or back to the list. A new message moves it back as well. */
  archiveConversation: (id: ConversationId, isArchived: boolean) =>
    invoke<void>("archive_conversation", { id, isArchived }),
  /** Deletes after some seconds. The page hides it; the event `deleted` tells the end. */
  deleteConversation: (id: ConversationId) => invoke<void>("delete_conversation", { id }),
  /** Keeps a conversation whose deletion is not finished. */
  restoreConversation: (id: ConversationId) => invoke<void>("restore_conversation", { id }),
  /** Finishes the deletion now. */
  finishDeletion: () => invoke<void>("finish_deletion"),
  /** Deletes all versions of a question and all responses to them. */
  deleteExchange: (question: MessageId) => invoke<void>("delete_exchange", { question }),
  duplicateConversation: (id: ConversationId, title: string) => invoke<void>("duplicate_conversation", { id, title }),
  /** Copies the visible path as Markdown. */
  copyConversation: (id: ConversationId) => invoke<void>("copy_conversation", { id }),
  /** Deletes all temporary conversations. */
  discardTemporary: () => invoke<void>("discard_temporary"),
  clearHistory: () => invoke<void>("clear_history"),
  /** Shows the branch that contains `message`. */
  showBranch: (message: MessageId) => invoke<void>("show_branch", { message }),
  /**
   * Asks for a file and writes it. Resolves to the path, or null if the user cancels. `id` null:
   * all conversations, as JSON.
   */
  exportConversation: (id: ConversationId | null, format: FileFormat) =>
    invoke<string | null>("export_conversation", { id, format }),
  /** Asks for a file. Resolves to the number of imported conversations, or null if the user cancels. */
  importConversations: () => invoke<number | null>("import_conversations"),

  // Turns
  /**
   * `conversation` null creates one with these settings, which is never written to the disk if it is
   * temporary. `containedTokens`: the tokens of attached text that `text` contains.
   */
  ask: (
    conversation: ConversationId | null, text: string, attachments: AttachedText[], overBudget: boolean,
    isTemporary = false, settings: ConversationSettings = NO_SETTINGS, route: Route | null = null, containedTokens = 0,
  ) => invoke<StartedTurn>("ask", {
    conversation, text, attachments, overBudget, isTemporary, settings, route, containedTokens,
  }),
  /** The route of a message that is being written, and what its request may contain. */
  route: (draft: Draft) => invoke<DraftRoute>("route", { draft }),
  /**
   * Answers the same question again; the old response stays as a sibling. `model` is the id of a
   * model for this response only, null the one of the conversation. `route`: null keeps the one of the
   * old response.
   */
  regenerate: (answer: MessageId, overBudget: boolean, model: string | null = null, route: Route | null = null) =>
    invoke<StartedTurn>("regenerate", { answer, overBudget, model, route }),
  /** Adds text to a response that ended too early. */
  continueAnswer: (answer: MessageId, overBudget: boolean) =>
    invoke<StartedTurn>("continue_answer", { answer, overBudget }),
  /** Adds a new version of a user message, and a response to it. */
  editMessage: (message: MessageId, text: string, route: Route | null = null) =>
    invoke<StartedTurn>("edit_message", { message, text, route }),
  /** Replaces the text of a response. */
  editAnswer: (answer: MessageId, text: string) => invoke<void>("edit_answer", { answer, text }),
  /** Writes a summary of all messages up to `message` in the background. Opening the conversation returns it. */
  summarize: (message: MessageId) => invoke<void>("summarize", { message }),
  /** Replaces the summary of all messages up to `message`; an empty text removes it. */
  setSummary: (message: MessageId, text: string) => invoke<void>("set_summary", { message, text }),
  stop: (answer: MessageId) => invoke<void>("stop", { answer }),
  /** Sends a snapshot first, then updates until `ended`. */
  follow: (answer: MessageId, onUpdate: (update: Update) => void) =>
    following(onUpdate, (updates) => invoke<number>("follow", { answer, updates })),

  // Models
  models: () => invoke<ModelView[]>("models"),
  chooseModel: (id: string) => invoke<void>("choose_model", { id }),
  /** An installed model that suits a task better than `model`, the id of the one that would respond; once. */
  modelOffer: (route: Route, model: string, settings: ConversationSettings) =>
    invoke<ModelOffer | null>("model_offer", { route, model, settings }),
  /** For a model with settings that are not saved yet. */
  fit: (id: string, settings: ModelSettings) => invoke<FitView>("fit", { id, settings }),
  /** Asks for a folder or a GGUF file. Null if the user cancels. */
  addModel: (kind: ModelPath) => invoke<ModelView | null>("add_model", { kind }),
  /** Removes an added model from the list; deletes nothing. */
  forgetModel: (id: string) => invoke<void>("forget_model", { id }),
  /** Deletes the files of a model in our models folder. Resolves to the bytes that were freed. */
  removeModel: (id: string) => invoke<number>("remove_model", { id }),
  /** Loads the model that a conversation with these settings uses. */
  loadModel: (conversation: ConversationSettings) => invoke<void>("load_model", { conversation }),
  /** Unloads every model and stops running responses. */
  eject: () => invoke<void>("eject"),
  pause: (isPaused: boolean) => invoke<void>("pause", { isPaused }),

  // Models to download
  catalog: () => invoke<CatalogView>("catalog"),
  /** Recommendations by memory size, smallest first, with this computer marked. */
  tiers: () => invoke<TierView[]>("tiers"),
  searchHub: (words: string) => invoke<EntryView[]>("search_hub", { words }),
  /** Returns a repository of the hub with its variants. */
  hubEntry: (repository: string) => invoke<EntryView>("hub_entry", { repository }),
  /** Starts to download the variant with this key; has no effect if it is already downloading. */
  install: (variant: string) => invoke<void>("install", { variant }),
  downloads: () => invoke<DownloadView[]>("downloads"),
  changeDownload: (id: number, change: DownloadChange) => invoke<void>("change_download", { id, change }),
  hubAccess: () => invoke<HubAccessView>("hub_access"),
  /** Stores a token in the keychain; null removes it. It is never returned. */
  setHubToken: (token: string | null) => invoke<HubAccessView>("set_hub_token", { token }),
  /** Null: the default hub. */
  setHubEndpoint: (endpoint: string | null) => invoke<HubAccessView>("set_hub_endpoint", { endpoint }),

  // Benchmarks
  /** The last results, and the benchmark that runs. */
  benchmarks: () => invoke<BenchmarksView>("benchmarks"),
  /** Measures the speed of a model, for some minutes in each engine. Resolves at the end. */
  runBenchmark: (id: string, minutes: number) => invoke<void>("run_benchmark", { id, minutes }),
  /** Ends the benchmark with the result so far. */
  stopBenchmark: () => invoke<void>("stop_benchmark"),
  /** Asks for a file and writes a result. Resolves to the path, or null if the user cancels. */
  exportBenchmark: (key: string, format: BenchmarkFormat) =>
    invoke<string | null>("export_benchmark", { key, format }),

  // The local API
  /** Sends what it does now, and each change. */
  followLocalApi: (onUpdate: (view: LocalApiView) => void) =>
    following(onUpdate, (updates) => invoke<number>("follow_local_api", { updates })),
  /** Creates a key with this name, or without one the first key. Null: there is a key already. */
  addApiKey: (name: string | null) => invoke<string | null>("add_api_key", { name }),
  revokeApiKey: (name: string) => invoke<void>("revoke_api_key", { name }),
  /** The lines that set up other programs. */
  apiSetups: () => invoke<ApiSetupView[]>("api_setups"),

  // Updates of the app. Their progress comes as events.
  updates: () => invoke<UpdatesView>("updates"),
  /** Asks the server now, also if regular checks are off. */
  checkForUpdate: () => invoke<void>("check_for_update"),
  downloadUpdate: () => invoke<void>("download_update"),
  /** Waits for running responses, installs what was downloaded, and starts the app again. */
  installUpdate: () => invoke<void>("install_update"),
  /** Ends a download, or an installation that still waits. */
  cancelUpdate: () => invoke<void>("cancel_update"),

  // The app
  status: () => invoke<StatusView>("status"),
  settings: () => invoke<Settings>("settings"),
  updateSettings: (patch: Patch<Settings>) => invoke<Settings>("update_settings", { patch }),
  /** Registers `shortcut` in place of the old one, which stays if that fails. Empty: none. */
  setHotkey: (shortcut: string) => invoke<HotkeyView>("set_hotkey", { shortcut }),
  /** While the recorder listens, the shortcut must reach the page. */
  recordHotkey: (isRecording: boolean) => invoke<void>("record_hotkey", { isRecording }),
  /** The selection is the one at the last press of the quick prompt's shortcut. */
  captureText: (source: TextSource) => invoke<CapturedText>("capture_text", { source }),
  /** Reads documents; the event `document` brings each. Resolves when all are read. */
  attachFiles: (source: FileSource) => invoke<void>("attach_files", { source }),
  /**
   * Hides the quick prompt, and puts a text into the program that it was called from: in place of
   * the selected text, or after it.
   */
  insertText: (text: string, replaces: boolean) => invoke<void>("insert_text", { text, replaces }),
  copy: (text: string) => invoke<void>("copy", { text }),
  /** Opens an https, http or mailto URL outside of the app. The page must have shown it to the user. */
  openLink: (url: string) => invoke<void>("open_link", { url }),
  about: () => invoke<AboutView>("about"),
  licenses: () => invoke<string>("licenses"),
  /** Asks for a file and writes a report without private text. Null if the user cancels. */
  saveDiagnostics: () => invoke<string | null>("save_diagnostics"),
  openDataFolder: () => invoke<void>("open_data_folder"),
  showWindow: (window: Window, conversation: ConversationId | null, pane: string | null) =>
    invoke<void>("show_window", { window, conversation, pane }),
  /** Requests this height for the quick prompt, in pixels of its page. The app keeps it on the screen. */
  fitPrompt: (height: number) => invoke<void>("fit_prompt", { height }),
  /** Changes the zoom of all pages. */
  zoom: (step: ZoomStep) => invoke<void>("zoom", { step }),
  /**
   * Opens the system's dialog that prints the page or saves it as PDF. The window stays open until
   * the call with `false`.
   */
  printPage: (isPrinting: boolean) => invoke<void>("print_page", { isPrinting }),
  /** Hides the calling window and restores the focus. */
  hideWindow: () => invoke<void>("hide_window"),
  /** The page is drawn and accepts keys. */
  pageReady: () => invoke<void>("page_ready"),
  onEvent,
  /** Resolves when the listeners of `onEvent` get events. */
  listening: async (): Promise<void> => {
    await Promise.all(registrations);
  },
};

/** The app as pages see it. */
export type Ipc = typeof commands;
