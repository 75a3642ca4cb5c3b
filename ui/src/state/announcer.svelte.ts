/**
 * What a screen reader shall say: finished paragraphs of the answer that is watched, and short notes
 * of what happened. A live region shows it; old ones leave it, or it would be read again.
 */
const MAX_KEPT = 6;
const KEPT_MS = 10_000;

class Announcer {
  said = $state.raw<{ id: number; text: string }[]>([]);
  private last = 0;

  /** What was said is of no use to who reads the page later. */
  private forget: ReturnType<typeof setTimeout> | undefined;

  say(...texts: string[]): void {
    clearTimeout(this.forget);
    this.forget = setTimeout(() => (this.said = []), KEPT_MS);
    const fresh = texts.filter(Boolean).map((text) => ({ id: ++this.last, text }));
    this.said = [...this.said, ...fresh].slice(-MAX_KEPT);
  }
}

export const announcer = new Announcer();
