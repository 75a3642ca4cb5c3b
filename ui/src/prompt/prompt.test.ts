/** The quick prompt from the first key to opening the chat, against the fake app. */
import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { chooseLanguage } from "../i18n";
import { useIpc } from "../ipc";
import { FakeIpc, pieces } from "../ipc/fake";
import { violations } from "../settings/parts/axe";
import { startApp } from "../state/app.svelte";
import Prompt from "./Prompt.svelte";
import { composed, EXCHANGE_TIMEOUT_MS, Session } from "./session.svelte";

let fake: FakeIpc;
let session: Session;
let stop: () => void;

async function open(setUp: (fake: FakeIpc) => void = () => {}) {
  setUp(fake);
  stop = await startApp();
  return render(Prompt, { session });
}

beforeEach(() => {
  stop?.();
  fake = new FakeIpc();
  fake.script = { answer: pieces("It is a small window.\n\nAbove a door."), rate: 0 };
  useIpc(fake);
  session = new Session();
  chooseLanguage("en");
  localStorage.clear();
});

function input(): HTMLTextAreaElement {
  return screen.getByLabelText("Question");
}

async function type(text: string) {
  await fireEvent.input(input(), { target: { value: text } });
}

async function press(key: string, held: object = {}) {
  await fireEvent.keyDown(input(), { key, ...held });
}

const command = { metaKey: true };

function called(name: string): unknown[][] {
  return fake.calls.filter((call) => call.name === name).map((call) => call.values);
}

async function ask(text = "What is a transom?") {
  await type(text);
  await press("Enter");
  await waitFor(() => expect(session.answer).not.toBeNull());
}

describe("asking", () => {
  it("has the focus in the input, asks on Enter, and streams the answer in place", async () => {
    await open();
    expect(document.activeElement).toBe(input());
    await ask();
    expect(called("ask")).toEqual([[null, "What is a transom?", "", false]]);
    expect(input().value).toBe("");
    fake.player().write(3);
    await within(screen.getByRole("region", { name: "Response" })).findByText(/It is a/);
    fake.player().write(99);
    fake.player().end({ ending: "stop" });
    await within(screen.getByRole("region", { name: "Response" })).findByText("Above a door.");
    await screen.findByText(/tokens\/s/);
  });

  it("goes on in the same conversation, until it begins anew", async () => {
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

  it("does not ask nothing, nor twice, nor in the middle of a word that is being composed", async () => {
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

  it("shows why it failed, and tries again", async () => {
    await open((fake) =>
      fake.refuse("ask", { code: "turn", failure: { code: "engine_crashed" } }));
    await type("Hello");
    await press("Enter");
    await screen.findByText("The model stopped unexpectedly.");
    await fireEvent.click(screen.getByRole("button", { name: "Try Again" }));
    await waitFor(() => expect(session.answer).not.toBeNull());
    expect(called("ask").map((values) => values[1])).toEqual(["Hello", "Hello"]);
  });

  it("answers again, and asks no second time, when the answer failed", async () => {
    await open();
    await ask("Hello");
    const { conversation } = session;
    const failure = { code: "too_large" as const, need_bytes: 12 * 2 ** 30, budget_bytes: 8 * 2 ** 30,
      context_that_fits: null };
    const failed = session.answer!.id;
    fake.player().end({ ending: "failed", failure });
    await fireEvent.click(await screen.findByRole("button", { name: "Load Anyway" }));
    await waitFor(() => expect(called("regenerate")).toEqual([[failed, true]]));
    const again = session.answer!.id;
    fake.player().end({ ending: "failed", failure });
    await fireEvent.click(await screen.findByRole("button", { name: "Try Again" }));
    await waitFor(() => expect(called("regenerate")).toHaveLength(2));
    expect(called("regenerate")[1]).toEqual([again, false]);
    expect(called("ask")).toHaveLength(1);
    const stored = [...fake.tree.messages.values()].filter(({ view }) => view.speaker === "user");
    expect(stored.map(({ view }) => [view.conversation, view.text])).toEqual([[conversation, "Hello"]]);
  });

  it("begins another conversation where the one it followed up was deleted", async () => {
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

  it("copies the answer with Command-C, unless something is selected", async () => {
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

  it("warns of a saved prompt that does not exist", async () => {
    await open();
    await type("/sumary this");
    await press("Enter");
    await screen.findByText(/no saved prompt named “\/sumary”/);
    expect(called("ask")).toEqual([]);
    await press("Enter");
    await waitFor(() => expect(called("ask")[0]?.[1]).toBe("/sumary this"));
  });

  it("stops on Command-full stop", async () => {
    await open();
    await ask();
    await press(".", command);
    await waitFor(() => expect(called("stop")).toEqual([[session.answer?.id]]));
  });

  it("goes back through what was asked with arrow-up, and forth to what was typed", async () => {
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

describe("leaving and coming back", () => {
  it("hides on Escape, lets the answer go on, and shows it when it comes back", async () => {
    await open();
    await ask();
    await press("Escape");
    expect(called("hideWindow")).toHaveLength(1);
    expect(called("stop")).toEqual([]);
    fake.player().write(99);
    session.shown();
    await within(screen.getByRole("region", { name: "Response" })).findByText("Above a door.");
  });

  it("shows the exchange when it comes back within ten minutes, and is fresh after them", async () => {
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

  it("keeps what is typed and attached until it is sent", async () => {
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
    expect(called("ask")).toEqual([[null, "Explain", "Copied words", false]]);
    expect(session.captured).toBeNull();
  });

  it("forgets the exchange, the attachment and what was asked before when the history is cleared", async () => {
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

  it("hands the exchange to the chat window on Command-Enter", async () => {
    await open();
    await ask();
    await press("Enter", command);
    await waitFor(() => expect(called("hideWindow")).toHaveLength(1));
    expect(called("showWindow")).toEqual([["chat", session.conversation, null]]);
  });

  it("asks what is typed before it hands over", async () => {
    await open();
    await type("Hello");
    await press("Enter", command);
    await waitFor(() => expect(called("showWindow")).toHaveLength(1));
    expect(called("ask")).toHaveLength(1);
    expect(called("showWindow")[0]![1]).toBe(session.conversation);
  });
});

describe("saved prompts", () => {
  it("are listed after a slash, chosen with arrows, and completed with Tab", async () => {
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

  it("are asked at once with what was taken along", async () => {
    await open((fake) => (fake.captured = { source: "selection", text: "A long text." }));
    await press("e", command);
    await screen.findByText("A long text.");
    await type("/su");
    await press("Enter");
    await waitFor(() => expect(called("ask")).toHaveLength(1));
    const [, text, attachment] = called("ask")[0]!;
    expect(text).toMatch(/^Summarize .*\n\nA long text\.$/s);
    expect(attachment).toBe("");
  });

  it("are filled with what was typed, and leave the taken text beside it then", async () => {
    await open();
    expect(composed("/fix teh", "Taken")).toMatchObject({ attachment: "Taken" });
    expect(composed("/fix teh", "Taken").text).toMatch(/teh$/);
    expect(composed("/nothing such", "")).toEqual({ text: "/nothing such", attachment: "" });
  });
});

describe("taking along", () => {
  it("shows the text with its length, sends it beside the question, and can be left", async () => {
    await open((fake) => (fake.captured = { source: "clipboard", text: "Copied words" }));
    await press("V", { ...command, shiftKey: true });
    await screen.findByText("12 characters");
    await press("Backspace");
    await waitFor(() => expect(screen.queryByText("12 characters")).toBeNull());
    await fireEvent.click(screen.getByRole("button", { name: /^Clipboard/ }));
    await screen.findByText("12 characters");
    await ask("Explain");
    expect(called("ask")).toEqual([[null, "Explain", "Copied words", false]]);
  });

  it("says when there is nothing", async () => {
    await open();
    await press("e", command);
    await screen.findByText("No text is selected.");
  });

  it("says why the system does not let it be read", async () => {
    await open((fake) => {
      fake.aboutView = { ...fake.aboutView, platform: "linux" };
      fake.refuse("captureText", { code: "other", reason: "no portal" });
    });
    await press("e", { ctrlKey: true });
    await screen.findByText("Can’t read the text: no portal");
  });

  it("does not offer the selection where it cannot be read", async () => {
    await open((fake) => (fake.aboutView = { ...fake.aboutView, missing: ["selection"] }));
    expect(screen.queryByRole("button", { name: /^Selection/ })).toBeNull();
  });
});

describe("the panel", () => {
  it("says what holds it back", async () => {
    await open();
    fake.setStatus({ activity: "held", held: "heat_critical" });
    await screen.findByText("Paused: very high temperature");
  });

  it("says that the shortcut could not be had, and leads to another one", async () => {
    await open((fake) => (fake.aboutView = {
      ...fake.aboutView, hotkey: { hotkey: "taken", shortcut: "Alt+Space" },
    }));
    await fireEvent.click(screen.getByRole("button", { name: "Choose a Shortcut…" }));
    expect(called("showWindow")).toEqual([["settings", null, "general"]]);
  });

  it("opens the sheet of shortcuts with Command-slash, and leaves the question mark a letter", async () => {
    await open();
    await press("?", { shiftKey: true });
    expect(screen.queryByText("Keyboard shortcuts", { selector: "h2" })).toBeNull();
    await press("/", command);
    await screen.findByText("Keyboard shortcuts", { selector: "h2" });
  });

  it("has nothing that axe finds wrong: empty, completing, answering, refused", async () => {
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
