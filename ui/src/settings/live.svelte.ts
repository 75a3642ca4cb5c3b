/**
 * What the settings window shows, kept up to date by the app's news. A change is shown at once,
 * sent after a moment (so that a slider sends one patch, not fifty), and taken back with its reason
 * when the app refuses it.
 */
import { ipc, type AboutView, type ModelSettings, type ModelView, type News, type Patch,
  type Refusal, type Settings, type StatusView } from "../ipc";
import { chooseLanguage } from "../i18n";
import { joined, merged } from "./patch";

/** How long a slider or a text rests before its change is sent. */
const REST_MS = 250;

class Live {
  settings = $state<Settings | null>(null);
  status = $state<StatusView | null>(null);
  about = $state<AboutView | null>(null);
  models = $state<ModelView[]>([]);
  /** The last change that was refused, until the next one is accepted. */
  refused = $state<Refusal | null>(null);

  #waiting: Patch<Settings> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sent: Promise<void> = Promise.resolve();

  /** Reads everything and listens; resolves when it can be drawn. Returns how to stop. */
  async start(): Promise<() => void> {
    const stop = ipc.onNews((news) => this.hear(news));
    const [settings, about, status, models] = await Promise.all([
      ipc.settings(), ipc.about(), ipc.status(), ipc.models(),
    ]);
    this.about = about;
    this.status = status;
    this.models = models;
    this.#take(settings);
    return () => {
      stop();
      void this.flush();
    };
  }

  hear(news: News): void {
    if (news.news === "status") this.status = news.status;
    else if (news.news === "settings") this.#take(news.settings);
    else if (news.news === "models") void this.readModels();
  }

  async readModels(): Promise<void> {
    this.models = await ipc.models();
  }

  async readAbout(): Promise<void> {
    this.about = await ipc.about();
  }

  /** Changes settings; `rests` for what changes many times in a row. */
  change(patch: Patch<Settings>, rests = false): void {
    if (this.settings) this.#show(merged(this.settings, patch));
    this.#waiting = this.#waiting ? joined(this.#waiting, patch) : patch;
    clearTimeout(this.#timer);
    if (rests) this.#timer = setTimeout(() => void this.flush(), REST_MS);
    else void this.flush();
  }

  /** Changes what was chosen for one model. */
  changeModel(id: string, patch: Patch<ModelSettings> | null, rests = false): void {
    this.change({ models: { [id]: patch } } as Patch<Settings>, rests);
  }

  /** Sends what waits; resolves when the app has answered. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    const patch = this.#waiting;
    this.#waiting = null;
    if (patch) this.#sent = this.#sent.then(() => this.#send(patch));
    return this.#sent;
  }

  /** Does what the app may refuse, and shows why if it does. */
  async attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      const result = await work();
      this.refused = null;
      return result;
    } catch (reason) {
      this.refused = asRefusal(reason);
      return undefined;
    }
  }

  async #send(patch: Patch<Settings>): Promise<void> {
    const settings = await this.attempt(() => ipc.updateSettings(patch));
    this.#take(settings ?? (await ipc.settings().catch(() => this.settings)));
  }

  #take(settings: Settings | null): void {
    if (!settings) return;
    this.#show(this.#waiting ? merged(settings, this.#waiting) : settings);
  }

  #show(settings: Settings): void {
    this.settings = settings;
    chooseLanguage(settings.general.language, this.about?.languages ?? []);
    const root = document.documentElement;
    if (settings.general.appearance === "system") delete root.dataset.appearance;
    else root.dataset.appearance = settings.general.appearance;
  }
}

/** Whatever a command rejected with, as a refusal. */
export function asRefusal(reason: unknown): Refusal {
  if (typeof reason === "object" && reason !== null && "code" in reason) return reason as Refusal;
  return { code: "other", reason: reason instanceof Error ? reason.message : String(reason) };
}

export const live = new Live();

/** A fresh one, for tests and the gallery. */
export function newLive(): Live {
  return new Live();
}
export type { Live };
