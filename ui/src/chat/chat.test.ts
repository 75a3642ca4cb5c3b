import { fireEvent, screen, waitFor, within } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { pieces } from "../ipc/fake";
import { hubError } from "../ipc/fake/catalog";
import * as defaults from "../ipc/fake/defaults";
import { GB } from "../ipc/fake/defaults";
import { blocks } from "../ipc/fake/text";
import { NO_CHOICES } from "../settings/patch";
import { composer } from "../state/composer.svelte";
import { called, chat, ipc, makeApp, open, openWith, reset } from "./test-page";

beforeEach(() => {
  makeApp();
  ipc.script = { answer: pieces("First part.\n\nSecond part."), rate: 0 };
});

afterEach(reset);

const field = () => screen.getByLabelText<HTMLTextAreaElement>("Message");

async function ask(text: string) {
  await fireEvent.input(field(), { target: { value: text } });
  await fireEvent.keyDown(field(), { key: "Enter" });
  await waitFor(() => expect(called("follow")).not.toHaveLength(0));
}

describe("the chat", () => {
  it("sends on Enter, streams the response, and ends it", async () => {
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
    await screen.findByLabelText("Regenerate");
    expect(screen.getByText("First part.", { selector: ".prose p" })).toBe(first);
  });

  it("ignores an Enter that ends an IME composition", async () => {
    await open();
    await fireEvent.input(field(), { target: { value: "にほん" } });
    await fireEvent.keyDown(field(), { key: "Enter", isComposing: true });
    await fireEvent.keyDown(field(), { key: "Enter", keyCode: 229 });
    expect(called("ask")).toHaveLength(0);
    await fireEvent.keyDown(field(), { key: "Enter", shiftKey: true });
    expect(called("ask")).toHaveLength(0);
  });

  it("stops with a key and with the button, and keeps the text", async () => {
    await open();
    await ask("Go on");
    ipc.player().write(1);
    await fireEvent.keyDown(window, { key: ".", metaKey: true });
    await screen.findByText("Stopped.");
    expect(called("stop")).toHaveLength(1);
    expect(called("hideWindow")).toHaveLength(0);
    await ask("Again");
    await fireEvent.click(await screen.findByLabelText("Stop"));
    await waitFor(() => expect(called("stop")).toHaveLength(2));
  });

  it("hides on Escape while the response continues", async () => {
    await open();
    await ask("Go on");
    ipc.player().write(1);
    await fireEvent.keyDown(window, { key: "Escape" });
    expect(called("hideWindow")).toHaveLength(1);
    expect(called("stop")).toHaveLength(0);
  });

  it("restores a question that was refused, and says why", async () => {
    await open();
    ipc.refuse("ask", { code: "storage", kind: "full", reason: "transom.db: the disk is full" });
    await fireEvent.input(field(), { target: { value: "Keep me" } });
    await fireEvent.keyDown(field(), { key: "Enter" });
    await screen.findByText("Can’t access your chat history.");
    await screen.findByText(/^Your disk is full\./);
    expect(field().value).toBe("Keep me");
  });

  it("edits the last message with the up key, and Escape cancels", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.keyDown(field(), { key: "ArrowUp" });
    const edit = await screen.findByLabelText<HTMLTextAreaElement>("Edit your message");
    expect(edit.value).toBe("What?");
    await fireEvent.keyDown(edit, { key: "Escape" });
    expect(screen.queryByLabelText("Edit your message")).toBeNull();
    await waitFor(() => expect(document.activeElement).toBe(field()));
    await fireEvent.keyDown(field(), { key: "ArrowUp" });
    const again = await screen.findByLabelText("Edit your message");
    await fireEvent.input(again, { target: { value: "Which?" } });
    await fireEvent.keyDown(again, { key: "Enter" });
    await waitFor(() => expect(called("editMessage")[0]?.values[1]).toBe("Which?"));
    await screen.findByText("Which?", { selector: ".bubble" });
    await waitFor(() => expect(document.activeElement).toBe(field()));
  });

  it("keeps a message for which there is no model, and leads to the models", async () => {
    await open();
    ipc.refuse("ask", { code: "turn", failure: { code: "no_model" } });
    await fireEvent.input(field(), { target: { value: "What?" } });
    await fireEvent.keyDown(field(), { key: "Enter" });
    await screen.findByText("There’s no model yet.");
    await waitFor(() => expect(field().value).toBe("What?"));
    expect(screen.queryByText("Try Again")).toBeNull();
    await fireEvent.click(screen.getByText("Settings…"));
    expect(called("showWindow").at(-1)?.values).toEqual(["settings", null, "models"]);
  });

  it("sends an edited message with the route of its new text", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.keyDown(field(), { key: "ArrowUp" });
    const edit = await screen.findByLabelText("Edit your message");
    ipc.routed = "translate";
    await fireEvent.input(edit, { target: { value: "translate this" } });
    await fireEvent.keyDown(edit, { key: "Enter" });
    await fireEvent.keyDown(edit, { key: "Enter" });
    await waitFor(() => expect(called("editMessage").map(({ values }) => values.slice(1))).toEqual([["translate this", "translate"]]));
  });

  it("shows the route of an edited message, and Escape removes it before it cancels", async () => {
    await openWith(["translate this: Guten Tag", "Good day."]);
    ipc.routed = "translate";
    await fireEvent.keyDown(field(), { key: "ArrowUp" });
    const edit = await screen.findByLabelText("Edit your message");
    await screen.findByText("Translate");
    await fireEvent.keyDown(edit, { key: "Escape" });
    expect(screen.queryByText("Translate")).toBeNull();
    await fireEvent.keyDown(edit, { key: "Enter" });
    await waitFor(() => expect(called("editMessage")[0]?.values.slice(1)).toEqual(["translate this: Guten Tag", "chat"]));
  });

  it("regenerates and switches between the versions", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.click(screen.getByLabelText("Regenerate"));
    await waitFor(() => expect(called("regenerate")).toHaveLength(1));
    ipc.player().write(20);
    ipc.player().end({ ending: "stop" });
    await screen.findByText("2/2");
    await fireEvent.click(screen.getByLabelText("Previous version"));
    await screen.findByText("That.");
    await screen.findByText("1/2");
  });

  it("offers actions for a model that is too large", async () => {
    await openWith(["What?", { text: "", ending: { ending: "failed", failure: { code: "too_large", model: null,
      need_bytes: 12 * 2 ** 30, budget_bytes: 8 * 2 ** 30, context_that_fits: 4096 } } }]);
    screen.getByText("The model needs 12 GB, and 8 GB is available.");
    await fireEvent.click(screen.getByText("Load Anyway"));
    expect(called("regenerate")[0]?.values[1]).toBe(true);
  });

  it("shortens the context of a model that is too large, and retries", async () => {
    await openWith(["What?", { text: "", ending: { ending: "failed", failure: { code: "too_large", model: null,
      need_bytes: 12 * 2 ** 30, budget_bytes: 8 * 2 ** 30, context_that_fits: 4096 } } }]);
    await fireEvent.click(screen.getByText("Use 4,096-Token Context"));
    await waitFor(() => expect(called("regenerate")[0]?.values[1]).toBe(false));
    expect(called("updateSettings")[0]?.values[0]).toEqual(
      { models: { "/models/Qwen3-4B-4bit": { context_length: 4096 } } });
  });

  it("shows the target of a link before opening it", async () => {
    await openWith(["Where?", "See [the page](https://example.org/a?b=c)."]);
    await fireEvent.click(screen.getByText("the page"));
    expect(ipc.opened).toEqual([]);
    const dialog = await screen.findByRole("dialog");
    expect(dialog.textContent).toContain("https://example.org/a?b=c");
    await fireEvent.click(within(dialog).getByText("Open"));
    expect(ipc.opened).toEqual(["https://example.org/a?b=c"]);
  });

  it("copies code unchanged, and says so", async () => {
    const html = '<figure class="code"><figcaption><span class="language">rust</span><button class="copy"></button></figcaption><pre><code>a &lt; <span class="hl-number">1</span>\n</code></pre></figure>';
    await openWith(["Code?", { text: "x", blocks: [{ is_inside: false, html }] }]);
    await fireEvent.click(screen.getByLabelText("Copy code"));
    await waitFor(() => expect(ipc.copied).toEqual(["a < 1\n"]));
    await screen.findByText("Copied", { selector: "button" });
  });

  it("inserts a saved prompt with a slash", async () => {
    await open();
    await fireEvent.input(field(), { target: { value: "/fi" } });
    expect(screen.getAllByRole("option")).toHaveLength(1);
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(field().value).toBe("/fix "));
    await ask("/fix teh cat");
    expect(called("ask")[0]?.values[1]).toMatch(/^Correct the spelling[\s\S]*teh cat$/);
  });

  it("closes the history when the window becomes too narrow for both", async () => {
    innerWidth = 1000;
    await open();
    expect(screen.getByLabelText("Hide history")).toBeTruthy();
    innerWidth = 420;
    await fireEvent(window, new Event("resize"));
    await waitFor(() => expect(screen.getByLabelText("Show history")).toBeTruthy());
  });

  it("searches, renames, pins and deletes in the history", async () => {
    const id = await openWith(["What?", "That."]);
    await fireEvent.click(screen.getByLabelText("Show history"));
    const row = await screen.findByLabelText("Actions for “A talk”");
    await fireEvent.click(row);
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Pin" }));
    await waitFor(() => expect(called("pinConversation")[0]?.values).toEqual([id, true]));
    await fireEvent.click(await screen.findByLabelText("Actions for “A talk”"));
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Delete" }));
    await waitFor(() => expect(called("deleteConversation")[0]?.values).toEqual([id]));
    await waitFor(() => expect(screen.queryAllByRole("article")).toHaveLength(0));
    await screen.findByText("Deleted “A talk”.");
    await waitFor(() => expect(screen.queryByLabelText("Actions for “A talk”")).toBeNull());
    await fireEvent.click(screen.getByLabelText("Dismiss"));
    await waitFor(() => expect(screen.queryByText("Undo")).toBeNull());
    expect(ipc.tree.conversations.has(id)).toBe(false);
  });

  it("deletes an exchange after a question, and keeps what follows", async () => {
    await openWith(["What?", "That.", "Who?", "She."]);
    await fireEvent.click(screen.getAllByLabelText("Delete question and response")[0]!);
    const dialog = await screen.findByRole("alertdialog");
    expect(called("deleteExchange")).toHaveLength(0);
    await fireEvent.click(within(dialog).getByText("Delete"));
    await waitFor(() => expect(screen.getAllByRole("article")).toHaveLength(2));
    expect(await screen.findByText("She.")).toBeTruthy();
    expect(screen.queryByText("That.")).toBeNull();
  });

  it("duplicates a chat, and copies it as Markdown", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.click(screen.getByLabelText("Show history"));
    await fireEvent.click(await screen.findByLabelText("Actions for “A talk”"));
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Duplicate" }));
    await fireEvent.click(await screen.findByLabelText("Actions for “A talk copy”"));
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Copy as Markdown" }));
    await screen.findByText("Copied the chat as Markdown.");
    expect(ipc.copied).toEqual(["# A talk copy\n\nWhat?\n\nThat."]);
  });

  it("edits a response in place", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.click(screen.getByLabelText("Edit response"));
    const editor = await screen.findByLabelText<HTMLTextAreaElement>("Edit the response");
    expect(editor.value).toBe("That.");
    await fireEvent.input(editor, { target: { value: "This." } });
    await fireEvent.keyDown(editor, { key: "Enter" });
    expect(called("editAnswer")).toHaveLength(0);
    await fireEvent.keyDown(editor, { key: "Enter", metaKey: true });
    await screen.findByText("This.");
    expect(screen.queryByLabelText("Edit the response")).toBeNull();
    expect(screen.queryByText("That.")).toBeNull();
    expect(called("ask")).toHaveLength(0);
  });

  it("regenerates a response with another model", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.click(await screen.findByLabelText("Regenerate with another model"));
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Starter" }));
    await waitFor(() => expect(called("regenerate")[0]?.values[2]).toBe("starter"));
    expect(called("chooseModel")).toHaveLength(0);
  });

  it("starts a temporary chat that is marked and not listed", async () => {
    await open();
    await fireEvent.keyDown(window, { key: "N", metaKey: true, shiftKey: true });
    await screen.findByText("Temporary chat");
    await ask("A secret");
    await waitFor(() => expect(screen.getAllByRole("article")).toHaveLength(2));
    expect(screen.getByRole("heading", { name: "Temporary chat" })).toBeTruthy();
    await fireEvent.click(screen.getByLabelText("Show history"));
    await screen.findByText("Your chats appear here.");
    await fireEvent.click(screen.getByLabelText("New chat"));
    await waitFor(() => expect(called("discardTemporary")).toHaveLength(1));
    await waitFor(() => expect(screen.queryByText("Temporary chat")).toBeNull());
  });

  it("restores a deleted chat with its draft", async () => {
    const id = await openWith(["What?", "That."]);
    await fireEvent.input(field(), { target: { value: "A draft" } });
    await fireEvent.click(screen.getByLabelText("Show history"));
    await fireEvent.keyDown(await screen.findByRole("button", { name: "A talk", current: true }), { key: "Delete" });
    await fireEvent.click(await screen.findByText("Undo"));
    await waitFor(() => expect(called("restoreConversation")[0]?.values).toEqual([id]));
    await waitFor(() => expect(screen.getAllByRole("article")).toHaveLength(2));
    expect(field().value).toBe("A draft");
    expect(screen.queryByText("Undo")).toBeNull();
    expect(ipc.tree.conversations.has(id)).toBe(true);
  });

  it("keeps the scroll position on a refresh, and jumps to the end on request", async () => {
    const { id } = ipc.addConversation("Long", Array.from({ length: 40 }, (_, index) => `Message ${index}`));
    await open();
    chat.open(id);
    await screen.findByText("Message 39");
    const view = document.querySelector<HTMLElement>("section.view")!;
    Object.defineProperties(view, { scrollHeight: { value: 4000 }, clientHeight: { value: 400 } });
    for (const top of [3600, 1000]) {
      view.scrollTop = top;
      await fireEvent.scroll(view);
    }
    const before = called("openConversation").length;
    ipc.emit({ event: "conversations" });
    await waitFor(() => expect(called("openConversation").length).toBeGreaterThan(before));
    await new Promise((done) => setTimeout(done));
    await tick();
    expect(view.scrollTop).toBe(1000);
    await fireEvent.keyDown(window, { key: "End", metaKey: true });
    await waitFor(() => expect(view.scrollTop).toBe(4000));
  });

  it("sends nothing to the previous chat while another one loads", async () => {
    const other = ipc.addConversation("Other", ["x", "y"]);
    await openWith(["What?", "That."]);
    await fireEvent.input(field(), { target: { value: "For the first" } });
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const { openConversation } = ipc;
    ipc.openConversation = async (id) => {
      const opened = await openConversation.call(ipc, id);
      await held;
      return opened;
    };
    chat.open(other.id);
    await fireEvent.input(field(), { target: { value: "For the other" } });
    expect(screen.getByLabelText<HTMLButtonElement>("Send").disabled).toBe(true);
    await fireEvent.keyDown(field(), { key: "Enter" });
    expect(called("ask")).toHaveLength(0);
    release();
    await screen.findByText("y");
    expect(field().value).toBe("For the other");
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")[0]?.values.slice(0, 2)).toEqual([other.id, "For the other"]));
  });

  it("keeps chat and draft together when another chat cannot be opened", async () => {
    const other = ipc.addConversation("Other", ["x", "y"]);
    const id = await openWith(["What?", "That."]);
    await fireEvent.input(field(), { target: { value: "For the first" } });
    ipc.refuse("openConversation", { code: "storage", reason: "the disk is busy" });
    chat.open(other.id);
    await screen.findByText("Can’t access your chat history.");
    expect(field().value).toBe("For the first");
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")[0]?.values.slice(0, 2)).toEqual([id, "For the first"]));
  });

  it("deletes the draft of a deleted chat", async () => {
    const id = await openWith(["What?", "That."]);
    await fireEvent.input(field(), { target: { value: "A secret draft" } });
    composer.attach({ name: "secret.pdf", text: "A secret page" });
    await fireEvent.click(screen.getByLabelText("Show history"));
    await fireEvent.click(await screen.findByLabelText("Actions for “A talk”"));
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Delete" }));
    await waitFor(() => expect(called("deleteConversation")[0]?.values).toEqual([id]));
    await waitFor(() => expect(screen.queryAllByRole("article")).toHaveLength(0));
    await waitFor(() => expect(field().value).toBe(""));
    expect(localStorage.getItem("transom.drafts")).not.toContain("secret");
    await fireEvent.input(field(), { target: { value: "For a new chat" } });
    composer.save();
    expect(JSON.parse(localStorage.getItem("transom.drafts")!)).toEqual(
      [["new", { text: "For a new chat", attachments: [] }]]);
  });

  it("deletes all drafts when the history is cleared", async () => {
    await openWith(["What?", "That."]);
    await fireEvent.input(field(), { target: { value: "A secret draft" } });
    composer.save();
    await ipc.clearHistory();
    await waitFor(() => expect(field().value).toBe(""));
    await waitFor(() => expect(screen.queryAllByRole("article")).toHaveLength(0));
    composer.save();
    expect(localStorage.getItem("transom.drafts")).toBe("[]");
  });

  it("appends the text of a link to the draft", async () => {
    await open();
    await fireEvent.input(field(), { target: { value: "Half a thought" } });
    ipc.emit({ event: "compose", text: "From a page" });
    await waitFor(() => expect(field().value).toBe("Half a thought\n\nFrom a page"));
  });

  it("warns about an unknown prompt, and sends the line at the second Enter", async () => {
    await open();
    await fireEvent.input(field(), { target: { value: "/sumary this" } });
    await fireEvent.keyDown(field(), { key: "Enter" });
    await screen.findByText(/no saved prompt named “\/sumary”/);
    expect(called("ask")).toHaveLength(0);
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")[0]?.values[1]).toBe("/sumary this"));
  });

  it("types a question mark, and lists the shortcuts with Command-slash", async () => {
    await open();
    const isFree = await fireEvent.keyDown(field(), { key: "?", shiftKey: true });
    expect(isFree).toBe(true);
    expect(screen.queryByRole("dialog")).toBeNull();
    await fireEvent.keyDown(field(), { key: "/", metaKey: true });
    await screen.findByRole("dialog");
  });

  it("focuses the composer after the welcome, even if the disk refuses", async () => {
    ipc.setSettings({ general: { ...(await ipc.settings()).general, was_welcomed: false } });
    ipc.refuse("updateSettings", { code: "storage", reason: "full" });
    await open();
    const start = await screen.findByRole("button", { name: "Get Started" });
    await fireEvent.click(start);
    await waitFor(() => expect(document.activeElement).toBe(field()));
  });

  it("keeps a failed download when its note is dismissed", async () => {
    await open();
    ipc.downloadQueue.install("qwen3-8b@4-bit");
    ipc.downloadQueue.come(1, 0.9);
    ipc.downloadQueue.fail(1, hubError("unreachable", "no network", { host: "huggingface.co" }));
    await screen.findByText(/Can’t download/);
    await fireEvent.click(screen.getByLabelText("Dismiss"));
    await waitFor(() => expect(screen.queryByText(/Can’t download/)).toBeNull());
    expect(called("changeDownload")).toEqual([]);
    expect(ipc.downloadQueue.downloads).toHaveLength(1);
  });

  it("shortens only the context of the model that failed", async () => {
    const failure = { code: "too_large", model: null, need_bytes: 12 * 2 ** 30, budget_bytes: 8 * 2 ** 30,
      context_that_fits: 4096 } as const;
    await openWith(["What?", { text: "", model: "Mistral Small 24B", ending: { ending: "failed", failure } }]);
    expect(screen.queryByText("Use 4,096-Token Context")).toBeNull();
    await fireEvent.click(screen.getByText("Try Again"));
    await waitFor(() => expect(called("regenerate")).toHaveLength(1));
    expect(called("updateSettings")).toEqual([]);
  });

  it("shows no green dot next to a model that is not loaded", async () => {
    await open();
    const light = () => document.querySelector("[data-model-menu] .light")!;
    await waitFor(() => expect(light().classList).toContain("on"));
    await ipc.chooseModel("starter");
    await screen.findByLabelText("Model: Starter");
    await waitFor(() => expect(light().classList).not.toContain("on"));
  });

  it("shows the same memory need as Settings", async () => {
    const fit = { ...defaults.fit(ipc.shown[0]!, NO_CHOICES), fits: false,
      context_that_fits: null, weight_bytes: 4 * GB, kv_cache_bytes: 2 * GB, headroom_bytes: GB,
      draft_bytes: 3 * GB, prefix_bytes: 2 * GB, budget_bytes: 8 * GB };
    ipc.fit = async () => fit;
    await open();
    await fireEvent.click(screen.getByLabelText(/^Model: /));
    await screen.findAllByText(/Too large: needs 12 GB, 8 GB available/);
  });

  it("announces finished paragraphs, not words", async () => {
    await open();
    await ask("Hello?");
    const log = screen.getByRole("log");
    ipc.player().write(1);
    await screen.findByText(/^First/, { selector: ".prose p" });
    expect(log.textContent).not.toContain("First");
    ipc.player().write(2);
    await waitFor(() => expect(log.textContent).toContain("First part."));
  });

  it("renders only the messages near the view of five thousand", async () => {
    const texts = Array.from({ length: 5000 }, (_, index) => `Message ${index}`);
    const { id } = ipc.addConversation("Long", texts.map((text) => ({ text, blocks: blocks(pieces(text)) })));
    await open();
    chat.open(id);
    await screen.findByText("Message 4999");
    expect(screen.getAllByRole("article").length).toBeLessThan(80);
    expect(screen.getAllByRole("article").at(-1)?.getAttribute("aria-posinset")).toBe("5000");
  });
});
