/** A text area that is as high as its text, up to a limit; then it scrolls. */
export function autosize(text: () => string, most: number): (area: HTMLTextAreaElement) => void {
  return (area) => {
    void text();
    area.style.height = "auto";
    const { scrollHeight } = area;
    area.style.height = `${Math.min(scrollHeight, most)}px`;
    area.style.overflowY = scrollHeight > most ? "auto" : "hidden";
  };
}
