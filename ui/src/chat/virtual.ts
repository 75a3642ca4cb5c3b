/**
 * Positions of the rows of a long list in which most heights are estimates. A Fenwick tree adds
 * them up, so 5,000 rows are as fast as ten.
 *
 * Rule: nothing here touches the page. The visible position is an anchor (a row and an offset in
 * it) and stays when heights above it become known.
 */

export interface Anchor {
  index: number;
  /** Pixels from the top of the row to the top of the view. */
  into: number;
}

/** Rows from `first` to `end` (exclusive). */
export interface Range {
  first: number;
  end: number;
}

export class Heights {
  private heights: Float64Array;
  private sums: Float64Array;

  constructor(guesses: ArrayLike<number>) {
    this.heights = Float64Array.from(guesses);
    this.sums = new Float64Array(guesses.length + 1);
    for (let i = 1; i <= guesses.length; i++) {
      this.sums[i]! += this.heights[i - 1]!;
      const parent = i + (i & -i);
      if (parent <= guesses.length) this.sums[parent]! += this.sums[i]!;
    }
  }

  get count(): number {
    return this.heights.length;
  }

  get total(): number {
    return this.top(this.count);
  }

  height(index: number): number {
    return this.heights[index] ?? 0;
  }

  /** Sets a height and returns the difference. */
  set(index: number, height: number): number {
    const by = height - this.height(index);
    if (by === 0 || index < 0 || index >= this.count) return 0;
    this.heights[index] = height;
    for (let i = index + 1; i <= this.count; i += i & -i) this.sums[i]! += by;
    return by;
  }

  /** Returns the pixels above a row. */
  top(index: number): number {
    let sum = 0;
    for (let i = Math.min(index, this.count); i > 0; i -= i & -i) sum += this.sums[i]!;
    return sum;
  }

  /** Returns the row at this pixel; the first or last one outside of the list. */
  at(y: number): number {
    if (this.count === 0) return 0;
    let index = 0;
    let left = Math.max(0, y);
    for (let step = 1 << Math.floor(Math.log2(this.count)); step > 0; step >>= 1) {
      const next = index + step;
      if (next <= this.count && this.sums[next]! <= left) {
        index = next;
        left -= this.sums[next]!;
      }
    }
    return Math.min(index, this.count - 1);
  }

  anchor(scrollTop: number): Anchor {
    const index = this.at(scrollTop);
    return { index, into: scrollTop - this.top(index) };
  }

  scrollTop(anchor: Anchor): number {
    return this.top(anchor.index) + anchor.into;
  }

  /** Returns the rows within `margin` pixels of the view. */
  range(scrollTop: number, viewHeight: number, margin: number): Range {
    if (this.count === 0) return { first: 0, end: 0 };
    const first = this.at(scrollTop - margin);
    return { first, end: this.at(scrollTop + viewHeight + margin) + 1 };
  }
}

/** Estimates the height of a message from its head and the available width. */
export function guess(head: { speaker: string; n_chars: number }, width: number): number {
  const column = Math.max(200, Math.min(width, 760) - 40);
  const isUser = head.speaker === "user";
  const perLine = (column * (isUser ? 0.8 : 1)) / 7;
  const lines = Math.max(1, Math.ceil(head.n_chars / perLine));
  return isUser ? 20 + Math.min(lines, 14) * 21 + 20 : 22.5 * lines * 1.15 + 46;
}

/** Returns true if the end is visible, so that the view should follow it. */
export function isAtEnd(scrollTop: number, viewHeight: number, scrollHeight: number): boolean {
  return scrollHeight - scrollTop - viewHeight < 32;
}
