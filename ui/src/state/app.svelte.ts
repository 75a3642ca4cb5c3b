/**
 * What every page knows of the app: settings, the machine, the models. One per page; `startApp`
 * fills it, news keep it true. Everything here is replaced whole, never changed in place.
 */
import { chooseLanguage } from "../i18n";
import { ipc, type AboutView, type ModelView, type News, type Refusal, type Settings, type StatusView } from "../ipc";
import { composer } from "./composer.svelte";
import { refusal } from "./refusal";
import { heedShelf } from "./shelf.svelte";

export type Notice = Omit<Extract<News, { news: "notice" }>, "news">;

/** What stays so until the app quits: it cannot be dismissed. */
const LASTING = ["store_unavailable", "engine_missing"];

export function isLasting(notice: Notice): boolean {
  return LASTING.includes(notice.code);
}

class App {
  settings = $state.raw<Settings | null>(null);
  status = $state.raw<StatusView | null>(null);
  models = $state.raw<ModelView[]>([]);
  about = $state.raw<AboutView | null>(null);
  /** What the app told that belongs to no command, oldest first, each until it is dismissed. */
  notices = $state.raw<Notice[]>([]);

  /** The model that is asked. */
  get model(): ModelView | null {
    return this.models.find((model) => model.is_chosen) ?? null;
  }

  get isMac(): boolean {
    return this.about?.platform === "macos";
  }

  /** Shows a notice below the others; one that says the same is there once. */
  notify(notice: Notice): void {
    const others = this.notices.filter(
      (one) => one.code !== notice.code || one.detail !== notice.detail,
    );
    this.notices = [...others, notice];
  }

  /** Takes a notice away; without one, all that can be. */
  dismiss(notice?: Notice): void {
    this.notices = this.notices.filter((one) => isLasting(one) || (notice && one !== notice));
  }
}

export const app = new App();

/** Listens to the app and asks it for everything. `onNews` hears what only this page acts on. */
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
  // Models' files are read for it; nothing waits for that.
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

/** Calls that have no place of their own for a refusal: it is shown as a notice. */
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
