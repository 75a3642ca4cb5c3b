/** States at a zoom of 200 %, to see that nothing is cut off: the main views of each window. */
import { wait } from "./steps";

export const zoomedStates: Record<string, {
  /** The state that is enlarged. */
  of: string;
}> = {
  "chat-long-zoomed": { of: "chat-long" },
  "chat-files-zoomed": { of: "chat-files" },
  "chat-files-too-long-for-task-zoomed": { of: "chat-files-too-long-for-task" },
  "chat-model-offer-zoomed": { of: "chat-model-offer" },
  "chat-too-large-zoomed": { of: "chat-too-large" },
  "chat-settings-zoomed": { of: "chat-settings" },
  "prompt-assistant-zoomed": { of: "prompt-assistant" },
  "prompt-replace-zoomed": { of: "prompt-replace" },
  "chat-summary-zoomed": { of: "chat-summary" },
  "settings-api-zoomed": { of: "settings-api" },
  "settings-api-key-zoomed": { of: "settings-api-key" },
  "settings-model-zoomed": { of: "settings-model" },
  "settings-general-assistants-zoomed": { of: "settings-general-assistants" },
  "settings-general-routes-zoomed": { of: "settings-general-routes" },
  "welcome-zoomed": { of: "welcome" },
};

/**
 * Draws a state in a frame of half the size, twice as large, which has the layout of a page at
 * 200 %. Resolves when the page in the frame is ready.
 */
export async function showZoomed(state: string, query: URLSearchParams, target: HTMLElement): Promise<void> {
  const inside = new URLSearchParams(query);
  inside.set("state", state);
  const frame = document.createElement("iframe");
  frame.title = state;
  frame.src = `?${inside}`;
  frame.style.cssText =
    "position: fixed; inset: 0 auto auto 0; width: 50%; height: 50%; border: 0; transform: scale(2); transform-origin: 0 0";
  target.append(frame);
  for (;;) {
    const page = frame.contentDocument?.documentElement.dataset;
    if (page?.wrong) throw new Error(page.wrong);
    if (page?.ready) return;
    await wait(50);
  }
}
