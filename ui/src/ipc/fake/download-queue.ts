/**
 * Downloads of the fake app. Nothing happens by itself: tests call `come` to receive data, and
 * `fail` and `finish` to end a download.
 */
import type {
  CatalogView, DownloadChange, DownloadState, DownloadView, HubAccessView, ModelView,
  AppEvent, TierView, HubErrorView,
} from "../bindings";
import * as made from "./catalog";
import { models } from "./defaults";
import * as sizes from "./tiers";

const RATE = 24 * 2 ** 20;

export class DownloadQueue {
  catalog: CatalogView = made.catalog();
  tiers: TierView[] = sizes.tiers();
  access: HubAccessView = made.hubAccess();
  downloads: DownloadView[] = [];

  private last = 0;

  constructor(private emit: (event: AppEvent) => void) {}

  /** The current catalog, with the disk space that downloads will use. */
  listed(): CatalogView {
    const active = this.downloads.filter((one) => !["paused", "done", "failed"].includes(one.state.state));
    const disk_reserved_bytes = active.reduce((sum, one) => sum + (one.total_bytes ?? 0) - one.done_bytes, 0);
    return { ...this.catalog, disk_reserved_bytes };
  }

  install(key: string): void {
    if (this.downloads.some((one) => one.key === key && one.state.state !== "done")) return;
    const entries = [...this.catalog.entries, ...made.found().map((one) => made.hubEntry(one.id))];
    const entry = entries.find((one) => one.variants.some((variant) => variant.key === key));
    const variant = entry?.variants.find((one) => one.key === key);
    if (!entry || !variant) throw { code: "not_found" };
    const name = entry.is_from_hub ? entry.id : `${entry.name} · ${variant.quantization}`;
    this.downloads = [...this.downloads, made.download(++this.last, key, name, variant.size_bytes ?? 0)];
    this.begin();
  }

  change(id: number, change: DownloadChange): void {
    const one = this.downloads.find((download) => download.id === id);
    if (!one) throw { code: "not_found" };
    if (change.change === "cancel") this.downloads = this.downloads.filter((other) => other.id !== id);
    else if (change.change === "pause") this.set(id, { state: "paused" });
    else if (change.change === "resume") this.set(id, { state: "waiting" });
    else {
      const others = this.downloads.filter((other) => other.id !== id);
      this.downloads = [...others.slice(0, change.position), one, ...others.slice(change.position)];
    }
    this.begin();
  }

  come(id: number, fraction: number, rate = RATE): void {
    this.downloads = this.downloads.map((one) => {
      if (one.id !== id || one.total_bytes === null) return one;
      const done_bytes = Math.round(one.total_bytes * fraction);
      return { ...one, state: { state: "downloading" }, done_bytes, bytes_per_second: rate,
        seconds_left: Math.round((one.total_bytes - done_bytes) / rate) };
    });
    this.say();
  }

  set(id: number, state: DownloadState): void {
    this.downloads = this.downloads.map((one) =>
      one.id === id ? { ...one, state, bytes_per_second: null, seconds_left: null } : one);
    this.say();
  }

  fail(id: number, error: HubErrorView): void {
    this.set(id, { state: "failed", error });
  }

  finish(id: number): ModelView {
    const one = this.downloads.find((download) => download.id === id)!;
    const model: ModelView = { ...models()[0]!, id: `/models/${one.key}`, name: one.name,
      is_chosen: false, entry: null, size_bytes: one.total_bytes ?? 0 };
    this.set(id, { state: "done", model: model.id });
    this.catalog = { ...this.catalog, entries: this.catalog.entries.map((entry) => ({
      ...entry, variants: entry.variants.map((variant) =>
        variant.key === one.key ? { ...variant, model: model.id } : variant),
    })) };
    this.begin();
    return model;
  }

  private begin(): void {
    const isBusy = this.downloads.some((one) => one.state.state === "downloading");
    const next = this.downloads.find((one) => one.state.state === "waiting");
    if (!isBusy && next) this.come(next.id, 0);
    else this.say();
  }

  private say(): void {
    this.emit({ event: "downloads", downloads: this.downloads });
  }
}
