import { describe, expect, it } from "vitest";
import type { AnswerStats, MessageView } from "../ipc";
import { contextUse, estimatedTokens, historyOf, isWorthShowing } from "./context";

const stats: AnswerStats = {
  prompt_tokens: 400, cached_tokens: 0, generated_tokens: 100, time_to_first_token_seconds: 0.4,
  tokens_per_second: 40, dropped_messages: 0,
};

function message(id: number, change: Partial<MessageView> = {}): MessageView {
  return {
    id, conversation: 1, speaker: id % 2 === 1 ? "user" : "assistant", reasoning: [], blocks: [], text: "",
    attachments: [], ending: { ending: "stop" }, model: null, stats: null, created_at: 0, siblings: [id], ...change,
  };
}

function history(messages: MessageView[], systemPrompt = "") {
  const heads = messages.map(({ id, speaker, text }) => ({ id, speaker, n_chars: text.length }));
  return historyOf(heads, (id) => messages.find((one) => one.id === id), systemPrompt);
}

describe("the estimate of tokens", () => {
  it("takes four letters or one Chinese character for a token", () => {
    expect(estimatedTokens("")).toBe(0);
    expect(estimatedTokens("a".repeat(400))).toBe(100);
    expect(estimatedTokens("语".repeat(40))).toBe(40);
    expect(estimatedTokens("a".repeat(1_000_000))).toBe(250_000);
    // The start of a text does not stand for all of it.
    expect(estimatedTokens("语".repeat(4000) + "a".repeat(60_000))).toBe(22_000);
  });

  it("takes the counts of the last response, and estimates only what is newer", () => {
    const path = [message(1, { text: "a".repeat(9000) }), message(2, { stats }), message(3, { text: "a".repeat(80) })];
    expect(history(path, "ignored")).toEqual({ tokens: 520, isShortened: false });
    expect(history(path.slice(0, 1), "a".repeat(40))).toEqual({ tokens: 2260, isShortened: false });
  });

  it("counts all attachments of a message", () => {
    const attachments = [{ name: "a.md", text: "a".repeat(400) }, { name: null, text: "b".repeat(40) }];
    expect(history([message(1, { text: "c".repeat(8), attachments })]).tokens).toBe(112);
  });

  it("leaves out reasoning, which is not sent back", () => {
    const reasoning = [{ is_inside: false, html: "<p>Hm.</p>" }];
    const path = [message(1), message(2, { stats, reasoning, text: "a".repeat(40) })];
    expect(history(path).tokens).toBe(410);
  });
});

describe("the context of the next message", () => {
  const before = { tokens: 3000, isShortened: false };

  it("reserves tokens for the response", () => {
    expect(contextUse(before, 10, 8192, null)).toEqual({ used: 3010, left: 5182, outcome: "fits" });
    expect(contextUse(before, 10, 4096, null).outcome).toBe("fits");
    expect(contextUse(before, 100, 4096, null).outcome).toBe("shortened");
    expect(contextUse(before, 100, 4096, 256).outcome).toBe("fits");
  });

  it("shows numbers that agree, once they are worth it", () => {
    const use = contextUse({ tokens: 0, isShortened: false }, 105, 8192, null);
    expect(use).toEqual({ used: 110, left: 8082, outcome: "fits" });
    expect(isWorthShowing(use, false)).toBe(false);
    expect(isWorthShowing(use, true)).toBe(true);
    expect(isWorthShowing(contextUse(before, 10, 8192, null), false)).toBe(true);
    expect(isWorthShowing(contextUse({ tokens: 10, isShortened: true }, 10, 8192, null), false)).toBe(true);
  });

  it("stays shortened once messages were left out, and says that a message alone is too long", () => {
    expect(contextUse({ tokens: 3000, isShortened: true }, 10, 8192, null).outcome).toBe("shortened");
    expect(contextUse({ tokens: 0, isShortened: false }, 5000, 4096, null)).toEqual(
      { used: 5000, left: 0, outcome: "too_long" });
    expect(contextUse({ tokens: 0, isShortened: false }, 4000, 4096, null).outcome).toBe("fits");
  });
});
