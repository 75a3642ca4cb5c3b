/** The chip of the quick prompt that says what a question asks for. */
import { fireEvent, screen, waitFor } from "@testing-library/svelte";
import { expect, it } from "vitest";
import { NO_SETTINGS } from "../ipc";
import { called, command, fake, input, open, press, session, type } from "./test-panel";

const problem = /^“Translate” takes up to 3,276 tokens of attached text/;

it("is shown before sending, and Esc removes it before it hides the panel", async () => {
  await open((fake) => (fake.routed = "translate"));
  await type("in german please");
  await screen.findByText("Translate");
  await press("Escape");
  await waitFor(() => expect(screen.queryByText("Translate")).toBeNull());
  expect(called("hideWindow")).toEqual([]);
  await press("Enter");
  await waitFor(() => expect(called("ask")).toHaveLength(1));
  expect(called("ask")[0]).toEqual([null, "in german please", [], false, false, NO_SETTINGS, "chat"]);
  await press("Escape");
  expect(called("hideWindow")).toHaveLength(1);
});

it("is removed with its button, which gives the focus back to the input", async () => {
  await open((fake) => (fake.routed = "summarize"));
  await type("sum this up");
  await fireEvent.click(await screen.findByRole("button", { name: "Treat as plain chat" }));
  await waitFor(() => expect(screen.queryByText("Summarize")).toBeNull());
  expect(document.activeElement).toBe(input());
});

it("says that the selected text is too long for it, and sends it as plain chat", async () => {
  await open((fake) => {
    fake.routed = "translate";
    fake.captured = { source: "selection", text: "a".repeat(16_000) };
  });
  await press("e", command);
  await type("in german");
  await screen.findByText(problem);
  await press("Enter");
  await press("Enter", command);
  expect(called("ask")).toEqual([]);
  expect(called("showWindow")).toEqual([]);
  expect(screen.queryByRole("button", { name: /^Ask/ })).toBeNull();
  // A saved prompt has the text in its place.
  await type("/translate ");
  await screen.findByText(problem);
  await press("Enter");
  expect(called("ask")).toEqual([]);
  await press("Escape");
  await waitFor(() => expect(screen.queryByText(problem)).toBeNull());
  await press("Enter");
  // The app counts the text with what is attached.
  await waitFor(() => expect(called("ask")[0]?.slice(-2)).toEqual(["chat", 4000]));
});

it("is decided before a saved prompt from the list is sent", async () => {
  await open((fake) => {
    fake.routed = "translate";
    fake.captured = { source: "selection", text: "a".repeat(16_000) };
  });
  await press("e", command);
  await type("/tra");
  await press("Enter");
  await screen.findByText(problem);
  expect(called("ask")).toEqual([]);
  await fireEvent.click(screen.getByRole("button", { name: "Remove attachment" }));
  fake.captured = { source: "selection", text: "Guten Tag" };
  await press("e", command);
  await type("/tra");
  await press("Enter");
  await waitFor(() => expect(called("ask")[0]?.slice(-2)).toEqual(["translate", 3]));
  expect(called("ask")).toHaveLength(1);
});

it("offers a model for it, with one key, for this conversation alone", async () => {
  await open((fake) => {
    fake.routed = "code";
    fake.offered = { id: "starter", name: "Starter" };
  });
  await type("sort a list in python");
  await screen.findByText("Use Starter for this?");
  await press("u", command);
  await waitFor(() => expect(screen.queryByText("Use Starter for this?")).toBeNull());
  await press("Enter");
  await waitFor(() => expect(called("ask")[0]?.[5]).toEqual({ ...NO_SETTINGS, model: "starter" }));
  expect(called("chooseModel")).toEqual([]);
  expect(called("updateSettings")).toEqual([]);
});

it("does not offer a model again that the question was asked without", async () => {
  await open((fake) => {
    fake.routed = "code";
    fake.offered = { id: "starter", name: "Starter" };
  });
  await type("sort a list in python");
  await screen.findByText("Use Starter for this?");
  await press("Enter");
  await waitFor(() => expect(called("ask")[0]?.[5]).toEqual(NO_SETTINGS));
  expect(called("updateSettings")).toEqual([[{ declined_offers: ["code"] }]]);
});

it("is left out of a question that failed because of it", async () => {
  await open();
  await type("in german");
  await press("Enter");
  await waitFor(() => expect(session.answer).not.toBeNull());
  const failure = { code: "attached_too_long" as const, route: "translate" as const, attached_tokens: 4001,
    max_tokens: 3276 };
  const failed = session.answer!.id;
  fake.player().end({ ending: "failed", failure });
  await fireEvent.click(await screen.findByRole("button", { name: "Send as Plain Chat" }));
  await waitFor(() => expect(called("regenerate")).toEqual([[failed, false, null, "chat"]]));
});
