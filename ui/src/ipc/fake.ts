/**
 * A fake of the app in memory, for tests and for the gallery. It behaves like the real one, but
 * responses come from `script`, and the disk, the models and the machine are invented.
 *
 * `refuse` makes the next call of a name fail; `calls` lists all calls.
 */
import type { Ipc, Patch } from "./api";
import type {
  AboutView, StartedTurn, Conversation, DownloadChange, FoundConversation, MessageId, MessageView, ModelView, AppEvent,
  CommandError, Settings, StatusView, CapturedText,
} from "./bindings";
import { hubEntry } from "./fake/catalog";
import * as defaults from "./fake/defaults";
import { Player, type Script } from "./fake/player";
import { DownloadQueue } from "./fake/download-queue";
import { blocks, pieces } from "./fake/text";
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
  opened: string[] = [];
  captured: CapturedText = { source: "clipboard", text: "" };
  /** The next responses. */
  script: Script = { answer: pieces(reply), rate: 60 };
  /** The results of file dialogs; null: the user cancels. */
  chosenFile: string | null = "~/Desktop/chat.md";
  /** The catalog and the downloads. */
  downloadQueue = new DownloadQueue((event) => this.emit(event));

  private listeners = new Set<(event: AppEvent) => void>();
  private errors = new Map<string, CommandError>();
  private now: StatusView = defaults.status();
  private chosen: Settings = defaults.settings();
  private list: ModelView[] = defaults.models();
  aboutView: AboutView = defaults.about();

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
  }

  /** The installed models. */
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

  /** The response that was started last. */
  player(): Player {
    const last = [...this.players.values()].at(-1);
    if (!last) throw new Error("no response was started");
    return last;
  }

  private call(name: keyof Ipc, ...values: unknown[]): void {
    this.calls.push({ name, values });
    const error = this.errors.get(name);
    this.errors.delete(name);
    if (error) throw error;
  }

  private conversation(id: number): Conversation {
    const found = this.tree.conversations.get(id);
    if (!found) throw { code: "not_found" } satisfies CommandError;
    return found;
  }

  private change(id: number, change: Partial<Conversation>): void {
    this.tree.conversations.set(id, { ...this.conversation(id), ...change });
    this.emit({ event: "conversations" });
  }

  private begin(conversation: number, parent: MessageId, question: MessageId | null): StartedTurn {
    const message = this.tree.add(conversation, parent, "assistant", { ending: { ending: "writing" } });
    const player = new Player(message, this.script);
    this.players.set(message.id, player);
    player.play();
    this.change(conversation, {
      updated_at: Date.now(), n_messages: this.tree.path(conversation).length,
    });
    return { conversation, question, answer: message.id };
  }

  // Conversations

  async conversations(search: string, offset: number, limit: number) {
    this.call("conversations", search, offset, limit);
    // Like the app does.
    limit = Math.min(limit, 500);
    const found: FoundConversation[] = [];
    const words = search.trim().toLowerCase();
    for (const conversation of this.tree.conversations.values()) {
      const inTitle = conversation.title.toLowerCase().includes(words);
      const message = inTitle || !words ? undefined : [...this.tree.messages.values()].find(
        ({ view }) => view.conversation === conversation.id && view.text.toLowerCase().includes(words),
      );
      if (!inTitle && !message) continue;
      const text = message?.view.text ?? "";
      const at = text.toLowerCase().indexOf(words);
      found.push({
        conversation,
        snippet: message
          ? { message: message.view.id, pieces: [
              [`${at > 30 ? "…" : ""}${text.slice(Math.max(0, at - 30), at)}`, false],
              [text.slice(at, at + words.length), true],
              [`${text.slice(at + words.length, at + 70)}…`, false],
            ] }
          : null,
      });
    }
    found.sort((a, b) => Number(b.conversation.is_pinned) - Number(a.conversation.is_pinned) ||
      b.conversation.updated_at - a.conversation.updated_at);
    return found.slice(offset, offset + limit);
  }

  async openConversation(id: number) {
    this.call("openConversation", id);
    return { conversation: this.conversation(id), messages: this.tree.path(id) };
  }

  async messages(ids: MessageId[]) {
    this.call("messages", ids);
    return ids.flatMap((id) => {
      const view = this.tree.messages.get(id)?.view;
      return view ? [{ ...view, blocks: [...view.blocks], reasoning: [...view.reasoning] }] : [];
    });
  }

  async renameConversation(id: number, title: string) {
    this.call("renameConversation", id, title);
    this.change(id, { title });
  }

  async pinConversation(id: number, isPinned: boolean) {
    this.call("pinConversation", id, isPinned);
    this.change(id, { is_pinned: isPinned });
  }

  async deleteConversation(id: number) {
    this.call("deleteConversation", id);
    this.conversation(id);
    this.tree.remove(id);
    this.emit({ event: "conversations" });
  }

  async clearHistory() {
    this.call("clearHistory");
    for (const id of [...this.tree.conversations.keys()]) this.tree.remove(id);
    this.emit({ event: "history_cleared" });
    this.emit({ event: "conversations" });
  }

  async showBranch(message: MessageId) {
    this.call("showBranch", message);
    this.tree.show(message);
  }

  async exportConversation(id: number | null, format: string) {
    this.call("exportConversation", id, format);
    return this.chosenFile;
  }

  async importConversations() {
    this.call("importConversations");
    if (this.chosenFile === null) return null;
    this.addConversation("Imported", ["A question", "An answer"]);
    this.emit({ event: "conversations" });
    return 1;
  }

  // Turns

  async ask(id: number | null, text: string, attachment: string, overBudget: boolean) {
    this.call("ask", id, text, attachment, overBudget);
    const conversation = id ?? this.tree.begin(text.split(/\s+/).slice(0, 6).join(" ")).id;
    const question = this.tree.add(conversation, this.tree.leaf(conversation), "user", {
      text, attachment, blocks: blocks(pieces(text)),
    });
    return this.begin(conversation, question.id, question.id);
  }

  async regenerate(answer: MessageId, overBudget: boolean) {
    this.call("regenerate", answer, overBudget);
    const kept = this.tree.messages.get(answer);
    if (!kept || kept.parent === null) throw { code: "not_found" } satisfies CommandError;
    return this.begin(kept.view.conversation, kept.parent, null);
  }

  async editMessage(message: MessageId, text: string) {
    this.call("editMessage", message, text);
    const kept = this.tree.messages.get(message);
    if (!kept) throw { code: "not_found" } satisfies CommandError;
    const { conversation, attachment } = kept.view;
    const question = this.tree.add(conversation, kept.parent, "user", {
      text, attachment, blocks: blocks(pieces(text)),
    });
    return this.begin(conversation, question.id, question.id);
  }

  async stop(answer: MessageId) {
    this.call("stop", answer);
    this.players.get(answer)?.end({ ending: "cancelled" });
  }

  async follow(answer: MessageId, onUpdate: Parameters<Ipc["follow"]>[1]) {
    this.call("follow", answer);
    const player = this.players.get(answer);
    if (!player) throw { code: "not_found" } satisfies CommandError;
    return player.follow(onUpdate);
  }

  // Models

  async models() {
    this.call("models");
    return this.list;
  }

  async chooseModel(id: string) {
    this.call("chooseModel", id);
    this.list = this.list.map((model) => ({ ...model, is_chosen: model.id === id }));
    this.setSettings({ model: id });
    this.emit({ event: "models" });
  }

  async fit(id: string, chosen: Parameters<Ipc["fit"]>[1]) {
    this.call("fit", id, chosen);
    const model = this.list.find((one) => one.id === id);
    if (!model) throw { code: "not_found" } satisfies CommandError;
    return defaults.fit(model, chosen);
  }

  async addModel(kind: "folder" | "file") {
    this.call("addModel", kind);
    if (this.chosenFile === null) return null;
    const model = { ...defaults.models()[0]!, id: "/models/added", name: "Added model", is_chosen: false };
    this.setModels([...this.list, model]);
    return model;
  }

  async forgetModel(id: string) {
    this.call("forgetModel", id);
    this.setModels(this.list.filter((model) => model.id !== id));
  }

  async removeModel(id: string) {
    this.call("removeModel", id);
    const gone = this.list.find((model) => model.id === id);
    this.setModels(this.list.filter((model) => model.id !== id));
    return gone?.size_bytes ?? 0;
  }

  async loadModel() {
    this.call("loadModel");
    this.setStatus({ model: defaults.loaded(), last_unload: null });
  }

  async eject() {
    this.call("eject");
    const gone = this.now.model;
    for (const player of this.players.values()) player.end({ ending: "cancelled" });
    if (!gone) return;
    this.setStatus({ model: null, activity: "idle", in_use_bytes: 0,
      last_unload: { name: gone.name, held_bytes: gone.memory_bytes, was_idle: false } });
  }

  async pause(isPaused: boolean) {
    this.call("pause", isPaused);
    this.setStatus({ is_paused: isPaused, held: isPaused ? "paused" : null,
      activity: isPaused ? "held" : "idle" });
  }

  // Models to download

  async catalog() {
    this.call("catalog");
    return this.downloadQueue.listed();
  }

  async tiers() {
    this.call("tiers");
    return this.downloadQueue.tiers;
  }

  async searchHub(words: string) {
    this.call("searchHub", words);
    return this.downloadQueue.found;
  }

  async hubEntry(repository: string) {
    this.call("hubEntry", repository);
    return hubEntry(repository);
  }

  async install(variant: string) {
    this.call("install", variant);
    this.downloadQueue.install(variant);
  }

  async downloads() {
    this.call("downloads");
    return this.downloadQueue.downloads;
  }

  async changeDownload(id: number, change: DownloadChange) {
    this.call("changeDownload", id, change);
    this.downloadQueue.change(id, change);
  }

  async hubAccess() {
    this.call("hubAccess");
    return this.downloadQueue.access;
  }

  async setHubToken(token: string | null) {
    this.call("setHubToken", token);
    return this.downloadQueue.access = { ...this.downloadQueue.access, has_token: token !== null };
  }

  async setHubEndpoint(endpoint: string | null) {
    this.call("setHubEndpoint", endpoint);
    return this.downloadQueue.access = { ...this.downloadQueue.access,
      endpoint: endpoint ?? "https://huggingface.co", is_default_endpoint: endpoint === null };
  }

  // The app

  async status() {
    this.call("status");
    return this.now;
  }

  async settings() {
    this.call("settings");
    return this.chosen;
  }

  async updateSettings(patch: Patch<Settings>) {
    this.call("updateSettings", patch);
    this.setSettings(merge(this.chosen, patch, defaults.settings()) as Settings);
    return this.chosen;
  }

  async setHotkey(shortcut: string) {
    this.call("setHotkey", shortcut);
    return this.aboutView.hotkey = { hotkey: "registered" as const, shortcut };
  }

  async recordHotkey(isRecording: boolean) {
    this.call("recordHotkey", isRecording);
  }

  async captureText(source: CapturedText["source"]) {
    this.call("captureText", source);
    return { ...this.captured, source };
  }

  async copy(text: string) {
    this.call("copy", text);
    this.copied.push(text);
  }

  async openLink(url: string) {
    this.call("openLink", url);
    this.opened.push(url);
  }

  async about() {
    this.call("about");
    return this.aboutView;
  }

  async licenses() {
    this.call("licenses");
    return "MLX\n\nMIT License\n\nPermission is hereby granted, free of charge, …";
  }

  async saveDiagnostics() {
    this.call("saveDiagnostics");
    return this.chosenFile;
  }

  async openDataFolder() {
    this.call("openDataFolder");
  }

  async showWindow(...values: Parameters<Ipc["showWindow"]>) {
    this.call("showWindow", ...values);
  }

  async fitPrompt(height: number) {
    this.call("fitPrompt", height);
  }
  async hideWindow() {
    this.call("hideWindow");
  }

  async pageReady() {
    this.call("pageReady");
  }

  onEvent(listener: (event: AppEvent) => void) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
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
