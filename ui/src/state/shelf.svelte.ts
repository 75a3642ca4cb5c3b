/**
 * Models that can be had, and those that are on their way: what the Models pane, the welcome and the
 * chat know of them. The list is read when a page first needs it; downloads are told by the app.
 */
import { ipc, type CatalogueView, type DownloadView, type EntryView, type News } from "../ipc";
import { dismissed } from "./dismissed.svelte";
import { refusal } from "./refusal";

class Shelf {
  catalogue = $state.raw<CatalogueView | null>(null);
  /** In their order; those that are done stay until they are taken off. */
  downloads = $state.raw<DownloadView[]>([]);
  /** Files are being dragged over this window, or were just dropped. */
  drop = $state.raw<Extract<News, { news: "drop" }>["drop"] | null>(null);

  /** The download of a variant. */
  download(key: string): DownloadView | undefined {
    return this.downloads.find((one) => one.key === key);
  }

  entry(id: string): EntryView | undefined {
    return this.catalogue?.entries.find((one) => one.id === id);
  }
}

export const shelf = new Shelf();

/** The reading of the list that was begun last. */
let last = 0;

/** Reads the list now, and again whenever it changes. */
export async function readCatalogue(): Promise<void> {
  const turn = ++last;
  try {
    const read = await ipc.catalogue();
    // What was asked for later knows more.
    if (turn === last) shelf.catalogue = read;
  } catch (error) {
    // Everything else on the page goes on without it.
    console.warn("the list of models cannot be read", refusal(error));
  }
}

export async function readDownloads(): Promise<void> {
  shelf.downloads = await ipc.downloads();
  dismissed.update(shelf.downloads);
}

/** Which downloads are going to write, however far they are. */
function spokenFor(downloads: DownloadView[]): string {
  const isStill = (one: DownloadView) => ["paused", "done", "failed"].includes(one.state.state);
  const going = downloads.filter((one) => !isStill(one) && one.total_bytes !== null);
  return going.map((one) => one.id).sort().join();
}

/** What of the app's news is about models that can be had. */
export function heedShelf(news: News): void {
  if (news.news === "downloads") {
    const before = spokenFor(shelf.downloads);
    shelf.downloads = news.downloads;
    dismissed.update(news.downloads);
    // Another one takes room on the disk, or takes it no more.
    if (shelf.catalogue && spokenFor(news.downloads) !== before) void readCatalogue();
  }
  else if (news.news === "drop") {
    const isOver = news.drop.state === "left" || news.drop.state === "attached";
    shelf.drop = isOver ? null : news.drop;
  }
  else if ((news.news === "catalogue" || news.news === "models") && shelf.catalogue) void readCatalogue();
}

/** The model to take on this machine; nothing where it is here already. */
export function proposal(): EntryView | undefined {
  const first = shelf.catalogue?.recommended.find((one) => one.purpose === "chat");
  const entry = first && shelf.entry(first.entry);
  if (!first || !entry || entry.variants.some((variant) => variant.model !== null)) return undefined;
  return { ...entry, best: Math.max(0, entry.variants.findIndex((one) => one.key === first.variant)) };
}
