/** The composer: attachments, the context of the next message, and reasoning. */
import { fireEvent, screen, waitFor } from "@testing-library/svelte";
import { tick, unmount } from "svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { NO_SETTINGS, useIpc, type AnswerStats } from "../ipc";
import { FakeIpc, pieces } from "../ipc/fake";
import { NO_CHANGES, NO_CHOICES } from "../settings/patch";
import { app } from "../state/app.svelte";
import { composer } from "../state/composer.svelte";
import { transcript } from "../state/transcript.svelte";
import { openChat } from "./open";

let ipc: FakeIpc;
let chat: Awaited<ReturnType<typeof openChat>>;
let target: HTMLElement;

beforeEach(() => {
  innerWidth = 420;
  ipc = new FakeIpc();
  ipc.script = { answer: pieces("An answer."), rate: 0 };
  useIpc(ipc);
});

afterEach(async () => {
  await transcript.open(null);
  composer.forgetAll();
  app.status = null;
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

async function enter(text: string) {
  await fireEvent.input(field(), { target: { value: text } });
  await fireEvent.keyDown(field(), { key: "Enter" });
}

function stats(prompt_tokens: number): AnswerStats {
  return { prompt_tokens, cached_tokens: 0, generated_tokens: 100, time_to_first_token_seconds: 1,
    tokens_per_second: null, dropped_messages: 0, context_length: null, route: "chat", is_partial: false };
}

describe("attachments", () => {
  it("turns a long pasted text into an attachment that can be removed", async () => {
    await open();
    const text = "A long page. ".repeat(300);
    const clipboardData = { getData: () => text };
    await fireEvent.paste(field(), { clipboardData });
    expect(field().value).toBe("");
    await fireEvent.click(await screen.findByLabelText("Remove attachment"));
    expect(composer.attachments).toEqual([]);
    await fireEvent.paste(field(), { clipboardData });
    await enter("Sum it up");
    await waitFor(() => expect(called("ask")[0]?.values[2]).toEqual([{ name: null, text }]));
  });

  it("attaches files, and sends those that could be read", async () => {
    await open();
    const attached = { name: "report.pdf", text: "A long page. ".repeat(100) };
    ipc.files = [
      { name: "report.pdf", read: { state: "read", attached } },
      { name: "secret.pdf", read: { state: "failed", problem: { kind: "encrypted" } } },
    ];
    await fireEvent.click(screen.getByLabelText("Attach files"));
    expect(called("attachFiles")[0]?.values).toEqual(["dialog"]);
    await screen.findByRole("button", { name: /^report\.pdf\s*350 tokens$/ });
    await screen.findByText("350 used · 7,842 left");
    expect((await screen.findByRole("alert")).textContent).toContain("secret.pdf: This file is protected by a password.");
    await enter("Sum it up");
    await waitFor(() => expect(called("ask")[0]?.values[2]).toEqual([attached]));
    await screen.findByRole("button", { name: /^report\.pdf\s*350 tokens$/ });
    expect(screen.queryByRole("alert")).toBeNull();
  });

  it("attaches copied files, and waits until they are read", async () => {
    await open();
    ipc.files = [{ name: "report.pdf" }];
    await fireEvent.paste(field(), { clipboardData: { getData: () => "", types: ["Files"] } });
    expect(called("attachFiles")[0]?.values).toEqual(["clipboard"]);
    await screen.findByText("Reading report.pdf…");
    await enter("Sum it up");
    expect(called("ask")).toEqual([]);
    await fireEvent.click(screen.getByLabelText("Remove report.pdf"));
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")).toHaveLength(1));
  });

  it("stay with an edited message, which then needs no text", async () => {
    const attachments = [{ name: "a.md", text: "A" }, { name: null, text: "B" }];
    await openWith([{ text: "Compare", attachments }, "An answer."]);
    transcript.editing = transcript.heads[0]!.id;
    const area = await screen.findByLabelText("Edit your message");
    await fireEvent.input(area, { target: { value: "" } });
    await fireEvent.keyDown(area, { key: "Enter" });
    await waitFor(() => expect(called("editMessage")[0]?.values[1]).toBe(""));
    await waitFor(() =>
      expect(transcript.views.get(transcript.heads[0]!.id)).toMatchObject({ text: "", attachments }));
  });

  it("refuses attachments that the context can’t hold, with the numbers", async () => {
    await open();
    const [first, second] = ["a", "b"].map((letter) => ({ name: `${letter}.md`, text: letter.repeat(24_000) }));
    composer.attach(first!);
    composer.attach(second!);
    await screen.findByText("Your message needs about 12,000 tokens, but the context holds 8,192. Shorten it or remove a file.");
    await enter("Compare");
    expect(called("ask")).toEqual([]);
    await fireEvent.click(screen.getByLabelText("Remove b.md"));
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")[0]?.values[2]).toEqual([first]));
  });
});

describe("attached text that is too long for a task", () => {
  const problem = /^“Translate” takes up to 3,276 tokens of attached text, and yours has about 4,000\./;

  it("is not sent, until the message is plain chat", async () => {
    ipc.routed = "translate";
    await open();
    const attached = { name: "a.md", text: "a".repeat(16_000) };
    composer.attach(attached);
    await fireEvent.input(field(), { target: { value: "in german" } });
    await screen.findByText(problem);
    await fireEvent.keyDown(field(), { key: "Enter" });
    expect(called("ask")).toEqual([]);
    await fireEvent.keyDown(field(), { key: "Escape" });
    await waitFor(() => expect(screen.queryByText(problem)).toBeNull());
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")[0]?.values.slice(1, 3)).toEqual(["in german", [attached]]));
    expect(called("ask")[0]?.values.at(-1)).toBe("chat");
  });

  it("is sent if the user allowed the task more of the context", async () => {
    ipc.routed = "translate";
    ipc.setSettings({ routes: { translate: { ...NO_CHANGES, attached: 0.5 } } });
    await open();
    composer.attach({ name: "a.md", text: "a".repeat(16_000) });
    await fireEvent.input(field(), { target: { value: "in german" } });
    await screen.findByText("Translate");
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")).toHaveLength(1));
  });

  it("is not sent before a pause either", async () => {
    ipc.routed = "translate";
    await open();
    composer.attach({ name: "a.md", text: "a".repeat(16_000) });
    await fireEvent.input(field(), { target: { value: "in german" } });
    await fireEvent.keyDown(field(), { key: "Enter" });
    await screen.findByText(problem);
    expect(called("ask")).toEqual([]);
  });

  it("is not sent with an edited message either", async () => {
    ipc.routed = "translate";
    await openWith([{ text: "What is this?", attachments: [{ name: "a.md", text: "a".repeat(16_000) }] }, "A letter."]);
    transcript.editing = transcript.heads[0]!.id;
    const area = await screen.findByLabelText("Edit your message");
    await fireEvent.input(area, { target: { value: "in german" } });
    await screen.findByText(problem);
    await fireEvent.keyDown(area, { key: "Enter" });
    expect(called("editMessage")).toEqual([]);
    await fireEvent.keyDown(area, { key: "Escape" });
    await waitFor(() => expect(screen.queryByText(problem)).toBeNull());
    await fireEvent.keyDown(area, { key: "Enter" });
    await waitFor(() => expect(called("editMessage")[0]?.values.slice(1)).toEqual(["in german", "chat"]));
  });

  it("is sent as plain chat from a failed response", async () => {
    const failure = { code: "attached_too_long", route: "translate", attached_tokens: 4001, max_tokens: 3276 } as const;
    await openWith(["in german", { text: "", ending: { ending: "failed", failure } }]);
    await screen.findByText(/^It has about 4,010 tokens, and “Translate” takes up to 3,276, /);
    expect(screen.queryByText("Try Again")).toBeNull();
    await fireEvent.click(screen.getByText("Send as Plain Chat"));
    await waitFor(() => expect(called("regenerate")[0]?.values.slice(1)).toEqual([false, null, "chat"]));
  });
});

describe("the offer of another model", () => {
  const offer = () => screen.findByText("Use Starter for this?");
  const isGone = () => waitFor(() => expect(screen.queryByText("Use Starter for this?")).toBeNull());

  async function openForCode(texts: string[] = []) {
    ipc.routed = "code";
    ipc.offered = { id: "starter", name: "Starter" };
    const id = texts.length > 0 ? await openWith(texts) : (await open(), null);
    await fireEvent.input(field(), { target: { value: "sort a list in python" } });
    await offer();
    return id;
  }

  it("switches this chat alone, with one key", async () => {
    const id = await openForCode(["What?", "That."]);
    await fireEvent.keyDown(field(), { key: "u", metaKey: true });
    await isGone();
    await waitFor(() => expect(ipc.tree.settings.get(id!)?.model).toBe("starter"));
    expect(called("chooseModel")).toEqual([]);
    expect(called("updateSettings")).toEqual([]);
  });

  it("goes with the first question of a new chat", async () => {
    await openForCode();
    await fireEvent.click(screen.getByRole("button", { name: "Switch" }));
    await isGone();
    expect(document.activeElement).toBe(field());
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")[0]?.values[5]).toEqual({ ...NO_SETTINGS, model: "starter" }));
    expect(called("updateSettings")).toEqual([]);
  });

  it("is not made again after the user declined or ignored it", async () => {
    await openForCode();
    await fireEvent.click(screen.getByRole("button", { name: "Keep the current model" }));
    await isGone();
    expect(called("updateSettings")[0]?.values).toEqual([{ declined_offers: ["code"] }]);
    ipc.setSettings({ declined_offers: [] });
    await fireEvent.input(field(), { target: { value: "" } });
    await fireEvent.input(field(), { target: { value: "sort a list in rust" } });
    await offer();
    await fireEvent.keyDown(field(), { key: "Enter" });
    await waitFor(() => expect(called("ask")[0]?.values[5]).toEqual(NO_SETTINGS));
    expect(called("updateSettings")[1]?.values).toEqual([{ declined_offers: ["code"] }]);
    expect(app.settings?.declined_offers).toEqual(["code"]);
  });
});

describe("the context meter", () => {
  it("says about how many tokens the next message needs, and what will be left out", async () => {
    await openWith(["First", "One", "Second", { text: "Two", stats: stats(7000) }]);
    await screen.findByText("7,100 used · 1,092 left");
    screen.getByTitle("About 7,100 of 8,192 tokens, 1,092 left.");
    await fireEvent.input(field(), { target: { value: "a".repeat(800) } });
    await screen.findByText("The oldest messages will be left out.");
  });

  it("counts what the route of the message carries and keeps free", async () => {
    await openWith(["First", "One", "c".repeat(400), { text: "d".repeat(400), stats: stats(7000) }]);
    await screen.findByText("7,100 used · 1,092 left");
    ipc.routed = "translate";
    ipc.limits = { earlier_messages: 2, response_tokens: 12 };
    await fireEvent.input(field(), { target: { value: "a".repeat(800) } });
    composer.attach({ name: "a.md", text: "a".repeat(4000) });
    // Two messages with 100 tokens each, 200 typed, 1,000 attached.
    await screen.findByText("1,400 used · 6,792 left");
    expect(screen.queryByText("The oldest messages will be left out.")).toBeNull();
    // As plain chat it carries all of them, and keeps the usual room free.
    await fireEvent.keyDown(field(), { key: "Escape" });
    await screen.findByText("8,300 used · 0 left");
    await screen.findByText("The oldest messages will be left out.");
    // All of them, with little room for the response.
    await fireEvent.input(field(), { target: { value: "" } });
    composer.detach(composer.attachments[0]!);
    ipc.limits = { earlier_messages: null, response_tokens: 12 };
    await fireEvent.input(field(), { target: { value: "a".repeat(800) } });
    await screen.findByText("The oldest messages will be left out.");
    await screen.findByText("Translate");
    await waitFor(() => expect(screen.queryByText("The oldest messages will be left out.")).toBeNull());
    await screen.findByText("7,300 used · 892 left");
  });

  it("shows above which message the context begins", async () => {
    await openWith(["First", "One", "Second", "Two", "Third",
      { text: "Three", stats: { ...stats(900), dropped_messages: 4 } }]);
    const divider = await screen.findByText("4 earlier messages are not in the context");
    expect(divider.nextElementSibling).toBe(screen.getAllByRole("article")[4]);
    // The statistics of all later messages count the old text.
    await transcript.editAnswer(transcript.heads[1]!.id, "Another");
    await waitFor(() => expect(screen.queryByText(/not in the context/)).toBeNull());
  });

  it("counts again after an exchange was deleted or a response edited", async () => {
    await openWith(["First", "One", "Second", { text: "Two", stats: stats(7000) }]);
    await screen.findByText("7,100 used · 1,092 left");
    await transcript.deleteExchange(transcript.heads[0]!.id);
    await waitFor(() => expect(screen.queryByText(/ used · /)).toBeNull());
    await transcript.editAnswer(transcript.heads[1]!.id, "a".repeat(4000));
    await screen.findByText(/^1,0\d0 used · /);
  });

  it("shows no numbers in a new chat", async () => {
    await open();
    await fireEvent.input(field(), { target: { value: "Hello" } });
    // Both need the model.
    await screen.findByLabelText("Reasoning");
    expect(screen.queryByText(/ used · /)).toBeNull();
  });
});

describe("the reasoning switch", () => {
  const thinking = () => screen.getByLabelText("Reasoning");
  const shows = (isOn: boolean) =>
    waitFor(() => expect(thinking().getAttribute("aria-pressed")).toBe(String(isOn)));

  it("switches reasoning where the model can, and is not there for other models", async () => {
    const id = await openWith(["What?", "That."]);
    await shows(true);
    await fireEvent.click(thinking());
    await waitFor(() => expect(ipc.tree.settings.get(id)?.thinking).toBe(false));
    await shows(false);
    expect(called("updateSettings")).toEqual([]);
    await ipc.chooseModel("starter");
    await waitFor(() => expect(screen.queryByLabelText("Reasoning")).toBeNull());
  });

  it("counts for one chat, and starts from the model’s setting", async () => {
    ipc.setSettings({ models: { [ipc.shown[0]!.id]: { ...NO_CHOICES, thinking: false } } });
    await open();
    await shows(false);
    await fireEvent.click(thinking());
    await shows(true);
    await enter("Why?");
    await waitFor(() => expect(called("ask")[0]?.values[5]).toEqual({ ...NO_SETTINGS, thinking: true }));
    await waitFor(() => expect(transcript.conversation).not.toBeNull());
    const { id } = transcript.conversation!;
    await transcript.open(null);
    await shows(false);
    chat.open(id);
    await shows(true);
    // The model’s value is none of the chat’s own.
    await fireEvent.click(thinking());
    await waitFor(() => expect(ipc.tree.settings.get(id)?.thinking).toBeNull());
  });
});
