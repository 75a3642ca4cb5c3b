/** Whether a key that is pressed here is text. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["range", "checkbox", "radio"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target.isContentEditable === true;
}
