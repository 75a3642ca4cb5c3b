/**
 * Every command that pages may call. `commands.ts` calls the app, `fake.ts` stands in for it in
 * tests and in the gallery of states. Names and arguments are those of `src-tauri/src/commands`;
 * a command that is refused rejects with a `Refusal`.
 */
import type {
  AboutView, Begun, CatalogueView, Conversation, ConversationId, DownloadChange, DownloadView,
  EntryView, FileFormat, FitView, FoundConversation, HotkeyView, HubAccessView, MessageHead,
  MessageId, MessageView, ModelSettings, ModelView, News, Settings, StatusView, TakenFrom, TakenText,
  TierView, Update, Window,
} from "./bindings";

/** Stops the flow that the call began. */
export type Unsubscribe = () => void;

/** A JSON merge patch (RFC 7396): `null` sets a field back to its default. */
export type Patch<T> = { [K in keyof T]?: T[K] extends object ? Patch<T[K]> | null : T[K] | null };

export interface Ipc {
  // Conversations
  /** Newest first, pinned ones before; with `search`, best first. */
  conversations(search: string, offset: number, limit: number): Promise<FoundConversation[]>;
  /** The path that is shown, first message first. */
  openConversation(id: ConversationId): Promise<{ conversation: Conversation; messages: MessageHead[] }>;
  /** Messages with their blocks; unknown ids are left out. */
  messages(ids: MessageId[]): Promise<MessageView[]>;
  renameConversation(id: ConversationId, title: string): Promise<void>;
  pinConversation(id: ConversationId, isPinned: boolean): Promise<void>;
  deleteConversation(id: ConversationId): Promise<void>;
  clearHistory(): Promise<void>;
  /** Shows the branch that `message` is on. */
  showBranch(message: MessageId): Promise<void>;
  /** Asks where to, and writes; resolves to the path, or null if the person gave up. `id` null: all, as JSON. */
  exportConversation(id: ConversationId | null, format: FileFormat): Promise<string | null>;
  /** Asks for a file; resolves to how many conversations came, or null if the person gave up. */
  importConversations(): Promise<number | null>;

  // Turns
  /** `conversation` null begins one. `model` null: the chosen one. */
  ask(conversation: ConversationId | null, text: string, attachment: string, insist: boolean): Promise<Begun>;
  /** The same question again; the old answer stays as a sibling. */
  regenerate(answer: MessageId, insist: boolean): Promise<Begun>;
  /** A new version of a person's message, and an answer to it. */
  editMessage(message: MessageId, text: string): Promise<Begun>;
  stop(answer: MessageId): Promise<void>;
  /** A snapshot first, then news until `ended`. */
  follow(answer: MessageId, onUpdate: (update: Update) => void): Promise<Unsubscribe>;

  // Models
  models(): Promise<ModelView[]>;
  chooseModel(id: string): Promise<void>;
  /** For a model with settings that are tried, not yet set. */
  fit(id: string, settings: ModelSettings): Promise<FitView>;
  /** Asks for a folder or a GGUF file. Null if the person gave up. */
  addModel(kind: "folder" | "file"): Promise<ModelView | null>;
  /** Takes an added model off the list; deletes nothing. */
  forgetModel(id: string): Promise<void>;
  /** Deletes the files of a model in our models folder; resolves to the bytes that became free. */
  removeModel(id: string): Promise<number>;
  /** Loads the chosen model now. */
  loadModel(): Promise<void>;
  /** Unloads every model, ending what runs. */
  eject(): Promise<void>;
  pause(isPaused: boolean): Promise<void>;

  // Models that can be had
  catalogue(): Promise<CatalogueView>;
  /** What is recommended for computers of every size, smallest memory first, this one marked. */
  tiers(): Promise<TierView[]>;
  /** Asks the hub, over the network. */
  searchHub(words: string): Promise<EntryView[]>;
  /** What the hub has of one repository, with its variants. */
  hubEntry(repository: string): Promise<EntryView>;
  /** Begins to fetch the variant of this key; nothing happens if it is being fetched already. */
  install(variant: string): Promise<void>;
  downloads(): Promise<DownloadView[]>;
  changeDownload(id: number, change: DownloadChange): Promise<void>;
  hubAccess(): Promise<HubAccessView>;
  /** Puts a token into the keychain; null takes it out. It is never given back. */
  setHubToken(token: string | null): Promise<HubAccessView>;
  /** Null: the usual hub. */
  setHubEndpoint(endpoint: string | null): Promise<HubAccessView>;

  // The app
  status(): Promise<StatusView>;
  settings(): Promise<Settings>;
  updateSettings(patch: Patch<Settings>): Promise<Settings>;
  /** Registers `shortcut` in place of the old one, which stays if it fails. Empty: none. */
  setHotkey(shortcut: string): Promise<HotkeyView>;
  /** While the recorder listens the shortcut must reach the page. */
  recordHotkey(isRecording: boolean): Promise<void>;
  take(source: TakenFrom): Promise<TakenText>;
  copy(text: string): Promise<void>;
  /** Opens an https, http or mailto address outside, after the page has shown it. */
  openLink(url: string): Promise<void>;
  about(): Promise<AboutView>;
  licences(): Promise<string>;
  /** Asks where to, and writes a file without private text; null if the person gave up. */
  saveDiagnostics(): Promise<string | null>;
  openDataFolder(): Promise<void>;
  showWindow(window: Window, conversation: ConversationId | null, pane: string | null): Promise<void>;
  /** The quick prompt needs a height of so many points; the app sees that it stays on the screen. */
  fitPrompt(height: number): Promise<void>;
  /** Hides the calling window, and gives focus back to where it was. */
  hideWindow(): Promise<void>;
  /** The page is drawn and takes keys. */
  pageReady(): Promise<void>;
  onNews(listener: (news: News) => void): Unsubscribe;
}
