/**
 * How much of the context the next message needs. The last response counted everything before it;
 * later text is estimated, because only a loaded model can count its tokens.
 */
import type {
  AttachedText, MessageHead, MessageId, MessageView, Overflow, Route, SummaryView,
} from "../ipc";

const CHARS_PER_TOKEN = 4;
/** Tokens reserved for a response without a maximum length; at most a quarter of the context. */
const RESERVED_TOKENS = 1024;

/** The share of the context that earlier messages may take in requests of a route; 1 for all of them. */
export type HistoryShare = (route: Route) => number;

/** Characters of Chinese, Japanese and Korean, of which each is about one token. */
const WIDE = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]/g;
const N_SAMPLES = 8;
const SAMPLE_CHARS = 500;

/** Returns about how many tokens a text has. Parts of a long text stand for the rest. */
export function estimatedTokens(text: string): number {
  const step = Math.max(SAMPLE_CHARS, text.length / N_SAMPLES);
  const starts = Array.from({ length: N_SAMPLES }, (_, n) => Math.floor(n * step));
  const sample = starts.map((start) => text.slice(start, start + SAMPLE_CHARS)).join("");
  const wide = (sample.match(WIDE)?.length ?? 0) / Math.max(1, sample.length);
  return Math.ceil(text.length * (wide + (1 - wide) / CHARS_PER_TOKEN));
}

/** Returns about how many tokens attachments have. */
export function attachedTokens(attachments: readonly AttachedText[]): number {
  return attachments.reduce((sum, { text }) => sum + estimatedTokens(text), 0);
}

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

/** Returns the tokens of a path and its system prompt, without messages that were left out. */
export function historyOf(
  heads: readonly MessageHead[], view: (id: MessageId) => MessageView | undefined, systemPrompt: string,
  overflow: Overflow, share: HistoryShare,
): number {
  let tokens = 0;
  for (const { id, n_chars } of heads.toReversed()) {
    const message = view(id);
    if (!message) {
      tokens += Math.ceil(n_chars / CHARS_PER_TOKEN);
      continue;
    }
    const { stats, reasoning, text, attachments } = message;
    // The counts of a request without all messages say nothing of the rest.
    if (!stats || share(stats.route) < 1 ||
      (overflow === "stop" && stats.dropped_messages > 0)) {
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

/** Returns what a draft after `history` tokens makes of a context of `limit` tokens. */
export function contextUse(
  history: number, draft: number, limit: number, maxTokens: number | null, overflow: Overflow,
): ContextUse {
  const used = rounded(history + draft);
  const reserved = overflow === "stop" ? 0 : Math.min(maxTokens ?? RESERVED_TOKENS, limit / 4);
  const isFull = history > 0 && used > limit - reserved;
  const full = overflow === "stop" ? "stops" : "shortened";
  return {
    used, left: Math.max(0, limit - used),
    outcome: draft >= limit ? "too_long" : isFull ? full : "fits",
  };
}
