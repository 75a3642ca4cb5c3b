/**
 * How much of the context the next message needs. The last response counted everything before it;
 * later text is estimated, because only a loaded model can count its tokens.
 */
import type { AttachedText, MessageHead, MessageId, MessageView } from "../ipc";

const CHARS_PER_TOKEN = 4;
/** Tokens reserved for a response without a maximum length; at most a quarter of the context. */
const RESERVED_TOKENS = 1024;

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

export interface History {
  tokens: number;
  /** The oldest messages did not fit the last request. */
  isShortened: boolean;
}

/** Returns the tokens of a path and its system prompt. */
export function historyOf(
  heads: readonly MessageHead[], view: (id: MessageId) => MessageView | undefined, systemPrompt: string,
): History {
  let tokens = 0;
  for (const { id, n_chars } of heads.toReversed()) {
    const message = view(id);
    if (!message) {
      tokens += Math.ceil(n_chars / CHARS_PER_TOKEN);
      continue;
    }
    const { stats, reasoning, text, attachments } = message;
    if (!stats) {
      tokens += estimatedTokens(text) + attachedTokens(attachments);
      continue;
    }
    // Reasoning is not sent back.
    const response = reasoning.length === 0 ? stats.generated_tokens
      : Math.min(stats.generated_tokens, estimatedTokens(text));
    return { tokens: tokens + stats.prompt_tokens + response, isShortened: stats.dropped_messages > 0 };
  }
  return { tokens: tokens + estimatedTokens(systemPrompt), isShortened: false };
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
  /** `shortened`: the oldest messages will be left out; `too_long`: the draft alone does not fit. */
  outcome: "fits" | "shortened" | "too_long";
}

/** Returns what a draft makes of a context of `limit` tokens. */
export function contextUse(history: History, draft: number, limit: number, maxTokens: number | null): ContextUse {
  const used = rounded(history.tokens + draft);
  const room = limit - Math.min(maxTokens ?? RESERVED_TOKENS, limit / 4);
  const isShortened = history.isShortened || (history.tokens > 0 && used > room);
  return {
    used, left: Math.max(0, limit - used),
    outcome: draft >= limit ? "too_long" : isShortened ? "shortened" : "fits",
  };
}
