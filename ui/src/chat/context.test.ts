import { describe, expect, it } from "vitest";
import type { AnswerStats, MessageView, Overflow } from "../ipc";
import { contextUse, historyOf, isWorthShowing, leftOut } from "./context";

const stats: AnswerStats = {
  prompt_tokens: 400, cached_tokens: 0, generated_tokens: 100, time_to_first_token_seconds: 0.4,
  tokens_per_second: 40, dropped_messages: 0, context_length: null, route: "chat",
  is_partial: false,
};

function message(id: number, change: Partial<MessageView> = {}): MessageView {
  return {
    id, conversation: 1, speaker: id % 2 === 1 ? "user" : "assistant", reasoning: [], blocks: [], text: "",
    attachments: [], ending: { ending: "stop" }, model: null, stats: null, created_at: 0, siblings: [id], ...change,
  };
}

function headsOf(messages: MessageView[]) {
  return messages.map(({ id, speaker, text }) => ({ id, speaker, n_chars: text.length }));
}

function history(
  messages: MessageView[], systemPrompt = "", overflow: Overflow = "drop_oldest", newest: number | null = null,
) {
  const view = (id: number) => messages.find((one) => one.id === id);
  return historyOf(headsOf(messages), view, systemPrompt, overflow, newest);
}

describe("the tokens of earlier messages", () => {
  it("takes the counts of the last response, and estimates only what is newer", () => {
    const path = [message(1, { text: "a".repeat(9000) }), message(2, { stats }), message(3, { text: "a".repeat(80) })];
    expect(history(path, "ignored")).toBe(520);
    expect(history(path.slice(0, 1), "a".repeat(40))).toBe(2260);
  });

  it("counts everything in a chat that may no longer be shortened", () => {
    const cut = message(4, { text: "a".repeat(40), stats: { ...stats, dropped_messages: 2 } });
    const path = [message(1), message(2, { stats }), message(3, { text: "a".repeat(80) }), cut];
    expect(history(path)).toBe(500);
    expect(history(path, "", "stop")).toBe(530);
  });

  it("takes no counts of a request that had only a part of them", () => {
    const alone = message(4, { text: "a".repeat(40), stats: { ...stats, route: "translate", is_partial: true } });
    const path = [message(1), message(2, { stats }), message(3, { text: "a".repeat(80) }), alone];
    // 500 before it, and 20 and 10 estimated.
    expect(history(path)).toBe(530);
    // "Translate that into German" had all of them.
    const all = { ...alone, stats: { ...stats, prompt_tokens: 450, route: "translate" as const } };
    expect(history([...path.slice(0, 3), all])).toBe(550);
  });

  it("counts only those that the route of the next message carries", () => {
    const path = [
      message(1, { text: "a".repeat(4000) }), message(2, { stats, text: "a".repeat(400) }),
      message(3, { text: "a".repeat(80) }), message(4, { stats, text: "a".repeat(40) }),
    ];
    expect(history(path)).toBe(500);
    expect(history(path, "a".repeat(8), "drop_oldest", 0)).toBe(2);
    expect(history(path, "a".repeat(8), "drop_oldest", 2)).toBe(32);
    expect(history(path, "", "drop_oldest", 4)).toBe(1130);
    // Those that were left out before are not sent either.
    const cut = { ...path[3]!, stats: { ...stats, dropped_messages: 2 } };
    expect(history([...path.slice(0, 3), cut], "", "drop_oldest", 4)).toBe(30);
  });

  it("counts all attachments of a message", () => {
    const attachments = [{ name: "a.md", text: "a".repeat(400) }, { name: null, text: "b".repeat(40) }];
    expect(history([message(1, { text: "c".repeat(8), attachments })])).toBe(112);
  });

  it("leaves out reasoning, which is not sent back", () => {
    const reasoning = [{ is_inside: false, html: "<p>Hm.</p>" }];
    const path = [message(1), message(2, { stats, reasoning, text: "a".repeat(40) })];
    expect(history(path)).toBe(410);
  });
});

describe("the context of the next message", () => {
  const use = (
    history: number, draft: number, limit: number, response: number | null = null,
    overflow: Overflow = "drop_oldest",
  ) => contextUse(history, draft, limit, response, overflow);

  it("reserves tokens for the response", () => {
    expect(use(3000, 10, 8192)).toEqual({ used: 3010, left: 5182, outcome: "fits" });
    expect(use(3000, 10, 4096).outcome).toBe("fits");
    expect(use(3000, 100, 4096).outcome).toBe("shortened");
    expect(use(3000, 100, 4096, 256).outcome).toBe("fits");
  });

  it("is used to its end by a chat that may not be shortened", () => {
    expect(use(3000, 1000, 4096, null, "stop").outcome).toBe("fits");
    expect(use(3000, 1090, 4096, null, "stop").outcome).toBe("fits");
    expect(use(3000, 1100, 4096, null, "stop").outcome).toBe("stops");
  });

  it("shows numbers that agree, once they are worth it", () => {
    const little = use(0, 105, 8192);
    expect(little).toEqual({ used: 110, left: 8082, outcome: "fits" });
    expect(isWorthShowing(little, false)).toBe(false);
    expect(isWorthShowing(little, true)).toBe(true);
    expect(isWorthShowing(use(3000, 10, 8192), false)).toBe(true);
  });

  it("says that a message alone is too long", () => {
    expect(use(0, 5000, 4096)).toEqual({ used: 5000, left: 0, outcome: "too_long" });
    expect(use(0, 4000, 4096).outcome).toBe("fits");
  });
});

describe("the messages that were left out", () => {
  it("are those of the last response with statistics", () => {
    const find = (messages: MessageView[]) => (id: number) => messages.find((one) => one.id === id);
    const of = (...messages: MessageView[]) => leftOut(headsOf(messages), find(messages), "drop_oldest");
    const [first, second] = [message(2, { stats }), message(4, { stats: { ...stats, dropped_messages: 2 } })];
    expect(of()).toBe(0);
    expect(of(message(1), first)).toBe(0);
    const path = [message(1), first, message(3), second];
    expect(of(...path)).toBe(2);
    expect(leftOut(headsOf(path), find(path), "stop")).toBe(0);
    // A failed response has none, and a later one may have got everything.
    expect(of(message(1), first, message(3), second, message(5), message(6))).toBe(2);
    expect(of(message(1), first, message(3), second, message(5), message(6, { stats }))).toBe(0);
  });
});
