/** The estimate of tokens, with the cases that the app is tested with. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { attachedBytes, attachedTokens, estimatedTokens } from "./tokens";

interface Case {
  /** Texts, and how often each is repeated. */
  parts: [string, number][];
  tokens: number;
}

const cases = JSON.parse(readFileSync("../crates/chat/tests/fixtures/estimated_tokens.json", "utf8")) as Case[];

it("is that of the app", () => {
  expect(cases.length).toBeGreaterThan(5);
  for (const { parts, tokens } of cases) {
    const text = parts.map(([part, n]) => part.repeat(n)).join("");
    expect(estimatedTokens(text), JSON.stringify(parts)).toBe(tokens);
  }
});

it("counts attachments together", () => {
  const attachments = [{ name: "a.md", text: "a".repeat(41) }, { name: null, text: "语语" }];
  expect(attachedTokens(attachments)).toBe(13);
  expect(attachedBytes(attachments)).toBe(47);
});
