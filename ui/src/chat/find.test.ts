import { fireEvent, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { elements } from "../state/elements";
import { find } from "../state/find.svelte";
import { matchesIn, rangesIn, textIn } from "../state/matches";
import { page } from "../state/page.svelte";
import { transcript } from "../state/transcript.svelte";
import { chat, ipc, makeApp, open, openWith, reset } from "./test-page";

describe("the text of messages", () => {
  it("is what the page shows, without labels, and a line per paragraph", () => {
    const html = "<p>One <strong>bo</strong>ld</p><figure class=\"code\"><span class=\"language\">rust</span>" +
      "<button>Copy</button><pre><code>let a;</code></pre></figure><ul><li>Two</li><li>Three</li></ul>";
    expect(textIn(elements(html)).text.trim().split("\n")).toEqual(["One bold", "let a;", "Two", "Three"]);
  });

  it("is searched in any case, and signs mean themselves", () => {
    expect(matchesIn("Äpfel, äpfel", "ÄPFEL")).toEqual([[0, 5], [7, 12]]);
    expect(matchesIn("a.b axb (a.b)", "a.b")).toEqual([[0, 3], [9, 12]]);
    expect(matchesIn("f(x) [1] \\ $&", "f(x) [1] \\ $&")).toHaveLength(1);
    expect(matchesIn("text", "")).toEqual([]);
  });

  it("is marked across formatting, but not across paragraphs", () => {
    const root = document.createElement("div");
    root.append(elements("<p>One <strong>bo</strong>ld</p><p>er</p>"));
    expect(rangesIn(root, "bold").map(String)).toEqual(["bold"]);
    expect(rangesIn(root, "bolder")).toEqual([]);
  });
});

describe("the find bar", () => {
  beforeEach(() => {
    makeApp();
    ipc.aboutView = { ...ipc.aboutView, platform: "linux" };
  });

  afterEach(reset);

  const press = (key: string, more: KeyboardEventInit = {}) =>
    fireEvent.keyDown(document.activeElement ?? document.body, { key, ...more });
  const field = () => screen.findByRole<HTMLInputElement>("textbox", { name: "Find in chat" });
  const says = (text: string) => waitFor(() => expect(screen.getByText(text)).toBeTruthy());

  it("counts the matches and goes from one to the next, around the ends", async () => {
    await openWith(["Tea or coffee?", "Tea. Black tea is strong.", "And green tea?", "Milder."]);
    await press("f", { ctrlKey: true });
    await fireEvent.input(await field(), { target: { value: "tea" } });
    await says("1 of 4");
    await fireEvent.keyDown(await field(), { key: "Enter" });
    await says("2 of 4");
    await press("g", { ctrlKey: true });
    await press("g", { ctrlKey: true });
    await says("4 of 4");
    await fireEvent.click(screen.getByRole("button", { name: "Next match" }));
    await says("1 of 4");
    await fireEvent.keyDown(await field(), { key: "Enter", shiftKey: true });
    await says("4 of 4");
    expect(String(getSelection())).toBe("tea");
    await fireEvent.input(await field(), { target: { value: "cocoa" } });
    await says("No matches");
  });

  it("finds messages that are not on the page", async () => {
    const texts = Array.from({ length: 300 }, (_, index) => `Message ${index}`);
    await open();
    chat.open(ipc.addConversation("Long", texts).id);
    await waitFor(() => expect(transcript.heads).toHaveLength(300));
    await press("f", { ctrlKey: true });
    await fireEvent.input(await field(), { target: { value: "message 12" } });
    // 12 and 120 to 129.
    await waitFor(() => expect(find.found).toHaveLength(11));
  });

  it("finds the new text of an edited response, and does not scroll to the same match again", async () => {
    await openWith(["Tea or coffee?", "Tea is strong."]);
    await press("f", { ctrlKey: true });
    await fireEvent.input(await field(), { target: { value: "strong" } });
    await says("1 of 1");
    const { current } = find;
    const answer = transcript.heads[1]!.id;
    transcript.editing = answer;
    await transcript.editAnswer(answer, "Tea is strong, coffee is stronger.");
    await says("1 of 2");
    expect(find.current).toBe(current);
  });

  it("leaves the view at the end, and the button that goes there appears only elsewhere", async () => {
    await openWith(["Tea or coffee?", "Tea is strong."]);
    const button = () => screen.queryByRole("button", { name: "Jump to latest" });
    await press("f", { ctrlKey: true });
    await fireEvent.input(await field(), { target: { value: "strong" } });
    await says("1 of 1");
    expect(button()).toBeNull();
    const view = document.querySelector<HTMLElement>("section.view")!;
    Object.defineProperties(view, { scrollHeight: { value: 4000 }, clientHeight: { value: 400 } });
    view.scrollTop = 1000;
    await fireEvent.scroll(view);
    expect(button()).not.toBeNull();
    view.scrollTop = 3600;
    await fireEvent.scroll(view);
    expect(button()).toBeNull();
  });

  it("closes with Escape, and the window stays", async () => {
    await openWith(["Question", "Answer"]);
    await press("f", { ctrlKey: true });
    await fireEvent.keyDown(await field(), { key: "Escape" });
    await waitFor(() => expect(screen.queryByRole("textbox", { name: "Find in chat" })).toBeNull());
    expect(ipc.calls.some(({ name }) => name === "hideWindow")).toBe(false);
  });

  it("is not for an empty chat, where the key searches all chats", async () => {
    await open();
    await press("f", { ctrlKey: true });
    expect(find.isShown).toBe(false);
    expect(page.isHistoryShown).toBe(true);
  });
});
