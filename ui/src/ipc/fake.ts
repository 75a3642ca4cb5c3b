/**
 * A fake of the app in memory, for tests and for the gallery. It behaves like the real one, but
 * responses come from `script`, and the disk, the models and the machine are invented.
 *
 * `refuse` makes the next call of a name fail; `calls` lists all calls.
 */
import { commands, NO_SETTINGS, type Ipc } from "./commands";
import type {
  AboutView, AttachedText, BenchmarksView, StartedTurn, Conversation, FoundConversation, MessageId, MessageView,
  ModelOffer, ModelView, AppEvent, CommandError, DocumentView, LocalApiView, Route, Settings, StatusView, SummaryView, CapturedText,
  UpdatesView,
} from "./bindings";
import { apiClient, localApi, newKey, setups, stateFor } from "./fake/local-api";
import { found, hubEntry } from "./fake/catalog";
import * as defaults from "./fake/defaults";
import { Player, type Script } from "./fake/player";
import { DownloadQueue } from "./fake/download-queue";
import { blocks, pieces } from "./fake/text";
import { update, upToDate } from "./fake/updates";
import { Tree } from "./fake/tree";

export type { Script } from "./fake/player";
export { pieces } from "./fake/text";

const reply =
  "Here is a thought. A small model on your own computer answers at once and keeps what you say to itself.\n\nAsk it anything: it will do its best, and it will not tell.";

export class FakeIpc implements Ipc {
  tree = new Tree();
  players = new Map<MessageId, Player>();
  calls: { name: string; values: unknown[] }[] = [];
  copied: string[] = [];
  /** The route of every message. */
  routed: Route = "chat";
  /** Its limits, without that for attached text. */
  limits = { earlier_messages: null as number | null, response_tokens: null as number | null };
  /** The model that is offered for every task. */
  offered: ModelOffer | null = null;
  opened: string[] = [];
  captured: CapturedText = { source: "clipboard", text: "" };
  script: Script = { answer: pieces(reply), rate: 60 };
  /** The summaries that the model writes; null: it never ends. */
  summary: string | null = "They talked about light.";
  /** The results of file dialogs; null: the user cancels. */
  chosenFile: string | null = "~/Desktop/chat.md";
  /** The documents that the user chooses or has copied; without a result, they are being read. */
  files: { name: string; read?: DocumentView }[] = [];
  updatesView: UpdatesView = upToDate();
  downloadQueue = new DownloadQueue((event) => this.emit(event));

  /** What the local API does. Without a fixed `state`, the one that the settings ask for. */
  localApi: Omit<LocalApiView, "state"> & { state?: LocalApiView["state"] } = { ...localApi(), state: undefined };

  apiFollowers = new Set<(view: LocalApiView) => void>();
  benchmarksView: BenchmarksView = { results: [], running: null };
  private lastFile = 0;
  private listeners = new Set<(event: AppEvent) => void>();
  private errors = new Map<string, CommandError>();
  /** The conversation that will be deleted, which needs `finishDeletion` here. */
  private deleting: number | null = null;
  private temporary = new Set<number>();
  private now: StatusView = defaults.status();
  private chosen: Settings = defaults.settings();
  private list: ModelView[] = defaults.models();
  aboutView: AboutView = defaults.about();

  constructor() {
    for (const name of Object.keys(commands) as (keyof Ipc)[]) {
      if (name !== "onEvent") this.record(name);
    }
  }

  /** Adds the calls of a command to `calls`, and makes the next one fail after `refuse`. */
  private record(name: keyof Ipc): void {
    const run: (...values: never[]) => unknown = this[name];
    const recorded = (...values: never[]) => {
      this.calls.push({ name, values });
      const error = this.errors.get(name);
      this.errors.delete(name);
      return error ? Promise.reject(error) : run.apply(this, values);
    };
    Object.assign(this, { [name]: recorded });
  }

  // Methods for tests and states.

  refuse(name: keyof Ipc, error: CommandError): void {
    this.errors.set(name, error);
  }

  emit(event: AppEvent): void {
    for (const listener of [...this.listeners]) listener(event);
  }

  setStatus(change: Partial<StatusView>): void {
    this.now = { ...this.now, ...change };
    this.emit({ event: "status", status: this.now });
  }

  setSettings(change: Partial<Settings>): void {
    this.chosen = { ...this.chosen, ...change };
    this.emit({ event: "settings", settings: this.chosen });
    this.setLocalApi({});
  }

  setLocalApi(change: Partial<LocalApiView>): void {
    this.localApi = { ...this.localApi, ...change };
    const view = { ...this.localApi, state: this.localApi.state ?? stateFor(this.chosen) };
    for (const follower of this.apiFollowers) follower(view);
  }

  setBenchmarks(change: Partial<BenchmarksView>): void {
    this.benchmarksView = { ...this.benchmarksView, ...change };
    this.emit({ event: "benchmark", running: this.benchmarksView.running });
  }

  setUpdates(change: Partial<UpdatesView>): void {
    this.updatesView = { ...this.updatesView, ...change };
    this.emit({ event: "updates", updates: this.updatesView });
  }

  get shown(): ModelView[] {
    return this.list;
  }

  setModels(models: ModelView[]): void {
    this.list = models;
    this.emit({ event: "models" });
  }

  /** A conversation with alternating messages, the user's first. */
  addConversation(title: string, texts: (string | Partial<MessageView>)[], ageHours = 0): Conversation {
    const at = Date.now() - ageHours * 3_600_000;
    const conversation = this.tree.begin(title, at);
    texts.forEach((one, index) => {
      const more = typeof one === "string" ? { text: one } : one;
      const speaker = more.speaker ?? (index % 2 === 0 ? "user" : "assistant");
      this.tree.add(conversation.id, this.tree.leaf(conversation.id), speaker, {
        blocks: blocks(pieces(more.text ?? "")), created_at: at, ...more,
      });
    });
    conversation.n_messages = texts.length;
    return conversation;
  }

  player(): Player {
    const last = [...this.players.values()].at(-1);
    if (!last) throw new Error("no response was started");
    return last;
  }

  private conversation(id: number): Conversation {
    return known(this.tree.conversations.get(id));
  }

  private change(id: number, change: Partial<Conversation>): void {
    this.tree.conversations.set(id, { ...this.conversation(id), ...change });
    this.emit({ event: "conversations" });
  }

  /** Changes a summary, as the model does. */
  changeSummary(last: MessageId, change: Partial<SummaryView>): void {
    this.tree.changeSummary(last, change);
    this.emit({ event: "conversations" });
  }

  private question(conversation: number, parent: MessageId | null, text: string, attachments: AttachedText[]): StartedTurn {
    const { id } = this.tree.add(conversation, parent, "user", { text, attachments, blocks: blocks(pieces(text)) });
    return this.begin(conversation, id, id);
  }

  private begin(conversation: number, parent: MessageId, question: MessageId | null): StartedTurn {
    const message = this.tree.add(conversation, parent, "assistant", { ending: { ending: "writing" } });
    return this.play(message, this.script, question);
  }

  private play(message: MessageView, script: Script, question: MessageId | null): StartedTurn {
    const { conversation, id } = message;
    const player = new Player(message, script);
    this.players.set(id, player);
    player.play();
    this.change(conversation, { updated_at: Date.now(), is_archived: false, n_messages: this.tree.path(conversation).length });
    return { conversation, question, answer: id };
  }

  // Conversations

  async conversations(search: string, isArchived: boolean, offset: number, limit: number) {
    limit = Math.min(limit, 500);
    const found: FoundConversation[] = [];
    const words = search.trim().toLowerCase();
    for (const conversation of this.tree.conversations.values()) {
      if (this.temporary.has(conversation.id)) continue;
      if (!words && conversation.is_archived !== isArchived) continue;
      const inTitle = conversation.title.toLowerCase().includes(words);
      const message = inTitle || !words ? undefined : [...this.tree.messages.values()].find(
        ({ view }) => view.conversation === conversation.id && view.text.toLowerCase().includes(words),
      );
      if (!inTitle && !message) continue;
      const text = (message?.view.text ?? "").replace(/[*_`]/g, "");
      const at = text.toLowerCase().indexOf(words);
      const snippet: FoundConversation["snippet"] = message ? { message: message.view.id, pieces: [
        [`${at > 30 ? "…" : ""}${text.slice(Math.max(0, at - 30), at)}`, false],
        [text.slice(at, at + words.length), true],
        [`${text.slice(at + words.length, at + 70)}…`, false],
      ] } : null;
      found.push({ conversation, snippet });
    }
    found.sort((a, b) => Number(b.conversation.is_pinned) - Number(a.conversation.is_pinned) ||
      b.conversation.updated_at - a.conversation.updated_at);
    return found.slice(offset, offset + limit);
  }

  openConversation: Ipc["openConversation"] = async (id) =>
    ({ conversation: this.conversation(id), settings: known(this.tree.settings.get(id)), messages: this.tree.path(id),
      summaries: this.tree.summariesOf(id) });
  setConversationSettings: Ipc["setConversationSettings"] = async (id, patch) => {
    this.tree.settings.set(id, { ...known(this.tree.settings.get(id)), ...patch });
    this.emit({ event: "conversations" });
  };
  messages: Ipc["messages"] = async (ids) => ids.flatMap((id) => {
    const view = this.tree.messages.get(id)?.view;
    return view ? [{ ...view, blocks: [...view.blocks], reasoning: [...view.reasoning] }] : [];
  });
  renameConversation: Ipc["renameConversation"] = async (id, title) => this.change(id, { title });
  pinConversation: Ipc["pinConversation"] = async (id, isPinned) => this.change(id, { is_pinned: isPinned });
  archiveConversation: Ipc["archiveConversation"] = async (id, isArchived) =>
    this.change(id, { is_archived: isArchived, ...(isArchived ? { is_pinned: false } : {}) });
  showBranch: Ipc["showBranch"] = async (message) => this.tree.show(message);
  exportConversation: Ipc["exportConversation"] = async () => this.chosenFile;

  async deleteConversation(id: number) {
    this.conversation(id);
    this.finish();
    this.deleting = id;
  }

  restoreConversation: Ipc["restoreConversation"] = async (id) => {
    known(this.deleting === id || null);
    this.deleting = null;
  };
  finishDeletion: Ipc["finishDeletion"] = async () => this.finish();

  deleteExchange: Ipc["deleteExchange"] = async (question) => {
    const { view } = known(this.tree.messages.get(question));
    this.tree.removeExchange(question);
    this.change(view.conversation, { n_messages: this.tree.path(view.conversation).length });
  };
  duplicateConversation: Ipc["duplicateConversation"] = async (id, title) => {
    const views = this.tree.path(id).map((head) => this.tree.messages.get(head.id)!.view);
    const copy = this.addConversation(title, views.map(({ speaker, text, blocks }) => ({ speaker, text, blocks })));
    this.tree.settings.set(copy.id, known(this.tree.settings.get(id)));
    this.emit({ event: "conversations" });
  };
  copyConversation: Ipc["copyConversation"] = async (id) => {
    const views = this.tree.path(id).map((head) => this.tree.messages.get(head.id)!.view);
    this.copied.push([`# ${this.conversation(id).title}`, ...views.map((view) => view.text)].join("\n\n"));
  };

  discardTemporary: Ipc["discardTemporary"] = async () => {
    for (const id of this.temporary) this.tree.remove(id);
    this.temporary.clear();
  };

  private finish(): void {
    const id = this.deleting;
    if (id === null) return;
    this.deleting = null;
    this.tree.remove(id);
    this.emit({ event: "deleted", id });
    this.emit({ event: "conversations" });
  }

  async clearHistory() {
    this.deleting = null;
    for (const id of [...this.tree.conversations.keys()]) this.tree.remove(id);
    this.emit({ event: "history_cleared" });
    this.emit({ event: "conversations" });
  }

  async importConversations() {
    if (this.chosenFile === null) return null;
    this.addConversation("Imported", ["A question", "An answer"]);
    this.emit({ event: "conversations" });
    return 1;
  }

  // Turns

  ask: Ipc["ask"] = async (id, text, attachments, _overBudget, isTemporary = false, settings = NO_SETTINGS) => {
    const conversation = id ?? this.tree.begin(text.split(/\s+/).slice(0, 6).join(" ")).id;
    const own = id === null ? settings : known(this.tree.settings.get(conversation));
    // A chat keeps the model of its first question.
    this.tree.settings.set(conversation, { ...own, model: own.model ?? this.chosen.model });
    if (id === null && isTemporary) this.temporary.add(conversation);
    return this.question(conversation, this.tree.leaf(conversation), text, attachments);
  };
  regenerate: Ipc["regenerate"] = async (answer, _overBudget, model = null) => {
    const { view, parent } = known(this.tree.messages.get(answer));
    const started = this.begin(view.conversation, known(parent), null);
    const other = this.list.find((one) => one.id === model);
    if (other) this.tree.messages.get(started.answer)!.view.model = other.name;
    return started;
  };
  continueAnswer: Ipc["continueAnswer"] = async (answer) => {
    const { view } = known(this.tree.messages.get(answer));
    view.ending = { ending: "writing" };
    const script = { ...this.script, reasoning: undefined, initialWords: view.text.trim().split(/\s+/).length };
    return this.play(view, { ...script, answer: [...pieces(view.text), ...script.answer] }, null);
  };
  editMessage: Ipc["editMessage"] = async (message, text) => {
    const { view, parent } = known(this.tree.messages.get(message));
    return this.question(view.conversation, parent, text, view.attachments);
  };
  editAnswer: Ipc["editAnswer"] = async (answer, text) => {
    const { view } = known(this.tree.messages.get(answer));
    Object.assign(view, { text, blocks: blocks(pieces(text)) });
    this.tree.removeStats(answer);
    this.emit({ event: "conversations" });
  };
  route: Ipc["route"] = async ({ route, context_length: length, attached_tokens: attached }) => {
    const shown = route ?? this.routed;
    const share = this.chosen.routes[shown]?.attached ??
      this.aboutView.routes.find(([name]) => name === shown)?.[1].attached ?? 1;
    const attached_tokens = length === null || share === 1 ? null : Math.floor(share * length);
    const is_attached_too_long = attached_tokens !== null && attached > attached_tokens;
    return { route: shown, limits: { ...this.limits, attached_tokens }, is_attached_too_long };
  };
  summarize: Ipc["summarize"] = async (message) => {
    this.changeSummary(message, { is_writing: true, failure: null });
    const text = this.summary;
    if (text !== null) setTimeout(() => this.changeSummary(message, written(text)));
  };
  setSummary: Ipc["setSummary"] = async (message, text) => {
    this.changeSummary(message, written(text));
  };
  stop: Ipc["stop"] = async (answer) => this.players.get(answer)?.end({ ending: "canceled" });
  follow: Ipc["follow"] = async (answer, onUpdate) => known(this.players.get(answer)).follow(onUpdate);

  // Models

  models: Ipc["models"] = async () => this.list;
  fit: Ipc["fit"] = async (id, chosen) => defaults.fit(known(this.list.find((one) => one.id === id)), chosen);
  forgetModel: Ipc["forgetModel"] = async (id) => this.setModels(this.list.filter((model) => model.id !== id));
  loadModel: Ipc["loadModel"] = async () => this.setStatus({ model: defaults.loaded(), last_unload: null });
  pause: Ipc["pause"] = async (isPaused) => this.setStatus(
    { is_paused: isPaused, held: isPaused ? "paused" : null, activity: isPaused ? "held" : "idle" });

  async chooseModel(id: string) {
    this.list = this.list.map((model) => ({ ...model, is_chosen: model.id === id }));
    this.setSettings({ model: id });
    this.emit({ event: "models" });
  }

  modelOffer: Ipc["modelOffer"] = async (_route, model) => this.offered?.id === model ? null : this.offered;

  addModel: Ipc["addModel"] = async () => {
    if (this.chosenFile === null) return null;
    const model = { ...defaults.models()[0]!, id: "/models/added", name: "Added model", is_chosen: false };
    this.setModels([...this.list, model]);
    return model;
  };

  async removeModel(id: string) {
    const gone = this.list.find((model) => model.id === id);
    this.setModels(this.list.filter((model) => model.id !== id));
    return gone?.size_bytes ?? 0;
  }

  async eject() {
    const gone = this.now.model;
    for (const player of this.players.values()) player.end({ ending: "canceled" });
    if (!gone) return;
    this.setStatus({ model: null, activity: "idle", in_use_bytes: 0,
      last_unload: { name: gone.name, held_bytes: gone.memory_bytes, was_idle: false } });
  }

  // Models to download

  catalog: Ipc["catalog"] = async () => this.downloadQueue.listed();
  tiers: Ipc["tiers"] = async () => this.downloadQueue.tiers;
  searchHub: Ipc["searchHub"] = async () => found();
  hubEntry: Ipc["hubEntry"] = async (repository) => hubEntry(repository);
  install: Ipc["install"] = async (variant) => this.downloadQueue.install(variant);
  downloads: Ipc["downloads"] = async () => this.downloadQueue.downloads;
  changeDownload: Ipc["changeDownload"] = async (id, change) => this.downloadQueue.change(id, change);
  hubAccess: Ipc["hubAccess"] = async () => this.downloadQueue.access;
  setHubToken: Ipc["setHubToken"] = async (token) =>
    this.downloadQueue.access = { ...this.downloadQueue.access, has_token: token !== null };
  setHubEndpoint: Ipc["setHubEndpoint"] = async (endpoint) =>
    this.downloadQueue.access = { ...this.downloadQueue.access,
      endpoint: endpoint ?? "https://huggingface.co", is_default_endpoint: endpoint === null };

  // Benchmarks

  benchmarks: Ipc["benchmarks"] = async () => this.benchmarksView;
  exportBenchmark: Ipc["exportBenchmark"] = async () => this.chosenFile;
  stopBenchmark: Ipc["stopBenchmark"] = async () => this.setBenchmarks({ running: null });
  runBenchmark: Ipc["runBenchmark"] = async (id, minutes) => {
    const { name } = known(this.list.find((one) => one.id === id));
    this.setBenchmarks({ running: { model: name, engine: null, seconds: 0, total_seconds: 60 * minutes } });
  };

  // The local API

  followLocalApi: Ipc["followLocalApi"] = async (onUpdate) => {
    this.apiFollowers.add(onUpdate);
    this.setLocalApi({});
    return () => this.apiFollowers.delete(onUpdate);
  };
  addApiKey: Ipc["addApiKey"] = async (name) => {
    if (name === null && this.localApi.clients.length > 0) return null;
    this.setLocalApi({ clients: [...this.localApi.clients, apiClient(name ?? "default")] });
    return newKey;
  };
  revokeApiKey: Ipc["revokeApiKey"] = async (name) =>
    this.setLocalApi({ clients: this.localApi.clients.filter((one) => one.name !== name) });
  apiSetups: Ipc["apiSetups"] = async () => setups(this.chosen.local_api.port ?? 11_535);

  // Updates of the app

  updates: Ipc["updates"] = async () => this.updatesView;
  checkForUpdate: Ipc["checkForUpdate"] = async () => this.setUpdates({ offer: update(), checked_at: Date.now() });
  downloadUpdate: Ipc["downloadUpdate"] = async () => this.setUpdates({ step: { step: "downloading", done_bytes: 0 } });
  installUpdate: Ipc["installUpdate"] = async () => this.setUpdates({ step: { step: "waiting" } });
  cancelUpdate: Ipc["cancelUpdate"] = async () => this.setUpdates({ step: { step: "idle" } });

  // The app

  status: Ipc["status"] = async () => this.now;
  settings: Ipc["settings"] = async () => this.chosen;
  updateSettings: Ipc["updateSettings"] = async (patch) => {
    const wasInWindow = this.chosen.general.chat_in_window;
    this.setSettings(merge(this.chosen, patch, defaults.settings()) as Settings);
    if (this.chosen.general.chat_in_window !== wasInWindow) this.emit({ event: "chat_form_changed" });
    return this.chosen;
  };
  setHotkey: Ipc["setHotkey"] = async (shortcut) =>
    this.aboutView.hotkey = { hotkey: "registered", shortcut };
  recordHotkey: Ipc["recordHotkey"] = async () => {};
  captureText: Ipc["captureText"] = async (source) => ({ ...this.captured, source });
  attachFiles: Ipc["attachFiles"] = async () => this.files.forEach(({ name, read }) => {
    const file = ++this.lastFile;
    this.emit({ event: "document", file, document: { state: "reading", name } });
    if (read) this.emit({ event: "document", file, document: read });
  });
  insertText: Ipc["insertText"] = async () => {};
  copy: Ipc["copy"] = async (text) => void this.copied.push(text);
  openLink: Ipc["openLink"] = async (url) => void this.opened.push(url);
  about: Ipc["about"] = async () => this.aboutView;
  licenses: Ipc["licenses"] = async () =>
    "MLX\n\nMIT License\n\nPermission is hereby granted, free of charge, …";
  saveDiagnostics: Ipc["saveDiagnostics"] = async () => this.chosenFile;
  openDataFolder: Ipc["openDataFolder"] = async () => {};
  showWindow: Ipc["showWindow"] = async () => {};
  fitPrompt: Ipc["fitPrompt"] = async () => {};
  zoom: Ipc["zoom"] = async () => {};
  printPage: Ipc["printPage"] = async () => {};
  hideWindow: Ipc["hideWindow"] = async () => {};
  pageReady: Ipc["pageReady"] = async () => {};
  listening: Ipc["listening"] = async () => {};

  onEvent(listener: (event: AppEvent) => void) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** A summary with this text. */
export function written(text: string): Partial<SummaryView> {
  return { text, blocks: blocks(pieces(text)), is_writing: false, failure: null };
}

/** Rejects a command whose object does not exist. */
function known<T>(found: T | null | undefined): T {
  if (found === null || found === undefined) throw { code: "not_found" } satisfies CommandError;
  return found;
}

/** RFC 7396: `null` resets to the default. */
function merge(value: unknown, patch: unknown, byDefault: unknown): unknown {
  if (patch === null) return byDefault ?? null;
  if (typeof patch !== "object" || Array.isArray(patch)) return patch;
  const merged: Record<string, unknown> = { ...(value as object | null) };
  for (const [key, change] of Object.entries(patch)) {
    const was = (byDefault as Record<string, unknown> | undefined)?.[key];
    merged[key] = merge(merged[key], change, was);
    if (merged[key] === null && was === undefined) delete merged[key];
  }
  return merged;
}
