/**
 * The catalog and the downloads, for the Models pane, the welcome and the chat. The catalog is
 * loaded when a page first needs it; the app sends the downloads.
 */
import { ipc, type CatalogView, type DownloadView, type DropView, type EntryView, type AppEvent } from "../ipc";
import { dismissed } from "./dismissed.svelte";
import { commandError } from "./command-error";

class ModelSource {
  catalog = $state.raw<CatalogView | null>(null);
  /** In queue order; finished ones stay until they are removed. */
  downloads = $state.raw<DownloadView[]>([]);
  /** The variant that the user chose in the welcome; it is selected when it is downloaded. */
  wanted: string | null = null;
  /** Files are being dragged over this window. */
  drag = $state.raw<Extract<DropView, { state: "over" }> | null>(null);
  /** The results of the last drop, until they are dismissed. */
  dropped = $state.raw<Exclude<DropView, { state: "over" | "left" }>[]>([]);

  download(key: string): DownloadView | undefined {
    return this.downloads.find((one) => one.key === key);
  }

  entry(id: string): EntryView | undefined {
    return this.catalog?.entries.find((one) => one.id === id);
  }
}

export const modelSource = new ModelSource();

/** The number of the last load that was started; 0 if no page needs the catalog yet. */
let last = 0;

/** Loads the catalog now, and again whenever it changes. */
export async function loadCatalog(): Promise<void> {
  const turn = ++last;
  try {
    const read = await ipc.catalog();
    // A later load has newer data.
    if (turn === last) modelSource.catalog = read;
  } catch (error) {
    // The rest of the page works without it.
    console.warn("the list of models cannot be read", commandError(error));
  }
}

export async function loadDownloads(): Promise<void> {
  const before = modelSource.downloads;
  const read = await ipc.downloads();
  // An event that came meanwhile has newer data.
  if (modelSource.downloads !== before) return;
  modelSource.downloads = read;
  dismissed.update(read);
}

/** The ids of downloads that will write to the disk, whatever their progress. */
function activeDownloadIds(downloads: DownloadView[]): string {
  const isStill = (one: DownloadView) => ["paused", "done", "failed"].includes(one.state.state);
  const active = downloads.filter((one) => !isStill(one) && one.total_bytes !== null);
  return active.map((one) => one.id).sort().join();
}

export function handleModelEvent(event: AppEvent): void {
  if (event.event === "downloads") {
    const before = activeDownloadIds(modelSource.downloads);
    modelSource.downloads = event.downloads;
    dismissed.update(event.downloads);
    // Another download uses disk space, or one ended.
    if (last > 0 && activeDownloadIds(event.downloads) !== before) void loadCatalog();
  }
  else if (event.event === "drop") handleDrop(event.drop);
  else if ((event.event === "catalog" || event.event === "models") && last > 0) void loadCatalog();
}

function handleDrop(drop: DropView): void {
  modelSource.drag = drop.state === "over" ? drop : null;
  if (drop.state === "over") modelSource.dropped = [];
  else if (drop.state !== "left") modelSource.dropped = [...modelSource.dropped, drop];
}

/** The recommended model for this machine, or nothing if it is installed. */
export function recommendedEntry(): EntryView | undefined {
  const first = modelSource.catalog?.recommended.find((one) => one.purpose === "chat");
  const entry = first && modelSource.entry(first.entry);
  if (!first || !entry || entry.variants.some((variant) => variant.model !== null)) return undefined;
  return { ...entry, best: Math.max(0, entry.variants.findIndex((one) => one.key === first.variant)) };
}
