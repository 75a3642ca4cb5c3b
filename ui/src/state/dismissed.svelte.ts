/**
 * Failed downloads whose note was dismissed in the chat. The downloads and their parts stay, and can
 * be resumed in Settings; one that fails again is told again.
 */
import { SvelteSet } from "svelte/reactivity";
import type { DownloadView } from "../ipc";

const KEY = "transom.dismissed_downloads";

class Dismissed {
  private keys: SvelteSet<string>;

  constructor(private storage: Pick<Storage, "getItem" | "setItem"> | null) {
    let kept: string[] = [];
    try {
      kept = JSON.parse(storage?.getItem(KEY) ?? "[]") as string[];
    } catch {
      // A list that cannot be read is none.
    }
    this.keys = new SvelteSet(kept);
  }

  has(download: DownloadView): boolean {
    return this.keys.has(download.key);
  }

  add(download: DownloadView): void {
    this.keys.add(download.key);
    this.write();
  }

  /** The downloads are these now: those that no longer stand as failed are forgotten. */
  update(downloads: DownloadView[]): void {
    const failed = new Set(
      downloads.filter((one) => one.state.state === "failed").map((one) => one.key),
    );
    const gone = [...this.keys].filter((key) => !failed.has(key));
    for (const key of gone) this.keys.delete(key);
    if (gone.length > 0) this.write();
  }

  private write(): void {
    try {
      this.storage?.setItem(KEY, JSON.stringify([...this.keys]));
    } catch {
      // Without room they stay dismissed as long as the page lives.
    }
  }
}

export const dismissed = new Dismissed(typeof localStorage === "undefined" ? null : localStorage);
