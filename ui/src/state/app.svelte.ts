/**
 * The state that every page has: settings, status, models. One per page. `startApp` loads it, and
 * events of the app update it. Values are replaced as a whole and never changed in place.
 */
import { chooseLanguage } from "../i18n";
import { ipc, type AboutView, type ModelView, type AppEvent, type CommandError, type Settings, type StatusView, type UpdatesView } from "../ipc";
import { composer } from "./composer.svelte";
import { commandError } from "./command-error";
import { edits } from "./edits";
import { handleModelEvent } from "./model-source.svelte";
import { handlePage, press } from "./webview";

export type Notice = Omit<Extract<AppEvent, { event: "notice" }>, "event">;

/** Notices of states that last until the app quits. They cannot be dismissed. */
const LASTING = ["store_unavailable", "engine_missing"];

export function isLasting(notice: Notice): boolean {
  return LASTING.includes(notice.code);
}

class App {
  settings = $state.raw<Settings | null>(null);
  status = $state.raw<StatusView | null>(null);
  models = $state.raw<ModelView[]>([]);
  about = $state.raw<AboutView | null>(null);
  /** Null until a part of the page that shows them has loaded them. */
  updates = $state.raw<UpdatesView | null>(null);
  /** Notices that belong to no command, oldest first, until they are dismissed. */
  notices = $state.raw<Notice[]>([]);

  get model(): ModelView | null {
    return this.models.find((model) => model.is_chosen) ?? null;
  }

  /** The models that generate text. */
  get chatModels(): ModelView[] {
    return this.models.filter((model) => !model.is_embedder);
  }

  /** `macos` or `linux`, for the names of keys. */
  get platform(): string {
    return this.about?.platform ?? "linux";
  }

  get isMac(): boolean {
    return this.platform === "macos";
  }

  /** Adds a notice, unless the same one is shown already. */
  notify(notice: Notice): void {
    const others = this.notices.filter(
      (one) => one.code !== notice.code || one.detail !== notice.detail,
    );
    this.notices = [...others, notice];
  }

  /** Dismisses a notice; without an argument, all that can be dismissed. */
  dismiss(notice?: Notice): void {
    this.notices = this.notices.filter((one) => isLasting(one) || (notice && one !== notice));
  }
}

export const app = new App();

/**
 * Listens to the app, then loads the state, so that no change is lost in between. `onEvent` handles
 * events that only this page needs.
 */
export async function startApp(onEvent: (event: AppEvent) => void = () => {}): Promise<() => void> {
  const stopPage = handlePage();
  const stopEvents = ipc.onEvent((event) => {
    handleEvent(event);
    handleModelEvent(event);
    onEvent(event);
  });
  await ipc.listening();
  const before = app.settings;
  const [stored, status, about] = await Promise.all([ipc.settings(), ipc.status(), ipc.about()]);
  app.about = about;
  document.documentElement.classList.toggle("scroll-bars", about.platform !== "macos");
  app.status ??= status;
  // An event that came meanwhile has newer settings.
  show(app.settings === before ? stored : app.settings!);
  // Reads model files, so nothing waits for it.
  void refreshModels();
  return () => {
    stopPage();
    stopEvents();
  };
}

function handleEvent(event: AppEvent): void {
  if (event.event === "status") app.status = event.status;
  else if (event.event === "settings") show(event.settings);
  else if (event.event === "models") void refreshModels();
  else if (event.event === "updates") app.updates = event.updates;
  else if (event.event === "history_cleared") {
    composer.forgetAll();
    edits.forgetAll();
  } else if (event.event === "shortcut") press(event.keys);
  else if (event.event === "notice") {
    app.notify({ code: event.code, detail: event.detail, values: event.values });
  }
}

/** Runs a command whose error has no place of its own: it is shown as a notice. */
export function attempt(call: Promise<unknown>): void {
  call.catch((error: unknown) => {
    const rejection = commandError(error);
    app.notify({ code: rejection.code, detail: reasonOf(rejection), values: valuesOf(rejection) });
  });
}

function reasonOf(rejection: CommandError): string {
  if (rejection.code === "hub") return rejection.error.reason;
  if (rejection.code === "model") return rejection.error.detail;
  return "reason" in rejection ? rejection.reason : "";
}

/** Errors with values can be translated: those of turns, the hub, models and the app's own files. */
function valuesOf(rejection: CommandError): Notice["values"] {
  if (rejection.code === "storage" && rejection.kind) return { kind: rejection.kind };
  if (rejection.code === "turn") return { failure: rejection.failure };
  return "error" in rejection ? { error: rejection.error } : {};
}

/** The number of the last load of models that was started. */
let lastLoad = 0;

export async function refreshModels(): Promise<void> {
  const turn = ++lastLoad;
  const models = await ipc.models();
  // A later load has newer data.
  if (turn === lastLoad) app.models = models;
}

function show(settings: Settings): void {
  const before = app.settings;
  app.settings = settings;
  if (before && before.model !== settings.model) void refreshModels();
  chooseLanguage(settings.general.language, app.about?.languages ?? []);
  const { appearance } = settings.general;
  const root = document.documentElement;
  if (appearance === "system") delete root.dataset.appearance;
  else root.dataset.appearance = appearance;
}
