/**
 * Scrolls the transcript: decides which rows are on the page, and keeps the visible text in place.
 * An observer measures heights after layout and before paint, so reading them never forces a
 * layout.
 *
 * Rule: rows above the visible text may change their height without moving it. At the end, the view
 * follows new text until the user scrolls up.
 */
import { tick } from "svelte";
import type { Place } from "../state/place";
import { Heights, isAtEnd, type Range } from "./virtual";

/** Pixels that are rendered outside of the view, so that rows are loaded and measured before they appear. */
const MARGIN = 900;

export class ScrollView<T extends { id: number }> {
  range = $state.raw<Range>({ first: 0, end: 0 });
  padTop = $state(0);
  padBottom = $state(0);
  /** The end is in view. */
  isEndShown = $state(true);

  private isFollowing = true;
  /** Where the view belongs, until its row is measured or the user scrolls. */
  private goal: Place | null = null;
  private heights = new Heights([]);
  private items: readonly T[] = [];
  private known = new Map<number, number>();
  private indexes = new Map<number, number>();
  private rows = new WeakMap<Element, number>();
  private view: HTMLElement | null = null;
  private width = 0;
  private viewHeight = 0;
  private lastTop = 0;
  private observer: ResizeObserver;

  constructor(private guess: (item: T, width: number) => number) {
    this.observer = new ResizeObserver((entries) => this.measured(entries));
  }

  /** The scrolling element. */
  attach = (view: HTMLElement): (() => void) => {
    this.view = view;
    this.observer.observe(view);
    return () => {
      this.observer.disconnect();
      this.view = null;
    };
  };

  /** A row on the page. */
  row = (id: number) => (element: HTMLElement): (() => void) => {
    this.rows.set(element, id);
    this.observer.observe(element);
    return () => this.observer.unobserve(element);
  };

  /** Replaces the rows. The visible text stays in place; a removed row is replaced by the next one. */
  setItems(items: readonly T[]): void {
    const anchor = this.heights.anchor(this.lastTop);
    const anchored = this.items[anchor.index]?.id;
    this.items = items;
    this.indexes = new Map(items.map((item, index) => [item.id, index]));
    this.build();
    const index = anchored === undefined ? undefined : this.indexes.get(anchored);
    if (this.isFollowing || anchored === undefined) this.toEnd();
    else if (index === undefined) void this.moveTo(this.heights.top(anchor.index));
    else void this.moveTo(this.heights.scrollTop({ ...anchor, index }));
  }

  private build(): void {
    const width = this.width || 400;
    this.heights = new Heights(
      this.items.map((item) => this.known.get(item.id) ?? this.guess(item, width)),
    );
  }

  toEnd(): void {
    this.isFollowing = true;
    this.goal = null;
    void this.moveTo(Math.max(0, this.heights.total - this.viewHeight), true);
  }

  /** Returns the index of the first visible row. */
  firstVisible(): number {
    return this.heights.at(this.lastTop);
  }

  /** Returns where the view is, or null at the end. */
  place(): Place | null {
    const { index, into } = this.heights.anchor(this.lastTop);
    const item = this.items[index];
    if (this.isEndShown || !item) return null;
    return { message: item.id, part: into / this.heights.height(index) };
  }

  /** Scrolls to a place of this conversation on another page. */
  restore(place: Place): void {
    this.isFollowing = false;
    this.goal = place;
    void this.moveTo(this.topOf(place));
  }

  private topOf({ message, part }: Place): number {
    const index = this.indexes.get(message) ?? 0;
    return this.heights.top(index) + part * this.heights.height(index);
  }

  /** Scrolls to a row, unless it is on the page. The view does not follow new text anymore. */
  reveal(id: number): void {
    const index = this.indexes.get(id);
    if (index === undefined) return;
    this.isFollowing = false;
    this.goal = null;
    if (index < this.range.first || index >= this.range.end) void this.moveTo(this.heights.top(index));
  }

  private async moveTo(top: number, isEnd = false): Promise<void> {
    this.show(top);
    await tick();
    if (!this.view) return;
    this.view.scrollTop = isEnd ? this.view.scrollHeight : top;
    this.moved(this.view);
  }

  /** Records where the view is. A view that follows new text is behind it only until the next frame. */
  private moved(view: HTMLElement): void {
    const { scrollTop, scrollHeight, clientHeight } = view;
    this.lastTop = scrollTop;
    this.isEndShown = this.isFollowing || isAtEnd(scrollTop, clientHeight, scrollHeight);
  }

  /** Returns the rows that must be on the page when the view starts at `top`. */
  private show(top: number): void {
    const range = this.heights.range(top, this.viewHeight || 800, MARGIN);
    if (range.first === this.range.first && range.end === this.range.end) return;
    this.range = range;
    this.padTop = this.heights.top(range.first);
    this.padBottom = this.heights.total - this.heights.top(range.end);
  }

  scrolled = (): void => {
    if (!this.view) return;
    const { scrollTop, scrollHeight, clientHeight } = this.view;
    if (Math.abs(scrollTop - this.lastTop) > 1) this.goal = null;
    if (isAtEnd(scrollTop, clientHeight, scrollHeight)) this.isFollowing = true;
    else if (scrollTop < this.lastTop - 1) this.isFollowing = false;
    this.moved(this.view);
    this.show(scrollTop);
  };

  private measured(entries: ResizeObserverEntry[]): void {
    const { view } = this;
    if (!view) return;
    const anchor = this.heights.anchor(this.lastTop);
    let above = 0;
    let isWidthChanged = false;
    for (const entry of entries) {
      const height = entry.borderBoxSize[0]?.blockSize ?? 0;
      if (entry.target === view) isWidthChanged = this.resized(entry.contentRect.width, height) || isWidthChanged;
      else if (height > 0) above += this.rowMeasured(entry.target, height, anchor.index);
    }
    const { goal } = this;
    if (goal && this.known.has(goal.message)) this.goal = null;
    if (isWidthChanged) {
      this.build();
      this.range = { first: 0, end: 0 };
      void this.moveTo(goal ? this.topOf(goal) : this.heights.scrollTop(anchor), this.isFollowing);
    } else if (this.isFollowing) view.scrollTop = view.scrollHeight;
    else if (goal) view.scrollTop = this.topOf(goal);
    else if (above !== 0) view.scrollTop += above;
    this.moved(view);
    this.show(this.lastTop);
  }

  /** Returns true if all heights must be estimated again. */
  private resized(width: number, height: number): boolean {
    this.viewHeight = height;
    const isWidthChanged = Math.abs(width - this.width) > 1;
    this.width = width;
    if (isWidthChanged) this.known.clear();
    return isWidthChanged;
  }

  /** Returns how much the content above the anchor grew. */
  private rowMeasured(row: Element, height: number, anchor: number): number {
    const id = this.rows.get(row);
    const index = id === undefined ? undefined : this.indexes.get(id);
    if (id === undefined || index === undefined) return 0;
    this.known.set(id, height);
    const by = this.heights.set(index, height);
    return index < anchor ? by : 0;
  }
}
