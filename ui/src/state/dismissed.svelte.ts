/**
 * Failed downloads whose note was dismissed in the chat. The downloads and their data stay, and can
 * be resumed in Settings. A download that fails again is shown again.
 */
import { SvelteSet } from "svelte/reactivity";
import type { DownloadView } from "../ipc";
import { pageStorage, storedList, storeList, type Stored } from "./stored";

const KEY = "transom.dismissed_downloads";

class Dismissed {
  private keys: SvelteSet<string>;

  constructor(private storage: Stored) {
    this.keys = new SvelteSet(storedList<string>(storage, KEY));
  }

  has(download: DownloadView): boolean {
    return this.keys.has(download.key);
  }

  add(download: DownloadView): void {
    this.keys.add(download.key);
    this.write();
  }

  /** Updates the downloads: dismissals of downloads that are not failed anymore are removed. */
  update(downloads: DownloadView[]): void {
    const failed = new Set(
      downloads.filter((one) => one.state.state === "failed").map((one) => one.key),
    );
    const gone = [...this.keys].filter((key) => !failed.has(key));
    for (const key of gone) this.keys.delete(key);
    if (gone.length > 0) this.write();
  }

  private write(): void {
    storeList(this.storage, KEY, [...this.keys]);
  }
}

export const dismissed = new Dismissed(pageStorage);
