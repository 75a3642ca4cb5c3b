/**
 * An estimate of tokens, because only a loaded model can count them. The app has the same estimate
 * (`estimated_tokens` in Rust), and both are tested with the same cases.
 */
import type { AttachedText } from "../ipc";

const CHARS_PER_TOKEN = 4;

/** Characters of Chinese, Japanese and Korean, of which each is about one token. */
function isWide(code: number): boolean {
  return (code >= 0x3040 && code <= 0x30ff) || (code >= 0x3400 && code <= 0x9fff) ||
    (code >= 0xac00 && code <= 0xd7af) || (code >= 0xf900 && code <= 0xfaff);
}

/** Returns about how many tokens a text has. */
export function estimatedTokens(text: string): number {
  let wide = 0;
  for (let at = 0; at < text.length; at += 1) if (isWide(text.charCodeAt(at))) wide += 1;
  return wide + Math.ceil((text.length - wide) / CHARS_PER_TOKEN);
}

/** Returns about how many tokens a text has of which only the length is known. */
export function tokensOfLength(n_chars: number): number {
  return Math.ceil(n_chars / CHARS_PER_TOKEN);
}

interface Size {
  tokens: number;
  bytes: number;
}

/** An attached text never changes, and may have millions of characters. */
const sizes = new WeakMap<AttachedText, Size>();

function sizeOf(attached: AttachedText): Size {
  const known = sizes.get(attached);
  if (known) return known;
  const size = { tokens: estimatedTokens(attached.text), bytes: utf8Bytes(attached.text) };
  sizes.set(attached, size);
  return size;
}

/** Returns about how many tokens attachments have. */
export function attachedTokens(attachments: readonly AttachedText[]): number {
  return attachments.reduce((sum, one) => sum + sizeOf(one).tokens, 0);
}

/** Returns the bytes of attachments in UTF-8. */
export function attachedBytes(attachments: readonly AttachedText[]): number {
  return attachments.reduce((sum, one) => sum + sizeOf(one).bytes, 0);
}

export function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
