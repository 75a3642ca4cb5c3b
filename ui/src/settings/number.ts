/**
 * Returns the number in a text that the user typed, with a decimal point or comma; null if it is not a
 * number from `min` to `max`. With 0 `digits` it must be whole.
 */
export function numberIn(text: string, min: number, max: number, digits: number): number | null {
  const plain = text.trim().replace(",", ".");
  if (!(digits === 0 ? /^\d+$/ : /^(\d+\.?\d*|\.\d+)$/).test(plain)) return null;
  const value = Number(plain);
  return value >= min && value <= max ? value : null;
}
