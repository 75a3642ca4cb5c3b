/**
 * How much of the context the next message needs. The last response counted everything before it;
 * later text is estimated, because only a loaded model can count its tokens.
 */
import type { MessageHead, MessageId, MessageView, Overflow, SummaryView } from "../ipc";
import { attachedTokens, estimatedTokens, tokensOfLength } from "../state/tokens";

/** Tokens reserved for a response without a maximum length; at most a quarter of the context. */
const RESERVED_TOKENS = 1024;

/** An estimate has no exact digits. */
export function rounded(tokens: number): number {
  return tokens < 100 ? tokens : Math.round(tokens / 10) * 10;
}

/**
 * Returns how many messages at the start of a path its last response was written without; none for a
 * chat that may not be shortened, because its next response gets all of them.
 */
export function leftOut(
  heads: readonly MessageHead[], view: (id: MessageId) => MessageView | undefined, overflow: Overflow,
): number {
  if (overflow === "stop") return 0;
  const last = heads.findLast(({ id }) => view(id)?.stats);
  return (last && view(last.id)?.stats?.dropped_messages) ?? 0;
}

/** Returns the summary of these messages; the latest one of their beginning if there is none of all of them. */
export function summaryOf(summaries: readonly SummaryView[], heads: readonly MessageHead[]): SummaryView | null {
  const all = summaries.find((one) => one.last === heads.at(-1)?.id);
  const isIn = (one: SummaryView) => one.text !== "" && heads.some((head) => head.id === one.last);
  return all ?? summaries.findLast(isIn) ?? null;
}

/**
 * Returns the tokens of a path and its system prompt, without messages that were left out. `newest`: of
 * this many newest messages, as the route of the next one says; null for all.
 */
export function historyOf(
  heads: readonly MessageHead[], view: (id: MessageId) => MessageView | undefined, systemPrompt: string,
  overflow: Overflow, newest: number | null = null,
): number {
  let tokens = 0;
  const isPart = newest !== null;
  const last = isPart ? Math.min(newest, heads.length - leftOut(heads, view, overflow)) : heads.length;
  for (const { id, n_chars } of heads.toReversed().slice(0, last)) {
    const message = view(id);
    if (!message) {
      tokens += tokensOfLength(n_chars);
      continue;
    }
    const { stats, reasoning, text, attachments } = message;
    // The counts of a request without all messages say nothing of the rest, and those of one with all of
    // them nothing of a part.
    if (isPart || !stats || stats.is_partial || (overflow === "stop" && stats.dropped_messages > 0)) {
      tokens += estimatedTokens(text) + attachedTokens(attachments);
      continue;
    }
    // Reasoning is not sent back.
    const response = reasoning.length === 0 ? stats.generated_tokens
      : Math.min(stats.generated_tokens, estimatedTokens(text));
    return tokens + stats.prompt_tokens + response;
  }
  return tokens + estimatedTokens(systemPrompt);
}

/** A new chat uses little of the context, which is not worth a number. */
const LEAST_SHARE = 0.05;

/** Returns true if the use of a context is shown. */
export function isWorthShowing({ used, left, outcome }: ContextUse, hasAttachments: boolean): boolean {
  return hasAttachments || outcome !== "fits" || used >= LEAST_SHARE * (used + left);
}

export interface ContextUse {
  /** Rounded, because it is an estimate. */
  used: number;
  left: number;
  /**
   * `shortened`: the oldest messages will be left out; `stops`: the chat does not fit and may not be
   * shortened; `too_long`: the draft alone does not fit.
   */
  outcome: "fits" | "shortened" | "stops" | "too_long";
}

/**
 * Returns what a draft after `history` tokens makes of a context of `limit` tokens. `response`: the tokens
 * that are kept free for the response, null for as many as usual.
 */
export function contextUse(
  history: number, draft: number, limit: number, response: number | null, overflow: Overflow,
): ContextUse {
  const used = rounded(history + draft);
  const reserved = overflow === "stop" ? 0 : Math.min(response ?? RESERVED_TOKENS, limit / 4);
  const isFull = history > 0 && used > limit - reserved;
  const full = overflow === "stop" ? "stops" : "shortened";
  return {
    used, left: Math.max(0, limit - used),
    outcome: draft >= limit ? "too_long" : isFull ? full : "fits",
  };
}
