/**
 * An estimate of tokens, because only a loaded model can count them. The app has the same estimate
 * (`estimated_tokens` in Rust), and both are tested with the same cases.
 */
import type { AttachedText } from "../ipc";

/** Returns about how many quarters of a token a UTF-16 code unit is. */
function quarters(unit: number): number {
  if (unit >= 0x3000 || (unit >= 0x30 && unit <= 0x39)) return 4;
  const isLetter = (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x61 && unit <= 0x7a);
  return isLetter || unit <= 0x20 ? 1 : 2;
}

/** Returns about how many tokens a text has. */
export function estimatedTokens(text: string): number {
  let sum = 0;
  for (let at = 0; at < text.length; at += 1) sum += quarters(text.charCodeAt(at));
  return Math.ceil(sum / 4);
}

/** Returns about how many tokens a text has of which only the length is known. */
export function tokensOfLength(n_chars: number): number {
  return Math.ceil(n_chars / 4);
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
