/**
 * The state that every page has: settings, status, models. One per page. `startApp` loads it, and
 * events of the app update it. Values are replaced as a whole and never changed in place.
 */
import { chooseLanguage } from "../i18n";
import { ipc, type AboutView, type ModelView, type News, type Refusal, type Settings, type StatusView } from "../ipc";
import { composer } from "./composer.svelte";
import { refusal } from "./refusal";
import { heedShelf } from "./shelf.svelte";

export type Notice = Omit<Extract<News, { news: "notice" }>, "news">;

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
  /** Notices that belong to no command, oldest first, until they are dismissed. */
  notices = $state.raw<Notice[]>([]);

  /** The selected model. */
  get model(): ModelView | null {
    return this.models.find((model) => model.is_chosen) ?? null;
  }

  get isMac(): boolean {
    return this.about?.platform === "macos";
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

/** Listens to the app and loads the state. `onEvent` handles events that only this page needs. */
export async function startApp(onNews: (news: News) => void = () => {}): Promise<() => void> {
  const stop = ipc.onNews((news) => {
    heed(news);
    heedShelf(news);
    onNews(news);
  });
  const [settings, status, about] = await Promise.all([ipc.settings(), ipc.status(), ipc.about()]);
  app.about = about;
  document.documentElement.classList.toggle("scroll-bars", about.platform !== "macos");
  app.status ??= status;
  show(settings);
  // Reads model files, so nothing waits for it.
  void refreshModels();
  return stop;
}

function heed(news: News): void {
  if (news.news === "status") app.status = news.status;
  else if (news.news === "settings") show(news.settings);
  else if (news.news === "models") void refreshModels();
  else if (news.news === "history_cleared") composer.forgetAll();
  else if (news.news === "notice") {
    app.notify({ code: news.code, detail: news.detail, values: news.values });
  }
}

/** Runs a command whose error has no place of its own: it is shown as a notice. */
export function attempt(call: Promise<unknown>): void {
  call.catch((error: unknown) => {
    const said = refusal(error);
    app.notify({ code: said.code, detail: reasonOf(said), values: {} });
  });
}

function reasonOf(said: Refusal): string {
  if (said.code === "hub") return said.trouble.reason;
  return "reason" in said ? said.reason : "";
}

export async function refreshModels(): Promise<void> {
  app.models = await ipc.models();
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
