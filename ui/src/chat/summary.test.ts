/** The summary of messages that were left out, against the fake app. */
import { fireEvent, screen, waitFor, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AnswerStats, ConversationId, MessageId, Overflow } from "../ipc";
import { written } from "../ipc/fake";
import { printing } from "../state/printing.svelte";
import { transcript } from "../state/transcript.svelte";
import { summaryOf } from "./context";
import { called, ipc, makeApp, open, openWith, reset } from "./test-page";

const stats: AnswerStats = {
  prompt_tokens: 400, cached_tokens: 0, generated_tokens: 100, time_to_first_token_seconds: 0.4,
  tokens_per_second: 40, dropped_messages: 4, context_length: null, route: "chat", is_partial: false,
};

beforeEach(makeApp);
afterEach(async () => {
  printing.stop();
  await reset();
});

/** Opens a chat whose last response was written without the first two exchanges. */
async function openFull(overflow: Overflow = "summarize"): Promise<{ id: ConversationId; last: MessageId }> {
  const id = await openWith(["One?", "1", "Two?", "2", "Three?", { text: "3", stats }]);
  transcript.settings.change({ overflow });
  await screen.findByText("4 earlier messages are not in the context");
  return { id, last: transcript.heads[3]!.id };
}

const block = () => screen.findByRole("article", { name: "Summary of earlier messages" });
const button = (name: string) => screen.findByRole("button", { name });

describe("the summary of messages that were left out", () => {
  it("is written on request, and can be unfolded", async () => {
    const { last } = await openFull();
    await fireEvent.click(await button("Summarize Earlier Messages"));
    expect(called("summarize").map((call) => call.values)).toEqual([[last]]);
    const fold = await within(await block()).findByRole("button", { name: "Summary of earlier messages" });
    expect(screen.queryByText("They talked about light.")).toBeNull();
    await fireEvent.click(fold);
    await screen.findByText("They talked about light.");
    expect(screen.queryByRole("button", { name: "Summarize Earlier Messages" })).toBeNull();
  });

  it("says that it is being written", async () => {
    ipc.summary = null;
    await openFull();
    await fireEvent.click(await button("Summarize Earlier Messages"));
    await screen.findByText("Summarizing earlier messages…");
    expect(screen.queryByRole("button", { name: "Summarize Earlier Messages" })).toBeNull();
  });

  it("is edited, written again and removed", async () => {
    const { last } = await openFull();
    ipc.changeSummary(last, written("Old."));
    await fireEvent.click(await button("Edit summary"));
    const field = await screen.findByRole("textbox", { name: "Edit the summary" });
    await fireEvent.input(field, { target: { value: " New. " } });
    await fireEvent.click(within(await block()).getByRole("button", { name: "Save" }));
    await waitFor(() => expect(ipc.tree.summaries.get(last)?.text).toBe("New."));
    await waitFor(() => expect(screen.queryByRole("textbox", { name: "Edit the summary" })).toBeNull());

    await fireEvent.click(await button("Summarize again"));
    await waitFor(() => expect(ipc.tree.summaries.get(last)?.text).toBe("They talked about light."));
    await fireEvent.click(await button("Remove summary"));
    await button("Summarize Earlier Messages");
    expect(called("setSummary").map((call) => call.values)).toEqual([[last, "New."], [last, ""]]);
  });

  it("keeps its text when the editor is canceled", async () => {
    const { last } = await openFull();
    ipc.changeSummary(last, written("Old."));
    await fireEvent.click(await button("Edit summary"));
    const field = await screen.findByRole("textbox", { name: "Edit the summary" });
    await fireEvent.input(field, { target: { value: "New." } });
    await fireEvent.keyDown(field, { key: "Escape" });
    await button("Edit summary");
    expect(called("setSummary")).toEqual([]);
  });

  it("says why it failed, and can be tried again", async () => {
    const { last } = await openFull();
    ipc.changeSummary(last, { is_writing: false, failure: { code: "engine_crashed" } });
    await screen.findByText("Can’t summarize the earlier messages.");
    await fireEvent.click(within(await block()).getByRole("button", { name: "Try Again" }));
    await button("Edit summary");
    expect(screen.queryByText("Can’t summarize the earlier messages.")).toBeNull();
  });

  it("is not offered if the oldest messages are only left out", async () => {
    await openFull("drop_oldest");
    expect(screen.queryByRole("button", { name: "Summarize Earlier Messages" })).toBeNull();
  });

  it("is printed after the messages that it covers", async () => {
    const { id, last } = await openFull();
    ipc.changeSummary(last, written("They counted."));
    await printing.start(id);
    await waitFor(() => expect(document.querySelectorAll(".print-view section")).toHaveLength(7));
    const parts = [...document.querySelectorAll(".print-view section")];
    expect(parts[4]!.textContent).toContain("They counted.");
  });
});

describe("the summary of a part", () => {
  it("counts until there is one of all messages that were left out", () => {
    const heads = [1, 2, 3, 4].map((id) => ({ id, speaker: "user" as const, n_chars: 1 }));
    const none = { blocks: [], is_writing: false, failure: null };
    const [early, later] = [{ ...none, last: 2, text: "early" }, { ...none, last: 4, text: "" }];
    expect(summaryOf([], heads)).toBeNull();
    expect(summaryOf([early], heads)).toBe(early);
    expect(summaryOf([early, later], heads)).toBe(later);
    expect(summaryOf([early], heads.slice(0, 1))).toBeNull();
  });

  it("stays visible while the next one is missing", async () => {
    await openFull();
    ipc.changeSummary(transcript.heads[1]!.id, written("The first question."));
    await button("Summary of earlier messages");
    await button("Summarize Earlier Messages");
  });
});

it("opens a chat without a summary", async () => {
  await open();
  expect(transcript.summaries).toEqual([]);
});
