/**
 * All commands that pages may call. `commands.ts` calls the app; `fake.ts` replaces it in tests and
 * in the gallery. Names and arguments are those of `src-tauri/src/commands`. A command that fails
 * rejects with a `CommandError`.
 */
import type {
  AboutView, StartedTurn, CatalogView, Conversation, ConversationId, DownloadChange, DownloadView,
  EntryView, FileFormat, FitView, FoundConversation, HotkeyView, HubAccessView, MessageHead,
  MessageId, MessageView, ModelSettings, ModelView, AppEvent, Settings, StatusView, TextSource, CapturedText,
  TierView, Update, Window,
} from "./bindings";

/** Stops following. */
export type Unsubscribe = () => void;

/** A JSON merge patch (RFC 7396): `null` resets a field to its default. */
export type Patch<T> = { [K in keyof T]?: T[K] extends object ? Patch<T[K]> | null : T[K] | null };

export interface Ipc {
  // Conversations
  /** Pinned first, then newest first; with `search`, best match first. */
  conversations(search: string, offset: number, limit: number): Promise<FoundConversation[]>;
  /** The visible path, first message first. */
  openConversation(id: ConversationId): Promise<{ conversation: Conversation; messages: MessageHead[] }>;
  /** Messages with their blocks; unknown ids are left out. */
  messages(ids: MessageId[]): Promise<MessageView[]>;
  renameConversation(id: ConversationId, title: string): Promise<void>;
  pinConversation(id: ConversationId, isPinned: boolean): Promise<void>;
  deleteConversation(id: ConversationId): Promise<void>;
  clearHistory(): Promise<void>;
  /** Shows the branch that contains `message`. */
  showBranch(message: MessageId): Promise<void>;
  /**
   * Asks for a file and writes it. Resolves to the path, or null if the user cancels. `id` null:
   * all conversations, as JSON.
   */
  exportConversation(id: ConversationId | null, format: FileFormat): Promise<string | null>;
  /** Asks for a file. Resolves to the number of imported conversations, or null if the user cancels. */
  importConversations(): Promise<number | null>;

  // Turns
  /** `conversation` null creates one. `model` null: the selected one. */
  ask(conversation: ConversationId | null, text: string, attachment: string, overBudget: boolean): Promise<StartedTurn>;
  /** Answers the same question again; the old response stays as a sibling. */
  regenerate(answer: MessageId, overBudget: boolean): Promise<StartedTurn>;
  /** Adds a new version of a user message, and a response to it. */
  editMessage(message: MessageId, text: string): Promise<StartedTurn>;
  stop(answer: MessageId): Promise<void>;
  /** Sends a snapshot first, then updates until `ended`. */
  follow(answer: MessageId, onUpdate: (update: Update) => void): Promise<Unsubscribe>;

  // Models
  models(): Promise<ModelView[]>;
  chooseModel(id: string): Promise<void>;
  /** For a model with settings that are not saved yet. */
  fit(id: string, settings: ModelSettings): Promise<FitView>;
  /** Asks for a folder or a GGUF file. Null if the user cancels. */
  addModel(kind: "folder" | "file"): Promise<ModelView | null>;
  /** Removes an added model from the list; deletes nothing. */
  forgetModel(id: string): Promise<void>;
  /** Deletes the files of a model in our models folder. Resolves to the bytes that were freed. */
  removeModel(id: string): Promise<number>;
  /** Loads the selected model now. */
  loadModel(): Promise<void>;
  /** Unloads every model and stops running responses. */
  eject(): Promise<void>;
  pause(isPaused: boolean): Promise<void>;

  // Models to download
  catalog(): Promise<CatalogView>;
  /** Recommendations by memory size, smallest first, with this computer marked. */
  tiers(): Promise<TierView[]>;
  /** Searches the hub over the network. */
  searchHub(words: string): Promise<EntryView[]>;
  /** Returns a repository of the hub with its variants. */
  hubEntry(repository: string): Promise<EntryView>;
  /** Starts to download the variant with this key; has no effect if it is already downloading. */
  install(variant: string): Promise<void>;
  downloads(): Promise<DownloadView[]>;
  changeDownload(id: number, change: DownloadChange): Promise<void>;
  hubAccess(): Promise<HubAccessView>;
  /** Stores a token in the keychain; null removes it. It is never returned. */
  setHubToken(token: string | null): Promise<HubAccessView>;
  /** Null: the default hub. */
  setHubEndpoint(endpoint: string | null): Promise<HubAccessView>;

  // The app
  status(): Promise<StatusView>;
  settings(): Promise<Settings>;
  updateSettings(patch: Patch<Settings>): Promise<Settings>;
  /** Registers `shortcut` in place of the old one, which stays if that fails. Empty: none. */
  setHotkey(shortcut: string): Promise<HotkeyView>;
  /** While the recorder listens, the shortcut must reach the page. */
  recordHotkey(isRecording: boolean): Promise<void>;
  captureText(source: TextSource): Promise<CapturedText>;
  copy(text: string): Promise<void>;
  /** Opens an https, http or mailto URL outside of the app. The page must have shown it to the user. */
  openLink(url: string): Promise<void>;
  about(): Promise<AboutView>;
  licenses(): Promise<string>;
  /** Asks for a file and writes a report without private text. Null if the user cancels. */
  saveDiagnostics(): Promise<string | null>;
  openDataFolder(): Promise<void>;
  showWindow(window: Window, conversation: ConversationId | null, pane: string | null): Promise<void>;
  /** Requests this height in points for the quick prompt. The app keeps it on the screen. */
  fitPrompt(height: number): Promise<void>;
  /** Hides the calling window and restores the focus. */
  hideWindow(): Promise<void>;
  /** The page is drawn and accepts keys. */
  pageReady(): Promise<void>;
  onEvent(listener: (event: AppEvent) => void): Unsubscribe;
}
