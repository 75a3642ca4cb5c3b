/**
 * Sizes a text area to its text, up to `most` pixels or its `max-height`; then it scrolls. Measures again when the width
 * changes, because a page that is drawn before its window was shown has almost no width.
 */
export function autosize(text: () => string, most: number): (area: HTMLTextAreaElement) => () => void {
  return (area) => {
    let width = -1;

    function fit() {
      width = area.clientWidth;
      area.style.height = "auto";
      area.style.overflowY = "hidden";
      // One empty line has the height of the style, whatever can be measured yet.
      if (area.value === "") return;
      const { scrollHeight } = area;
      const limit = Math.min(most, Number.parseFloat(getComputedStyle(area).maxHeight) || most);
      area.style.height = `${Math.min(scrollHeight, limit)}px`;
      area.style.overflowY = scrollHeight > limit ? "auto" : "hidden";
    }

    $effect(() => {
      void text();
      fit();
    });
    const widths = new ResizeObserver(() => {
      if (area.clientWidth !== width) fit();
    });
    widths.observe(area);
    // Focuses the field when the window is shown.
    area.addEventListener("focus", fit);
    return () => {
      widths.disconnect();
      area.removeEventListener("focus", fit);
    };
  };
}
