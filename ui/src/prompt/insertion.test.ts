/** The response of the quick prompt goes into the program that it was called from. */
import { fireEvent, screen, waitFor } from "@testing-library/svelte";
import { describe, expect, it } from "vitest";
import type { TargetView } from "../ipc";
import { ask, called, command, fake, open, press, session } from "./test-panel";

describe("inserting into the other program", () => {
  const text = "It is a small window.\n\nAbove a door.";

  async function answered(target: TargetView) {
    await open();
    fake.emit({ event: "target", target });
    await ask();
    fake.player().write(99);
    fake.player().end({ ending: "stop" });
    await screen.findByRole("button", { name: /^Copy/ });
    expect(session.answerText).toBe(text);
  }

  it("is offered by buttons with their keys", async () => {
    await answered({ has_selection: true, problem: null });
    await fireEvent.click(screen.getByRole("button", { name: /^Insert\b/ }));
    await fireEvent.click(screen.getByRole("button", { name: /^Replace\b/ }));
    expect(called("insertText")).toEqual([[text, false], [text, true]]);
  });

  it("happens on Command-I and Command-R, the latter only with a selection", async () => {
    await answered({ has_selection: false, problem: null });
    expect(screen.queryByRole("button", { name: /^Replace/ })).toBeNull();
    await press("r", command);
    await press("i", command);
    await waitFor(() => expect(called("insertText")).toEqual([[text, false]]));
  });

  it("happens once while the key is held down", async () => {
    await answered({ has_selection: false, problem: null });
    await Promise.all([session.insert(false), session.insert(false)]);
    expect(called("insertText")).toEqual([[text, false]]);
  });

  it("is not offered before the response is complete", async () => {
    await open();
    fake.emit({ event: "target", target: { has_selection: true, problem: null } });
    await ask();
    fake.player().write(3);
    await press("i", command);
    expect(screen.queryByRole("button", { name: /^(Insert|Replace)/ })).toBeNull();
    expect(called("insertText")).toEqual([]);
  });

  it("says how to allow it", async () => {
    await answered({ has_selection: false, problem: "not_allowed" });
    await fireEvent.click(screen.getByRole("button", { name: /^Insert/ }));
    await screen.findByText(/^To insert text in other apps, allow Transom/);
    expect(called("insertText")).toEqual([]);
  });

  it.each([
    ["no_program", "There is no other app to insert into."],
    ["wayland", "A Wayland session doesn’t let apps insert text elsewhere."],
    ["password", "The cursor is in a password field."],
  ] as const)("has no button if it is not possible, and the key says why: %s", async (problem, says) => {
    await answered({ has_selection: false, problem });
    expect(screen.queryByRole("button", { name: /^Insert/ })).toBeNull();
    await press("i", command);
    await screen.findByText(says);
  });

  it("copies the response if the other program does not take it, and comes back", async () => {
    await answered({ has_selection: false, problem: null });
    fake.refuse("insertText", { code: "other", reason: "it did not paste" });
    await press("i", command);
    await screen.findByText(/^That app didn’t take the text/);
    expect(fake.copied).toEqual([text]);
    expect(called("showWindow")).toEqual([["prompt", null, null]]);
    session.hidden();
    await waitFor(() => expect(screen.queryByText(/^That app didn’t take the text/)).toBeNull());
  });
});
