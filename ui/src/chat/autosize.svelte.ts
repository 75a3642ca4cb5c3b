/**
 * A text area that is as high as its text, up to a limit; then it scrolls. It is measured again
 * when its width changes: a page that is drawn before its window was ever seen has next to none.
 */
export function autosize(text: () => string, most: number): (area: HTMLTextAreaElement) => () => void {
  return (area) => {
    let width = -1;

    function fit() {
      width = area.clientWidth;
      area.style.height = "auto";
      area.style.overflowY = "hidden";
      // One empty line is as high as the style says, whatever can be measured yet.
      if (area.value === "") return;
      const { scrollHeight } = area;
      area.style.height = `${Math.min(scrollHeight, most)}px`;
      area.style.overflowY = scrollHeight > most ? "auto" : "hidden";
    }

    $effect(() => {
      void text();
      fit();
    });
    const widths = new ResizeObserver(() => {
      if (area.clientWidth !== width) fit();
    });
    widths.observe(area);
    // A window that is shown gives its field the focus.
    area.addEventListener("focus", fit);
    return () => {
      widths.disconnect();
      area.removeEventListener("focus", fit);
    };
  };
}
