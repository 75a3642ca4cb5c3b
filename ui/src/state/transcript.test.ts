import { beforeEach, describe, expect, it, vi } from "vitest";
import { NO_SETTINGS, useIpc } from "../ipc";
import { FakeIpc, pieces } from "../ipc/fake";
import { Transcript } from "./transcript.svelte";

let ipc: FakeIpc;
let transcript: Transcript;

beforeEach(() => {
  ipc = new FakeIpc();
  useIpc(ipc);
  ipc.script = { answer: pieces("An answer.\n\nWith two parts."), rate: 0 };
  transcript = new Transcript();
});

const speakers = () => transcript.heads.map((head) => head.speaker);

/** Waits until the whole response is written and has ended. */
async function finish() {
  ipc.player().write(100);
  ipc.player().end({ ending: "stop" });
  await vi.waitFor(() => expect(transcript.writing).toBeNull());
}

describe("a conversation", () => {
  it("starts with the first question and follows its response", async () => {
    expect(await transcript.ask("What is it?")).toBe(true);
    expect(speakers()).toEqual(["user", "assistant"]);
    expect(transcript.conversation?.title).toBe("What is it?");
    expect(transcript.writing).not.toBeNull();
    await finish();
    const last = transcript.heads[1]!;
    expect(transcript.views.get(last.id)?.text).toBe("An answer.\n\nWith two parts.");
  });

  it("loads messages when needed, each once, and many in one call", async () => {
    const texts = Array.from({ length: 200 }, (_, index) => `Message ${index}`);
    const { id } = ipc.addConversation("Long", texts);
    await transcript.open(id);
    expect(transcript.views.size).toBe(8);
    ipc.calls = [];
    const ids = transcript.heads.slice(0, 20).map((head) => head.id);
    transcript.need(ids);
    transcript.need(ids);
    await vi.waitFor(() => expect(transcript.views.size).toBe(28));
    expect(ipc.calls.filter((call) => call.name === "messages")).toHaveLength(1);
  });

  it("stops a response and keeps the text", async () => {
    await transcript.ask("Go on");
    ipc.player().write(1);
    await transcript.stop();
    await vi.waitFor(() => expect(transcript.writing).toBeNull());
    const last = transcript.heads[1]!;
    expect(transcript.views.get(last.id)?.ending).toEqual({ ending: "canceled" });
  });

  it("continues a response that ended too early, in the same message", async () => {
    await transcript.ask("Go on");
    ipc.player().write(2);
    ipc.player().end({ ending: "length" });
    await vi.waitFor(() => expect(transcript.writing).toBeNull());
    const { id } = transcript.heads[1]!;
    expect(await transcript.continue(id)).toBe(true);
    expect(speakers()).toEqual(["user", "assistant"]);
    expect(transcript.writing?.id).toBe(id);
    expect(transcript.writing?.blocks[0]?.html).toBe("<p>An answer.</p>");
    await finish();
    await vi.waitFor(() => expect(transcript.views.get(id)?.ending).toEqual({ ending: "stop" }));
    expect(transcript.views.get(id)?.text).toBe("An answer.\n\nAn answer.\n\nWith two parts.");
  });

  it("shows the settings of the chat that is open, and sends changes before a question", async () => {
    const one = ipc.addConversation("One", ["a", "b"]);
    const two = ipc.addConversation("Two", ["c", "d"]);
    await transcript.open(one.id);
    transcript.settings.change({ instructions: "Be brief." }, true);
    expect(ipc.calls.map((call) => call.name)).not.toContain("setConversationSettings");
    // Leaving the chat sends the change that waits.
    await transcript.open(two.id);
    expect(transcript.settings.own).toEqual(NO_SETTINGS);
    await vi.waitFor(() => expect(ipc.tree.settings.get(one.id)?.instructions).toBe("Be brief."));
    transcript.settings.change({ temperature: 0.2 }, true);
    await transcript.ask("How?");
    const names = ipc.calls.map((call) => call.name);
    expect(names.lastIndexOf("setConversationSettings")).toBeLessThan(names.indexOf("ask"));
    expect(ipc.tree.settings.get(two.id)?.temperature).toBe(0.2);
    await transcript.open(one.id);
    expect(transcript.settings.own.instructions).toBe("Be brief.");
  });

  it("creates a chat with the settings of the empty page", async () => {
    transcript.settings.change({ instructions: "Be brief.", temperature: 0.5 });
    await transcript.ask("How?");
    expect(ipc.calls.map((call) => call.name)).not.toContain("setConversationSettings");
    const kept = ipc.tree.settings.get(transcript.conversation!.id);
    expect(kept).toEqual({ ...NO_SETTINGS, instructions: "Be brief.", temperature: 0.5, model: "/models/Qwen3-4B-4bit" });
    expect(transcript.settings.own).toEqual(kept);
    await transcript.open(null);
    expect(transcript.settings.own).toEqual(NO_SETTINGS);
  });

  it("keeps what the user changed while older settings arrive", async () => {
    const { id } = ipc.addConversation("One", ["a", "b"]);
    await transcript.open(id);
    transcript.settings.change({ instructions: "Be brief." }, true);
    await transcript.refresh();
    expect(transcript.settings.own.instructions).toBe("Be brief.");
    // Also if the app has the change before the older settings arrive.
    const older = await ipc.openConversation(id);
    let arrive = () => {};
    ipc.openConversation = () => new Promise((resolve) => (arrive = () => resolve(older)));
    const refresh = transcript.refresh();
    transcript.settings.change({ instructions: "Be kind." });
    await transcript.settings.flush();
    arrive();
    await refresh;
    expect(transcript.settings.own.instructions).toBe("Be kind.");
  });

  it("is temporary until the page leaves it", async () => {
    const { id } = ipc.addConversation("Kept", ["a", "b"]);
    transcript.openTemporary();
    await transcript.ask("A secret");
    const secret = transcript.conversation!.id;
    await finish();
    await transcript.ask("More");
    expect(transcript.conversation?.id).toBe(secret);
    expect((await ipc.conversations("", false, 0, 9)).map((one) => one.conversation.id)).toEqual([id]);
    await transcript.open(id);
    expect(transcript.isTemporary).toBe(false);
    expect(ipc.tree.conversations.has(secret)).toBe(false);
    await transcript.ask("Not a secret");
    expect(ipc.calls.filter((call) => call.name === "ask").map((call) => call.values[4])).toEqual([true, true, false]);
  });

  it("stays temporary when the chat moved to its other form", async () => {
    ipc.tree["last"] = 2 ** 50;
    const { id } = ipc.addConversation("A secret", ["a", "b"]);
    const isDiscarded = () => ipc.calls.some((call) => call.name === "discardTemporary");
    await transcript.open(id);
    expect(transcript.isTemporary).toBe(true);
    await transcript.open(id);
    expect(transcript.conversation?.id).toBe(id);
    expect(isDiscarded()).toBe(false);
    await transcript.open(null);
    expect(transcript.isTemporary).toBe(false);
    expect(isDiscarded()).toBe(true);
  });

  it("regenerates a response, and switches back to the old one", async () => {
    await transcript.ask("Why?");
    await finish();
    const old = transcript.heads[1]!.id;
    await transcript.regenerate(old);
    await finish();
    const fresh = transcript.heads[1]!.id;
    expect(fresh).not.toBe(old);
    await vi.waitFor(() => expect(transcript.views.get(fresh)?.siblings).toEqual([old, fresh]));
    await transcript.showBranch(old);
    expect(transcript.heads.map((head) => head.id)).toContain(old);
    expect(transcript.views.get(old)?.siblings).toEqual([old, fresh]);
  });

  it("edits a question into a new version and ends editing", async () => {
    await transcript.ask("First");
    await finish();
    const question = transcript.heads[0]!.id;
    transcript.editing = question;
    await transcript.edit(question, "Second", "chat");
    expect(transcript.editing).toBeNull();
    expect(transcript.views.get(transcript.heads[0]!.id)?.text).toBe("Second");
  });

  it("shows why a question was refused", async () => {
    ipc.refuse("ask", { code: "turn", failure: { code: "busy" } });
    expect(await transcript.ask("Hello?")).toBe(false);
    expect(transcript.failure).toEqual({ code: "busy" });
    expect(transcript.heads).toEqual([]);
    expect(transcript.isAsking).toBe(false);
  });

  it("becomes empty when it was deleted elsewhere", async () => {
    const { id } = ipc.addConversation("Gone", ["a", "b"]);
    await transcript.open(id);
    await ipc.deleteConversation(id);
    await ipc.finishDeletion();
    await transcript.refresh();
    expect(transcript.conversation).toBeNull();
  });

  it("keeps the messages when a refresh fails", async () => {
    const { id } = ipc.addConversation("Kept", ["a", "b"]);
    await transcript.open(id);
    ipc.refuse("openConversation", { code: "storage", reason: "the disk is busy" });
    await transcript.refresh();
    expect(transcript.heads).toHaveLength(2);
    expect(transcript.failure).toEqual({ code: "storage", reason: "the disk is busy" });
  });

  it("stays when another one cannot be opened, and asks there", async () => {
    const one = ipc.addConversation("One", ["a", "b"]);
    const two = ipc.addConversation("Two", ["c", "d"]);
    await transcript.open(one.id);
    ipc.refuse("openConversation", { code: "storage", reason: "the disk is busy" });
    await transcript.open(two.id);
    expect([transcript.target, transcript.conversation?.id]).toEqual([one.id, one.id]);
    expect(transcript.isOpening).toBe(false);
    await transcript.ask("Where?");
    expect(ipc.calls.find((call) => call.name === "ask")?.values[0]).toBe(one.id);
  });

  it("sends nothing while another conversation is loading", async () => {
    const one = ipc.addConversation("One", ["a", "b"]);
    const two = ipc.addConversation("Two", ["c", "d"]);
    await transcript.open(one.id);
    const opening = transcript.open(two.id);
    expect(transcript.target).toBe(two.id);
    expect(await transcript.ask("For whom?")).toBe(false);
    await opening;
    expect(ipc.calls.map((call) => call.name)).not.toContain("ask");
    await transcript.ask("For whom?");
    expect(ipc.calls.find((call) => call.name === "ask")?.values[0]).toBe(two.id);
  });

  it("does not return after a refresh while another one is opened", async () => {
    const one = ipc.addConversation("One", ["a", "b"]);
    const two = ipc.addConversation("Two", ["c", "d"]);
    await transcript.open(one.id);
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const { openConversation } = ipc;
    ipc.openConversation = async (id) => {
      const opened = await openConversation.call(ipc, id);
      if (id === one.id) await held;
      return opened;
    };
    const opening = transcript.open(two.id);
    const refreshing = transcript.refresh();
    await opening;
    release();
    await refreshing;
    expect(transcript.conversation?.title).toBe("Two");
  });

  it("does not show why a question in another conversation was refused", async () => {
    const one = ipc.addConversation("One", ["a", "b"]);
    const two = ipc.addConversation("Two", ["c", "d"]);
    await transcript.open(one.id);
    ipc.refuse("ask", { code: "turn", failure: { code: "busy" } });
    const asked = transcript.ask("Hello?");
    await transcript.open(two.id);
    expect(await asked).toBe(false);
    expect(transcript.failure).toBeNull();
  });

  it("accepts a question that was sent but cannot be shown", async () => {
    ipc.refuse("openConversation", { code: "storage", reason: "the disk is busy" });
    expect(await transcript.ask("Hello?")).toBe(true);
    expect(transcript.failure).toEqual({ code: "storage", reason: "the disk is busy" });
    expect(transcript.isOpening).toBe(false);
  });

  it("follows no response of a conversation that was closed while loading", async () => {
    const texts = Array.from({ length: 40 }, (_, index) => `Message ${index}`);
    const one = ipc.addConversation("One", texts);
    const two = ipc.addConversation("Two", ["c", "d"]);
    await transcript.open(one.id);
    const first = transcript.heads[1]!.id;
    ipc.tree.messages.get(first)!.view.ending = { ending: "writing" };
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const { messages } = ipc;
    ipc.messages = async (ids) => {
      const views = await messages.call(ipc, ids);
      if (ids.includes(first)) await held;
      return views;
    };
    transcript.need([first]);
    await transcript.open(two.id);
    release();
    await vi.waitFor(() => expect(transcript["isFetching"]).toBe(false));
    expect(ipc.calls.map((call) => call.name)).not.toContain("follow");
    expect(transcript.answers.size).toBe(0);
  });

  it("keeps the elements of few ended responses", async () => {
    for (let n = 0; n < 12; n++) {
      await transcript.ask(`Question ${n}`);
      await finish();
    }
    expect(transcript.answers.size).toBeLessThanOrEqual(8);
    expect(transcript.heads.every((head) => transcript.views.has(head.id))).toBe(true);
  });

  it("shows the conversation that was opened last, however slow the others are", async () => {
    const one = ipc.addConversation("One", ["a", "b"]);
    const two = ipc.addConversation("Two", ["c", "d"]);
    const both = [transcript.open(one.id), transcript.open(two.id)];
    await Promise.all(both);
    expect(transcript.conversation?.title).toBe("Two");
  });

  it("follows a running response when it is opened again", async () => {
    await transcript.ask("Slowly");
    const { id } = transcript.conversation!;
    await transcript.open(null);
    expect(transcript.writing).toBeNull();
    await transcript.open(id);
    await vi.waitFor(() => expect(transcript.writing).not.toBeNull());
  });
});
