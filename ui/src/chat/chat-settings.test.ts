/** The settings of a chat, a failed continuation and printing, against the fake app. */
import { fireEvent, screen, waitFor, within } from "@testing-library/svelte";
import { tick, unmount } from "svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { NO_SETTINGS, useIpc } from "../ipc";
import { FakeIpc, pieces } from "../ipc/fake";
import { sampleAssistants } from "../ipc/fake/defaults";
import { app } from "../state/app.svelte";
import { page } from "../state/page.svelte";
import { printing } from "../state/printing.svelte";
import { transcript } from "../state/transcript.svelte";
import { openChat } from "./open";

let ipc: FakeIpc;
let chat: Awaited<ReturnType<typeof openChat>>;
let target: HTMLElement;

beforeEach(() => {
  innerWidth = 420;
  ipc = new FakeIpc();
  ipc.script = { answer: pieces("More."), rate: 0 };
  useIpc(ipc);
});

afterEach(async () => {
  printing.stop();
  await transcript.open(null);
  app.status = null;
  app.notices = [];
  await unmount(chat);
  target.remove();
});

async function openWith(texts: Parameters<FakeIpc["addConversation"]>[1]) {
  const { id } = ipc.addConversation("A talk", texts);
  target = document.createElement("div");
  document.body.append(target);
  chat = await openChat(target);
  await tick();
  chat.open(id);
  await waitFor(() => expect(transcript.heads).toHaveLength(texts.length));
  return id;
}

const called = (name: string) => ipc.calls.filter((call) => call.name === name).map((call) => call.values);

async function openPanel(): Promise<HTMLElement> {
  await fireEvent.click(screen.getByLabelText(/^Chat settings/));
  return screen.findByRole("dialog", { name: "Chat settings" });
}

describe("the settings of a chat", () => {
  it("replace those of the model, and can be reset", async () => {
    const id = await openWith(["What?", "That."]);
    const panel = await openPanel();
    const reset = within(panel).getByRole<HTMLButtonElement>("button", { name: "Use the Model’s Defaults" });
    expect(reset.disabled).toBe(true);
    expect(within(panel).getByLabelText<HTMLTextAreaElement>("Instructions").maxLength).toBe(1_000_000);
    await fireEvent.input(within(panel).getByLabelText("Instructions"), { target: { value: "Be brief." } });
    await fireEvent.change(within(panel).getByLabelText("Model"), { target: { value: "starter" } });
    await waitFor(() => expect(ipc.tree.settings.get(id))
      .toEqual({ ...NO_SETTINGS, instructions: "Be brief.", model: "starter" }));
    await screen.findByLabelText("Model: Starter");
    screen.getByLabelText("Chat settings (changed)");
    await fireEvent.click(reset);
    await waitFor(() => expect(ipc.tree.settings.get(id)).toEqual({ ...NO_SETTINGS, model: "starter" }));
    await fireEvent.keyDown(panel, { key: "Escape" });
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(document.activeElement).toBe(screen.getByLabelText("Chat settings"));
  });

  it("hold the reasoning of a model that can", async () => {
    const id = await openWith(["What?", "That."]);
    const panel = await openPanel();
    const reasoning = within(panel).getByLabelText<HTMLSelectElement>("Reasoning");
    expect([...reasoning.options].map((option) => option.textContent)).toEqual(["On (default)", "On", "Off"]);
    await fireEvent.change(reasoning, { target: { value: "false" } });
    await waitFor(() => expect(ipc.tree.settings.get(id)?.thinking).toBe(false));
    await fireEvent.change(reasoning, { target: { value: "" } });
    await waitFor(() => expect(ipc.tree.settings.get(id)?.thinking).toBeNull());
    await fireEvent.change(within(panel).getByLabelText("Model"), { target: { value: "starter" } });
    await waitFor(() => expect(within(panel).queryByLabelText("Reasoning")).toBeNull());
  });

  it("come from an assistant", async () => {
    ipc.setSettings({ assistants: sampleAssistants });
    const id = await openWith(["What?", "That."]);
    const panel = await openPanel();
    const menu = within(panel).getByLabelText<HTMLSelectElement>("Assistant");
    expect(menu.value).toBe("");
    await fireEvent.change(menu, { target: { value: "Poet" } });
    await waitFor(() => expect(ipc.tree.settings.get(id)).toEqual(sampleAssistants[1]!.settings));
    expect(menu.value).toBe("Poet");
    await fireEvent.change(menu, { target: { value: "" } });
    await waitFor(() => expect(ipc.tree.settings.get(id)).toEqual({ ...NO_SETTINGS, model: "starter" }));
  });

  it("decide what happens when the context is full", async () => {
    const id = await openWith(["What?", "That."]);
    const panel = await openPanel();
    const menu = within(panel).getByLabelText<HTMLSelectElement>("When the context is full");
    expect(menu.value).toBe("drop_oldest");
    await fireEvent.change(menu, { target: { value: "stop" } });
    await waitFor(() => expect(ipc.tree.settings.get(id)).toEqual({ ...NO_SETTINGS, overflow: "stop" }));
    screen.getByLabelText("Chat settings (changed)");
  });

  it("follow the chat that is opened", async () => {
    const id = await openWith(["What?", "That."]);
    const other = ipc.addConversation("Another", ["Why?", "So."]);
    ipc.tree.settings.set(other.id, { ...NO_SETTINGS, model: "starter", instructions: "Be brief." });
    screen.getByLabelText("Model: Qwen3 4B · 4-bit");
    chat.open(other.id);
    await screen.findByLabelText("Model: Starter");
    const panel = await openPanel();
    expect(within(panel).getByLabelText<HTMLTextAreaElement>("Instructions").value).toBe("Be brief.");
    chat.open(id);
    await screen.findByLabelText("Model: Qwen3 4B · 4-bit");
    screen.getByRole("button", { name: "Chat settings" });
  });

  it("follow a change of another window", async () => {
    const id = await openWith(["What?", "That."]);
    await ipc.setConversationSettings(id, { model: "starter" });
    await screen.findByLabelText("Model: Starter");
    transcript.settings.change({ temperature: 0.5 });
    await waitFor(() => expect(ipc.tree.settings.get(id))
      .toEqual({ ...NO_SETTINGS, model: "starter", temperature: 0.5 }));
  });

  it("use the current model if the chat’s own is gone", async () => {
    const id = await openWith(["What?", "That."]);
    await transcript.settings.chooseModel("/models/Mistral-Small-24B-Q4_K_M.gguf");
    await screen.findByLabelText("Model: Mistral Small 24B");
    expect(ipc.tree.settings.get(id)?.model).toBe("/models/Mistral-Small-24B-Q4_K_M.gguf");
    await ipc.chooseModel("starter");
    screen.getByLabelText("Model: Mistral Small 24B");
    await ipc.removeModel("/models/Mistral-Small-24B-Q4_K_M.gguf");
    await screen.findByLabelText("Model: Starter");
  });
});

describe("a failure of the model", () => {
  it("lets the user choose another one for this chat", async () => {
    const id = await openWith(["What?", { text: "", ending: { ending: "failed", failure: { code: "shed" } } }]);
    await fireEvent.click(await screen.findByRole("button", { name: "Choose Another Model…" }));
    await fireEvent.click(await screen.findByRole("menuitemradio", { name: /^Starter/ }));
    await screen.findByLabelText("Model: Starter");
    await waitFor(() => expect(ipc.tree.settings.get(id)?.model).toBe("starter"));
  });

  it("shortens the context of the model that failed to continue a response", async () => {
    const large = "/models/Mistral-Small-24B-Q4_K_M.gguf";
    const failure = { code: "too_large", model: "Mistral Small 24B", need_bytes: 12 * 2 ** 30,
      budget_bytes: 8 * 2 ** 30, context_that_fits: 4096 } as const;
    await openWith(["What?", { text: "Half an answer", ending: { ending: "failed", failure } }]);
    // The response names the model that wrote the first half.
    expect(screen.queryByRole("button", { name: "Use 4,096-Token Context" })).toBeNull();
    await transcript.settings.chooseModel(large);
    await fireEvent.click(await screen.findByRole("button", { name: "Use 4,096-Token Context" }));
    await waitFor(() => expect(called("continueAnswer")).toEqual([[transcript.heads[1]!.id, false]]));
    expect(called("updateSettings")).toContainEqual([{ models: { [large]: { context_length: 4096 } } }]);
  });

  it("leads to the context length of the chat if it has its own", async () => {
    const failure = { code: "prompt_too_long", prompt_tokens: 5000, context_length: 2048 } as const;
    await openWith(["What?", { text: "", ending: { ending: "failed", failure } }]);
    const change = await screen.findByRole("button", { name: "Change Context Length…" });
    await fireEvent.click(change);
    expect(called("showWindow")).toEqual([["settings", null, "model:/models/Qwen3-4B-4bit"]]);
    transcript.settings.change({ context_length: 2048 });
    await fireEvent.click(change);
    await screen.findByRole("dialog", { name: "Chat settings" });
    expect(called("showWindow")).toHaveLength(1);
  });
});

describe("a chat that is too long and may not be shortened", () => {
  it("says so with the numbers, and can leave the oldest messages out", async () => {
    const failure = { code: "conversation_too_long", prompt_tokens: 8431, context_length: 8192 } as const;
    const id = await openWith(["What?", "That.", "And?", { text: "", ending: { ending: "failed", failure } }]);
    transcript.settings.change({ overflow: "stop" });
    await screen.findByText(/8,431 tokens, and the limit is 8,192/);
    screen.getByRole("button", { name: "Change Context Length…" });
    const answer = transcript.heads[3]!.id;
    await fireEvent.click(screen.getByRole("button", { name: "Leave Out the Oldest Messages" }));
    await waitFor(() => expect(called("regenerate")).toEqual([[answer, false, null, null]]));
    expect(ipc.tree.settings.get(id)?.overflow).toBe("drop_oldest");
  });
});

describe("the status sheet", () => {
  it("opens the menu with the model of the chat", async () => {
    const id = await openWith(["What?", "That."]);
    ipc.setStatus({ offer_smaller_model: true });
    page.isStatusShown = true;
    await fireEvent.click(await screen.findByRole("button", { name: "Choose Another Model…" }));
    await fireEvent.click(await screen.findByRole("menuitemradio", { name: /^Starter/ }));
    await waitFor(() => expect(ipc.tree.settings.get(id)?.model).toBe("starter"));
    expect(page.isStatusShown).toBe(false);
  });
});

describe("a continued response", () => {
  it("can be continued again after a failure", async () => {
    await openWith(["What?", { text: "Half an answer", ending: { ending: "failed", failure: { code: "engine_crashed" } } }]);
    await screen.findByRole("button", { name: "Try Again" });
    await fireEvent.click(screen.getByRole("button", { name: "Continue" }));
    expect(called("continueAnswer")).toEqual([[transcript.heads[1]!.id, false]]);
  });

  it("names all models that wrote it", async () => {
    await openWith(["What?", { text: "That.", model: "Starter + Mistral Small 24B" }]);
    await screen.findByText("Written by Starter + Mistral Small 24B.");
  });
});

describe("printing", () => {
  it("draws the whole chat, until the user goes on", async () => {
    await openWith(Array.from({ length: 200 }, (_, index) => `Message ${index}`));
    await fireEvent.keyDown(window, { key: "p", metaKey: true });
    await waitFor(() => expect(called("printPage")).toEqual([[true]]));
    const parts = () => [...document.querySelectorAll(".print-view section")];
    expect(parts()).toHaveLength(200);
    expect(parts()[199]!.textContent).toContain("Message 199");
    await fireEvent.keyDown(window, { key: "a" });
    expect(parts(), "the dialog may still be open").toHaveLength(200);
    await fireEvent.focus(window);
    expect(called("printPage")).toEqual([[true], [false]]);
    await fireEvent.pointerDown(document.body);
    await waitFor(() => expect(parts()).toHaveLength(0));
  });

  it("ends if the dialog does not open, so that the window can close again", async () => {
    await openWith(["What?", "That."]);
    ipc.refuse("printPage", { code: "other", reason: "no dialog" });
    await fireEvent.keyDown(window, { key: "p", metaKey: true });
    await waitFor(() => expect(called("printPage")).toEqual([[true], [false]]));
    expect(document.querySelector(".print-view")).toBeNull();
  });
});
