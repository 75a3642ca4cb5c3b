import { fireEvent, screen, waitFor, within } from "@testing-library/svelte";
import { tick, unmount } from "svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc, pieces } from "../ipc/fake";
import { blocks } from "../ipc/fake/text";
import { announcer } from "../state/announcer.svelte";
import { composer } from "../state/composer.svelte";
import { page } from "../state/page.svelte";
import { transcript } from "../state/transcript.svelte";
import { openChat } from "./open";

let ipc: FakeIpc;
let chat: Awaited<ReturnType<typeof openChat>>;
let target: HTMLElement;

beforeEach(async () => {
  innerWidth = 420;
  ipc = new FakeIpc();
  ipc.script = { answer: pieces("First part.\n\nSecond part."), rate: 0 };
  useIpc(ipc);
});

afterEach(async () => {
  await transcript.open(null);
  page.isHistoryShown = page.isStatusShown = page.areShortcutsShown = false;
  page.link = null;
  composer.clear();
  announcer.said = [];
  await unmount(chat);
  target.remove();
});

async function open() {
  target = document.createElement("div");
  document.body.append(target);
  chat = await openChat(target);
  await tick();
}

async function openWith(texts: Parameters<FakeIpc["addConversation"]>[1]) {
  const { id } = ipc.addConversation("A talk", texts);
  await open();
  chat.open(id);
  await waitFor(() => expect(screen.getAllByRole("article")).toHaveLength(texts.length));
  return id;
}

const field = () => screen.getByLabelText<HTMLTextAreaElement>("Message");
const called = (name: string) => ipc.calls.filter((call) => call.name === name);

async function ask(text: string) {
  await fireEvent.input(field(), { target: { value: text } });
  await fireEvent.keyDown(field(), { key: "Enter" });
  await waitFor(() => expect(called("follow")).not.toHaveLength(0));
}

describe("the chat", () => {
  it("asks with Enter, shows the answer as it grows, and ends it", async () => {
    await open();
    await ask("Hello?");
    expect(field().value).toBe("");
    await screen.findByText("Hello?", { selector: ".bubble" });
    ipc.player().write(3);
    await screen.findByText("First part.", { selector: ".prose p" });
    const first = screen.getByText("First part.", { selector: ".prose p" });
    ipc.player().write(9);
    ipc.player().end({ ending: "stop" });
    await screen.findByText("Second part.", { selector: ".prose p" });
    await screen.findByLabelText("Answer again");
    expect(screen.getByText("First part.", { selector: ".prose p" })).toBe(first);
  });

  it("does not take an Enter that chooses characters", async () => {
    await open();
    await fireEvent.input(field(), { target: { value: "にほん" } });
    await fireEvent.keyDown(field(), { key: "Enter", isComposing: true });
    await fireEvent.keyDown(field(), { key: "Enter", keyCode: 229 });
    expect(called("ask")).toHaveLength(0);
    await fireEvent.keyDown(field(), { key: "Enter", shiftKey: true });
    expect(called("ask")).toHaveLength(0);
  });

  it("stops with Escape and with the button, and keeps what was written", async () => {
    await open();
    await ask("Go on");
    ipc.player().write(1);
    await fireEvent.keyDown(window, { key: "Escape" });
    await screen.findByText("You stopped it here.");
    expect(called("stop")).toHaveLength(1);
    expect(called("hideWindow")).toHaveLength(0);
    await ask("Again");
    await fireEvent.click(await screen.findByLabelText("Stop"));
    await waitFor(() => expect(called("stop")).toHaveLength(2));
  });

  it("puts a question back that could not be asked, and says why", async () => {
    await open();
    ipc.refuse("ask", { code: "storage", reason: "transom.db: the disk is full" });
    await fireEvent.input(field(), { target: { value: "Keep me" } });
    await fireEvent.keyDown(field(), { key: "Enter" });
    await screen.findByText("The conversation could not be saved.");
    expect(field().value).toBe("Keep me");
  });

  it("edits the last message with the up key, and Escape leaves it", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.keyDown(field(), { key: "ArrowUp" });
    const edit = await screen.findByLabelText<HTMLTextAreaElement>("Edit your message");
    expect(edit.value).toBe("What?");
    await fireEvent.keyDown(edit, { key: "Escape" });
    expect(screen.queryByLabelText("Edit your message")).toBeNull();
    await fireEvent.keyDown(field(), { key: "ArrowUp" });
    const again = await screen.findByLabelText("Edit your message");
    await fireEvent.input(again, { target: { value: "Which?" } });
    await fireEvent.keyDown(again, { key: "Enter" });
    await waitFor(() => expect(called("editMessage")[0]?.values[1]).toBe("Which?"));
    await screen.findByText("Which?", { selector: ".bubble" });
  });

  it("answers again and goes between the versions", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.click(screen.getByLabelText("Answer again"));
    await waitFor(() => expect(called("regenerate")).toHaveLength(1));
    ipc.player().write(20);
    ipc.player().end({ ending: "stop" });
    await screen.findByText("2/2");
    await fireEvent.click(screen.getByLabelText("Previous version"));
    await screen.findByText("That.");
    await screen.findByText("1/2");
  });

  it("offers what a model that is too large leaves to do", async () => {
    await openWith(["What?", { text: "", ending: { ending: "failed", failure: { code: "too_large",
      need_bytes: 12 * 2 ** 30, budget_bytes: 8 * 2 ** 30, context_that_fits: 4096 } } }]);
    screen.getByText("It needs 12 GB. Transom may use 8 GB at present.");
    await fireEvent.click(screen.getByText("Try anyway"));
    expect(called("regenerate")[0]?.values[1]).toBe(true);
  });

  it("shortens the context of a model that is too large, and tries again", async () => {
    await openWith(["What?", { text: "", ending: { ending: "failed", failure: { code: "too_large",
      need_bytes: 12 * 2 ** 30, budget_bytes: 8 * 2 ** 30, context_that_fits: 4096 } } }]);
    await fireEvent.click(screen.getByText("Use a context of 4,096 tokens"));
    await waitFor(() => expect(called("regenerate")[0]?.values[1]).toBe(false));
    expect(called("updateSettings")[0]?.values[0]).toEqual(
      { models: { "/models/Qwen3-4B-4bit": { context_length: 4096 } } });
  });

  it("shows where a link goes before it opens it", async () => {
    await openWith(["Where?", "See [the page](https://example.org/a?b=c)."]);
    await fireEvent.click(screen.getByText("the page"));
    expect(ipc.opened).toEqual([]);
    const dialog = await screen.findByRole("dialog");
    expect(dialog.textContent).toContain("https://example.org/a?b=c");
    await fireEvent.click(within(dialog).getByText("Open"));
    expect(ipc.opened).toEqual(["https://example.org/a?b=c"]);
  });

  it("copies code as it is, and says so", async () => {
    const html = '<figure class="code"><figcaption><span class="language">rust</span><button class="copy"></button></figcaption><pre><code class="more">a &lt; <span class="hl-number">1</span>\n</code></pre></figure>';
    await openWith(["Code?", { text: "x", blocks: [{ index: 0, continues: false, html }] }]);
    await fireEvent.click(screen.getByLabelText("Copy code"));
    await waitFor(() => expect(ipc.copied).toEqual(["a < 1\n"]));
    await screen.findByText("Copied", { selector: "button" });
  });

  it("takes a long pasted text along as an attachment that can be removed", async () => {
    await open();
    const text = "A long page. ".repeat(300);
    const clipboardData = { getData: () => text };
    await fireEvent.paste(field(), { clipboardData });
    expect(field().value).toBe("");
    await fireEvent.click(await screen.findByLabelText("Remove the attached text"));
    expect(composer.attachment).toBe("");
    await fireEvent.paste(field(), { clipboardData });
    await ask("Sum it up");
    expect(called("ask")[0]?.values[2]).toBe(text);
  });

  it("calls a saved prompt by a slash", async () => {
    await open();
    await fireEvent.input(field(), { target: { value: "/fi" } });
    expect(screen.getAllByRole("option")).toHaveLength(1);
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(field().value).toBe("/fix "));
    await ask("/fix teh cat");
    expect(called("ask")[0]?.values[1]).toMatch(/^Correct the spelling[\s\S]*teh cat$/);
  });

  it("closes the history when the window is made too narrow for both", async () => {
    innerWidth = 1000;
    await open();
    expect(screen.getByLabelText("Hide history")).toBeTruthy();
    innerWidth = 420;
    await fireEvent(window, new Event("resize"));
    await waitFor(() => expect(screen.getByLabelText("Show history")).toBeTruthy());
  });

  it("finds, renames, pins and really deletes in the history", async () => {
    const id = await openWith(["What?", "That."]);
    await fireEvent.click(screen.getByLabelText("Show history"));
    const row = await screen.findByLabelText("Actions for “A talk”");
    await fireEvent.click(row);
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Pin" }));
    await waitFor(() => expect(called("pinConversation")[0]?.values).toEqual([id, true]));
    await fireEvent.click(await screen.findByLabelText("Actions for “A talk”"));
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Delete" }));
    const dialog = await screen.findByRole("alertdialog");
    expect(called("deleteConversation")).toHaveLength(0);
    await fireEvent.click(within(dialog).getByText("Delete"));
    await waitFor(() => expect(called("deleteConversation")[0]?.values).toEqual([id]));
    await waitFor(() => expect(screen.queryAllByRole("article")).toHaveLength(0));
  });

  it("speaks finished sentences, not words", async () => {
    await open();
    await ask("Hello?");
    const log = screen.getByRole("log");
    ipc.player().write(1);
    await screen.findByText(/^First/, { selector: ".prose p" });
    expect(log.textContent).not.toContain("First");
    ipc.player().write(2);
    await waitFor(() => expect(log.textContent).toContain("First part."));
  });

  it("draws of five thousand messages only those near the view", async () => {
    const texts = Array.from({ length: 5000 }, (_, index) => `Message ${index}`);
    const { id } = ipc.addConversation("Long", texts.map((text) => ({ text, blocks: blocks(pieces(text)) })));
    await open();
    chat.open(id);
    await screen.findByText("Message 4999");
    expect(screen.getAllByRole("article").length).toBeLessThan(80);
    expect(screen.getAllByRole("article").at(-1)?.getAttribute("aria-posinset")).toBe("5000");
  });
});
