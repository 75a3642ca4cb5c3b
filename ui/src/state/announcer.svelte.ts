/**
 * Announcements for screen readers: finished paragraphs of the visible response, and short notes. A
 * live region shows them; old ones are removed, or they would be read again.
 */
const MAX_KEPT = 6;
const KEPT_MS = 10_000;

class Announcer {
  announcements = $state.raw<{ id: number; text: string }[]>([]);
  private last = 0;

  /** An announcement is useless to a user who reads the page later. */
  private forget: ReturnType<typeof setTimeout> | undefined;

  say(...texts: string[]): void {
    clearTimeout(this.forget);
    this.forget = setTimeout(() => (this.announcements = []), KEPT_MS);
    const fresh = texts.filter(Boolean).map((text) => ({ id: ++this.last, text }));
    this.announcements = [...this.announcements, ...fresh].slice(-MAX_KEPT);
  }
}

export const announcer = new Announcer();
