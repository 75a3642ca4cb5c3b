import { describe, expect, it } from "vitest";
import { guess, Heights, isAtEnd } from "./virtual";

/** The same computed with plain sums. */
function top(heights: number[], index: number): number {
  return heights.slice(0, index).reduce((sum, height) => sum + height, 0);
}

function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

describe("heights of rows", () => {
  it("add up like plain sums, after any changes", () => {
    const next = random(7);
    const plain = Array.from({ length: 137 }, () => 20 + Math.floor(next() * 300));
    const heights = new Heights(plain);
    for (let change = 0; change < 400; change++) {
      const index = Math.floor(next() * plain.length);
      const height = Math.floor(next() * 900);
      expect(heights.set(index, height)).toBe(height - plain[index]!);
      plain[index] = height;
      const asked = Math.floor(next() * (plain.length + 1));
      expect(heights.top(asked)).toBe(top(plain, asked));
    }
    expect(heights.total).toBe(top(plain, plain.length));
  });

  it("find the row at a position, also outside of the list", () => {
    const heights = new Heights([10, 20, 30]);
    const places = [-5, 0, 9, 10, 29, 30, 59, 60, 1e9];
    expect(places.map((y) => heights.at(y))).toEqual([0, 0, 0, 1, 1, 2, 2, 2, 2]);
  });

  it("have no rows without messages", () => {
    const heights = new Heights([]);
    expect(heights.total).toBe(0);
    expect(heights.range(0, 600, 300)).toEqual({ first: 0, end: 0 });
  });

  it("render only what is near the view", () => {
    const heights = new Heights(Array.from({ length: 5000 }, () => 100));
    expect(heights.range(100_000, 600, 400)).toEqual({ first: 996, end: 1011 });
    expect(heights.range(0, 600, 400)).toEqual({ first: 0, end: 11 });
    expect(heights.range(499_400, 600, 400)).toEqual({ first: 4990, end: 5000 });
  });

  it("keep the visible text in place when rows above become higher", () => {
    const heights = new Heights(Array.from({ length: 50 }, () => 100));
    const anchor = heights.anchor(2035);
    expect(anchor).toEqual({ index: 20, into: 35 });
    heights.set(3, 340);
    heights.set(19, 60);
    expect(heights.scrollTop(anchor)).toBe(2035 + 240 - 40);
  });

  it("do not move the view when rows below change", () => {
    const heights = new Heights(Array.from({ length: 50 }, () => 100));
    const anchor = heights.anchor(2035);
    heights.set(21, 700);
    expect(heights.scrollTop(anchor)).toBe(2035);
  });
});

describe("an estimated height", () => {
  it("grows with the text and shrinks with the width", () => {
    const short = guess({ speaker: "assistant", n_chars: 80 }, 420);
    const long = guess({ speaker: "assistant", n_chars: 8000 }, 420);
    const wide = guess({ speaker: "assistant", n_chars: 8000 }, 900);
    expect(long).toBeGreaterThan(short * 10);
    expect(wide).toBeLessThan(long);
  });
});

describe("the end", () => {
  it("is reached within a line of it", () => {
    expect(isAtEnd(1000, 600, 1600)).toBe(true);
    expect(isAtEnd(980, 600, 1600)).toBe(true);
    expect(isAtEnd(900, 600, 1600)).toBe(false);
  });
});
