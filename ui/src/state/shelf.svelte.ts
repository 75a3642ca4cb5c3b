/**
 * The catalog and the downloads, for the Models pane, the welcome and the chat. The catalog is
 * loaded when a page first needs it; the app sends the downloads.
 */
import { ipc, type CatalogueView, type DownloadView, type EntryView, type News } from "../ipc";
import { dismissed } from "./dismissed.svelte";
import { refusal } from "./refusal";

class Shelf {
  catalogue = $state.raw<CatalogueView | null>(null);
  /** In queue order; finished ones stay until they are removed. */
  downloads = $state.raw<DownloadView[]>([]);
  /** Files are being dragged over this window, or were just dropped. */
  drop = $state.raw<Extract<News, { news: "drop" }>["drop"] | null>(null);

  /** Returns the download of a variant. */
  download(key: string): DownloadView | undefined {
    return this.downloads.find((one) => one.key === key);
  }

  entry(id: string): EntryView | undefined {
    return this.catalogue?.entries.find((one) => one.id === id);
  }
}

export const shelf = new Shelf();

/** The number of the last load that was started. */
let last = 0;

/** Loads the catalog now, and again whenever it changes. */
export async function readCatalogue(): Promise<void> {
  const turn = ++last;
  try {
    const read = await ipc.catalogue();
    // A later load has newer data.
    if (turn === last) shelf.catalogue = read;
  } catch (error) {
    // The rest of the page works without it.
    console.warn("the list of models cannot be read", refusal(error));
  }
}

export async function readDownloads(): Promise<void> {
  shelf.downloads = await ipc.downloads();
  dismissed.update(shelf.downloads);
}

/** The ids of downloads that will write to the disk, whatever their progress. */
function spokenFor(downloads: DownloadView[]): string {
  const isStill = (one: DownloadView) => ["paused", "done", "failed"].includes(one.state.state);
  const going = downloads.filter((one) => !isStill(one) && one.total_bytes !== null);
  return going.map((one) => one.id).sort().join();
}

/** Handles catalog and download events. */
export function heedShelf(news: News): void {
  if (news.news === "downloads") {
    const before = spokenFor(shelf.downloads);
    shelf.downloads = news.downloads;
    dismissed.update(news.downloads);
    // Another download uses disk space, or one ended.
    if (shelf.catalogue && spokenFor(news.downloads) !== before) void readCatalogue();
  }
  else if (news.news === "drop") {
    const isOver = news.drop.state === "left" || news.drop.state === "attached";
    shelf.drop = isOver ? null : news.drop;
  }
  else if ((news.news === "catalogue" || news.news === "models") && shelf.catalogue) void readCatalogue();
}

/** The recommended model for this machine, or nothing if it is installed. */
export function proposal(): EntryView | undefined {
  const first = shelf.catalogue?.recommended.find((one) => one.purpose === "chat");
  const entry = first && shelf.entry(first.entry);
  if (!first || !entry || entry.variants.some((variant) => variant.model !== null)) return undefined;
  return { ...entry, best: Math.max(0, entry.variants.findIndex((one) => one.key === first.variant)) };
}
