/** The quick prompt from the first key to opening the chat, against the fake app. */
import { fireEvent, screen, waitFor, within } from "@testing-library/svelte";
import { describe, expect, it, vi } from "vitest";
import { NO_SETTINGS } from "../ipc";
import { violations } from "../settings/parts/axe";
import { app } from "../state/app.svelte";
import { composed, EXCHANGE_TIMEOUT_MS } from "./session.svelte";
import { ask, called, command, fake, input, open, press, session, type } from "./test-panel";

describe("asking", () => {
  it("focuses the input, sends on Enter, and streams the response", async () => {
    await open();
    expect(document.activeElement).toBe(input());
    await ask();
    expect(called("ask")).toEqual([[null, "What is a transom?", [], false, false, NO_SETTINGS]]);
    expect(input().value).toBe("");
    fake.player().write(3);
    await within(screen.getByRole("region", { name: "Response" })).findByText(/It is a/);
    fake.player().write(99);
    fake.player().end({ ending: "stop" });
    await within(screen.getByRole("region", { name: "Response" })).findByText("Above a door.");
    await screen.findByText(/tokens\/s/);
  });

  it("continues the same conversation until a new one is started", async () => {
    await open();
    await ask();
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    await type("And in French?");
    await press("Enter");
    await waitFor(() => expect(called("ask")).toHaveLength(2));
    expect(called("ask")[1]![0]).toBe(session.conversation);
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    await press("n", command);
    expect(session.conversation).toBeNull();
  });

  it("sends neither empty text, nor twice, nor during an IME composition", async () => {
    await open();
    await press("Enter");
    await type("にほ");
    await press("Enter", { isComposing: true });
    expect(called("ask")).toEqual([]);
    await ask();
    await type("more");
    await press("Enter");
    expect(called("ask")).toHaveLength(1);
  });

  it("shows why it failed, and retries", async () => {
    await open((fake) =>
      fake.refuse("ask", { code: "turn", failure: { code: "engine_crashed" } }));
    await type("Hello");
    await press("Enter");
    await screen.findByText("The model stopped unexpectedly.");
    await fireEvent.click(screen.getByRole("button", { name: "Try Again" }));
    await waitFor(() => expect(session.answer).not.toBeNull());
    expect(called("ask").map((values) => values[1])).toEqual(["Hello", "Hello"]);
  });

  it("regenerates a failed response without asking a second time", async () => {
    await open();
    await ask("Hello");
    const { conversation } = session;
    const failure = { code: "too_large" as const, model: null, need_bytes: 12 * 2 ** 30, budget_bytes: 8 * 2 ** 30,
      context_that_fits: null };
    const failed = session.answer!.id;
    fake.player().end({ ending: "failed", failure });
    await fireEvent.click(await screen.findByRole("button", { name: "Load Anyway" }));
    await waitFor(() => expect(called("regenerate")).toEqual([[failed, true, null, null]]));
    const again = session.answer!.id;
    fake.player().end({ ending: "failed", failure });
    await fireEvent.click(await screen.findByRole("button", { name: "Try Again" }));
    await waitFor(() => expect(called("regenerate")).toHaveLength(2));
    expect(called("regenerate")[1]).toEqual([again, false, null, null]);
    expect(called("ask")).toHaveLength(1);
    const stored = [...fake.tree.messages.values()].filter(({ view }) => view.speaker === "user");
    expect(stored.map(({ view }) => [view.conversation, view.text])).toEqual([[conversation, "Hello"]]);
  });

  it("leads to the settings that have the context length, and can ask again", async () => {
    const poet = { ...NO_SETTINGS, context_length: 2048, model: "starter" };
    await open((fake) => fake.setSettings({ assistants: [{ name: "Poet", settings: poet }] }));
    const failure = { code: "prompt_too_long" as const, prompt_tokens: 5000, context_length: 2048 };
    await ask();
    fake.player().end({ ending: "failed", failure });
    await fireEvent.click(await screen.findByRole("button", { name: "Change Context Length…" }));
    expect(called("showWindow")).toEqual([["settings", null, "model:/models/Qwen3-4B-4bit"]]);
    screen.getByRole("button", { name: "Try Again" });
    // A conversation of an assistant has its own context length, which the chat shows.
    session.chooseAssistant("Poet");
    await ask();
    fake.player().end({ ending: "failed", failure: { ...failure, code: "conversation_too_long" } });
    await fireEvent.click(await screen.findByRole("button", { name: "Change Context Length…" }));
    expect(called("showWindow")[1]).toEqual(["chat", session.conversation, null]);
  });

  it("starts another conversation if the previous one was deleted", async () => {
    await open();
    await ask("one");
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    fake.refuse("ask", { code: "not_found" });
    await type("two");
    await press("Enter");
    await waitFor(() => expect(called("ask")).toHaveLength(3));
    expect(called("ask")[2]!.slice(0, 2)).toEqual([null, "two"]);
    await waitFor(() => expect(session.failure).toBeNull());
  });

  it("asks an assistant in a new conversation", async () => {
    const settings = { ...NO_SETTINGS, instructions: "Answer in rhymes.", model: "starter" };
    await open((fake) => fake.setSettings({ assistants: [{ name: "Poet", settings }] }));
    await ask("one");
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    await fireEvent.change(screen.getByRole("combobox", { name: "Assistant" }), { target: { value: "Poet" } });
    expect(session.answer).toBeNull();
    expect(screen.getByLabelText("Model: Starter").textContent?.trim()).toBe("Starter");
    await ask("two");
    await waitFor(() => expect(called("ask")).toHaveLength(2));
    expect(called("ask")[1]).toEqual([null, "two", [], false, false, settings]);
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    // A follow-up stays with it.
    await ask("three");
    await waitFor(() => expect(called("ask")).toHaveLength(3));
    expect(called("ask")[2]![0]).toBe(session.conversation);
  });

  it("keeps the model of the first question until a new conversation", async () => {
    await open();
    await ask();
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    await fake.chooseModel("starter");
    await waitFor(() => expect(app.model?.id).toBe("starter"));
    screen.getByLabelText("Model: Qwen3 4B · 4-bit");
    await press("n", command);
    await screen.findByLabelText("Model: Starter");
  });

  it("changes only the model of its conversation", async () => {
    await open();
    await ask();
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    const id = session.conversation!;
    // Another window changes other settings.
    await fake.setConversationSettings(id, { instructions: "Be brief.", temperature: 0.5 });
    await session.chooseModel("starter");
    expect(fake.tree.settings.get(id))
      .toEqual({ ...NO_SETTINGS, instructions: "Be brief.", temperature: 0.5, model: "starter" });
  });

  it("copies the response with Command-C, unless text is selected", async () => {
    await open();
    await ask();
    fake.player().write(99);
    expect(screen.queryByRole("button", { name: /^Copy/ })).toBeNull();
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.answerText).not.toBe(""));
    await press("c", command);
    await waitFor(() => expect(fake.copied).toEqual(["It is a small window.\n\nAbove a door."]));
    await screen.findByRole("button", { name: /^Copied/ });
    await type("selected");
    input().select();
    await press("c", command);
    expect(fake.copied).toHaveLength(1);
  });

  it("warns about a saved prompt that does not exist", async () => {
    await open();
    await type("/sumary this");
    await press("Enter");
    await screen.findByText(/no saved prompt named “\/sumary”/);
    expect(called("ask")).toEqual([]);
    await press("Enter");
    await waitFor(() => expect(called("ask")[0]?.[1]).toBe("/sumary this"));
  });

  it("stops on Command-period", async () => {
    await open();
    await ask();
    await press(".", command);
    await waitFor(() => expect(called("stop")).toEqual([[session.answer?.id]]));
  });

  it("goes back through earlier inputs with arrow-up, and forward to the draft", async () => {
    await open();
    await ask("one");
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    await type("draft");
    await press("ArrowUp");
    expect(input().value).toBe("one");
    await press("ArrowUp");
    expect(input().value).toBe("one");
    await press("ArrowDown");
    expect(input().value).toBe("draft");
  });
});

describe("hiding and showing", () => {
  it("loads the model of the next question when it is shown", async () => {
    const settings = { ...NO_SETTINGS, model: "starter" };
    await open((fake) => fake.setSettings({ assistants: [{ name: "Poet", settings }] }));
    session.assistant = "Poet";
    fake.refuse("loadModel", { code: "not_found" });
    session.shown();
    expect(called("loadModel")).toEqual([[settings]]);
  });

  it("hides on Escape while the response continues, and shows it again", async () => {
    await open();
    await ask();
    await press("Escape");
    expect(called("hideWindow")).toHaveLength(1);
    expect(called("stop")).toEqual([]);
    fake.player().write(99);
    session.shown();
    await within(screen.getByRole("region", { name: "Response" })).findByText("Above a door.");
  });

  it("shows the exchange again within ten minutes, and is empty after them", async () => {
    const clock = vi.spyOn(Date, "now");
    const start = 1_800_000_000_000;
    clock.mockReturnValue(start);
    await open();
    await ask();
    fake.player().write(99);
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    session.hidden();
    clock.mockReturnValue(start + EXCHANGE_TIMEOUT_MS);
    session.shown();
    await within(screen.getByRole("region", { name: "Response" })).findByText("Above a door.");
    const { conversation } = session;
    expect(conversation).not.toBeNull();
    session.hidden();
    clock.mockReturnValue(start + 2 * EXCHANGE_TIMEOUT_MS + 1);
    session.shown();
    await waitFor(() => expect(session.answer).toBeNull());
    expect(session.conversation).toBeNull();
    expect(document.activeElement).toBe(input());
    clock.mockRestore();
  });

  it("keeps text and attachment until they are sent", async () => {
    await open((fake) => (fake.captured = { source: "clipboard", text: "Copied words" }));
    await press("V", { ...command, shiftKey: true });
    await screen.findByText("12 characters");
    await type("Expl");
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 10 * EXCHANGE_TIMEOUT_MS);
    session.shown();
    await press("n", command);
    clock.mockRestore();
    expect(input().value).toBe("Expl");
    screen.getByText("12 characters");
    await ask("Explain");
    expect(called("ask")).toEqual([
      [null, "Explain", [{ name: null, text: "Copied words" }], false, false, NO_SETTINGS],
    ]);
    expect(session.captured).toBeNull();
  });

  it("deletes the exchange, the attachment and earlier inputs when the history is cleared", async () => {
    await open((fake) => (fake.captured = { source: "clipboard", text: "Copied words" }));
    await ask("one");
    fake.player().end({ ending: "stop" });
    await waitFor(() => expect(session.isWriting).toBe(false));
    await press("V", { ...command, shiftKey: true });
    session.forgetAll();
    await waitFor(() => expect(session.answer).toBeNull());
    expect([session.conversation, session.captured, session.question]).toEqual([null, null, ""]);
    await press("ArrowUp");
    expect(input().value).toBe("");
  });

  it("continues in the chat window on Command-Enter", async () => {
    await open();
    await ask();
    await press("Enter", command);
    await waitFor(() => expect(called("hideWindow")).toHaveLength(1));
    expect(called("showWindow")).toEqual([["chat", session.conversation, null]]);
  });

  it("sends the typed text before continuing in the chat", async () => {
    await open();
    await type("Hello");
    await press("Enter", command);
    await waitFor(() => expect(called("showWindow")).toHaveLength(1));
    expect(called("ask")).toHaveLength(1);
    expect(called("showWindow")[0]![1]).toBe(session.conversation);
  });
});

describe("saved prompts", () => {
  it("are listed after a slash, selected with arrows, and completed with Tab", async () => {
    await open();
    await type("/");
    expect(screen.getAllByRole("option")).toHaveLength(4);
    await press("ArrowDown");
    expect(screen.getAllByRole("option")[1]!.ariaSelected).toBe("true");
    expect(input().getAttribute("aria-activedescendant")).toBe("completion-1");
    await press("Tab");
    await waitFor(() => expect(input().value).toBe("/fix "));
  });

  it("close on Escape without hiding the panel", async () => {
    await open();
    await type("/su");
    await press("Escape");
    await waitFor(() => expect(screen.queryByRole("listbox")).toBeNull());
    expect(called("hideWindow")).toEqual([]);
    await press("Escape");
    expect(called("hideWindow")).toHaveLength(1);
  });

  it("are sent at once with an attachment", async () => {
    await open((fake) => (fake.captured = { source: "selection", text: "A long text." }));
    await press("e", command);
    await screen.findByText("A long text.");
    await type("/su");
    await press("Enter");
    await waitFor(() => expect(called("ask")).toHaveLength(1));
    const [, text, attachments] = called("ask")[0]!;
    expect(text).toMatch(/^Summarize .*\n\nA long text\.$/s);
    expect(attachments).toEqual([]);
  });

  it("are filled with the typed text and keep the attachment separate", async () => {
    await open();
    expect(composed("/fix teh", "Taken")).toMatchObject({ attachment: "Taken" });
    expect(composed("/fix teh", "Taken").text).toMatch(/teh$/);
    expect(composed("/nothing such", "")).toEqual({ text: "/nothing such", attachment: "" });
  });
});

describe("attaching text", () => {
  it("shows the text with its length, sends it with the question, and can be removed", async () => {
    await open((fake) => (fake.captured = { source: "clipboard", text: "Copied words" }));
    await press("V", { ...command, shiftKey: true });
    await screen.findByText("12 characters");
    await press("Backspace");
    await waitFor(() => expect(screen.queryByText("12 characters")).toBeNull());
    await fireEvent.click(screen.getByRole("button", { name: "Attach the clipboard" }));
    await screen.findByText("12 characters");
    await ask("Explain");
    expect(called("ask")).toEqual([
      [null, "Explain", [{ name: null, text: "Copied words" }], false, false, NO_SETTINGS],
    ]);
  });

  it("says if there is no text", async () => {
    await open();
    await press("e", command);
    await screen.findByText("No text is selected.");
  });

  it("says why the system does not allow access", async () => {
    await open((fake) => {
      fake.aboutView = { ...fake.aboutView, platform: "linux" };
      fake.refuse("captureText", { code: "other", reason: "no portal" });
    });
    await press("e", { ctrlKey: true });
    await screen.findByText("Can’t read the text: no portal");
  });

  it("does not offer the selection if it cannot be read", async () => {
    await open((fake) => (fake.aboutView = { ...fake.aboutView, missing: ["selection"] }));
    expect(screen.queryByRole("button", { name: "Attach the selection" })).toBeNull();
    screen.getByRole("button", { name: "Attach the clipboard" });
  });
});

describe("the panel", () => {
  it("is one line at rest, and has a footer as soon as there is something to do", async () => {
    const { container } = await open();
    expect(container.querySelector("footer")).toBeNull();
    await type("Why");
    expect(container.querySelector("footer")?.textContent).toMatch(/Ask.*Open in Chat/s);
    await type("");
    expect(container.querySelector("footer")).toBeNull();
  });

  it("is pinned by its button and by Command-Shift-P", async () => {
    await open();
    await fireEvent.click(screen.getByRole("button", { name: "Pin window" }));
    const unpin = await screen.findByRole("button", { name: "Unpin window" });
    expect(unpin.getAttribute("aria-pressed")).toBe("true");
    await press("p", { ...command, shiftKey: true });
    await screen.findByRole("button", { name: "Pin window" });
    expect(called("updateSettings")).toEqual([
      [{ general: { pin_prompt: true } }], [{ general: { pin_prompt: false } }],
    ]);
  });

  it("has a menu of models, with room for it, and returns the focus to the line", async () => {
    await open();
    await press("m", { ...command, shiftKey: true });
    await waitFor(() => expect(called("fitPrompt")).toContainEqual([560]));
    await fireEvent.click(await screen.findByRole("menuitemradio", { name: /^Starter/ }));
    expect(called("chooseModel")).toEqual([["starter"]]);
    await waitFor(() => expect(document.activeElement).toBe(input()));
  });

  it("unfolds the reasoning", async () => {
    await open((fake) => (fake.script = { ...fake.script, reasoning: "They ask about doors." }));
    await ask();
    fake.player().write(99);
    fake.player().end({ ending: "stop" });
    const fold = await screen.findByRole("button", { name: /^(Reasoning|Thought)/ });
    expect(screen.queryByText("They ask about doors.")).toBeNull();
    await fireEvent.click(fold);
    await screen.findByText("They ask about doors.");
  });

  it("shows why requests are held", async () => {
    await open();
    fake.setStatus({ activity: "held", held: "heat_critical" });
    await screen.findByText("Paused: very high temperature");
  });

  it("shows that the shortcut is not available, and links to the setting", async () => {
    await open((fake) => (fake.aboutView = {
      ...fake.aboutView, hotkey: { hotkey: "taken", shortcut: "Alt+Space" },
    }));
    await fireEvent.click(screen.getByRole("button", { name: "Choose a Shortcut…" }));
    expect(called("showWindow")).toEqual([["settings", null, "general"]]);
  });

  it("opens the sheet of shortcuts with Command-slash; a question mark is typed", async () => {
    await open();
    await press("?", { shiftKey: true });
    expect(screen.queryByText("Keyboard shortcuts", { selector: "h2" })).toBeNull();
    await press("/", command);
    await screen.findByText("Keyboard shortcuts", { selector: "h2" });
  });

  it("has no axe violation: empty, completing, answering, failed", async () => {
    const { container } = await open((fake) => (fake.captured = { source: "selection", text: "Words" }));
    expect(await violations(container)).toEqual([]);
    await press("e", command);
    await type("/");
    expect(await violations(container)).toEqual([]);
    await ask("Why?");
    fake.player().write(4);
    await within(screen.getByRole("region", { name: "Response" })).findByText(/It is a/);
    expect(await violations(container)).toEqual([]);
  });
});
