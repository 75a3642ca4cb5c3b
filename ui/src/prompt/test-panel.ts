/** The quick prompt against a new fake app in each test. */
import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { beforeEach, expect } from "vitest";
import { chooseLanguage } from "../i18n";
import { useIpc } from "../ipc";
import { FakeIpc, pieces } from "../ipc/fake";
import { startApp } from "../state/app.svelte";
import Prompt from "./Prompt.svelte";
import { Session } from "./session.svelte";

export let fake: FakeIpc;
export let session: Session;

let stop: () => void;

export async function open(setUp: (fake: FakeIpc) => void = () => {}) {
  setUp(fake);
  stop = await startApp((event) => {
    if (event.event === "target") session.target = event.target;
  });
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

export function input(): HTMLTextAreaElement {
  return screen.getByLabelText("Question");
}

export async function type(text: string) {
  await fireEvent.input(input(), { target: { value: text } });
}

export async function press(key: string, held: object = {}) {
  await fireEvent.keyDown(input(), { key, ...held });
}

export const command = { metaKey: true };

export function called(name: string): unknown[][] {
  return fake.calls.filter((call) => call.name === name).map((call) => call.values);
}

export async function ask(text = "What is a transom?") {
  await type(text);
  await press("Enter");
  await waitFor(() => expect(session.answer).not.toBeNull());
}
