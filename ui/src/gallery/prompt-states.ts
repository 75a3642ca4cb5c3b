/** The states of the quick prompt for screenshots. */
import { mount, tick } from "svelte";
import { pieces, type FakeIpc, type Script } from "../ipc/fake";
import * as defaults from "../ipc/fake/defaults";
import Prompt from "../prompt/Prompt.svelte";
import { Session } from "../prompt/session.svelte";
import { startApp } from "../state/app.svelte";
import { onLinux, speaking, type GalleryStates } from "./settings-stage";
import { click, wait } from "./steps";
import { thoughts } from "./texts";

const answer = pieces(
  "A transom is the **crossbar** above a door, and the small window over it.\n\n" +
    "It lets light and air into a room while the door stays shut. In older houses it could be tilted open with a long rod.\n\n" +
    "The word is also used for the flat back of a boat.",
);
const article =
  "The transom window first appeared in the fourteenth century, when glass was costly and halls were dark. Builders set it above the door so that daylight reached the passage behind it.";

function prompt(
  setUp: (fake: FakeIpc) => void = () => {},
  then: (session: Session, fake: FakeIpc) => Promise<void> = async () => {},
  script: Partial<Script> = {},
) {
  return async (fake: FakeIpc, target: HTMLElement) => {
    const session = new Session();
    fake.script = { answer, rate: 0, ...script };
    setUp(fake);
    await startApp();
    const drawn = mount(Prompt, { target, props: { session } });
    await tick();
    await then(session, fake);
    await tick();
    return drawn;
  };
}

async function ask(session: Session) {
  session.text = "What is a transom?";
  await session.ask();
}

async function answered(session: Session, fake: FakeIpc) {
  await ask(session);
  fake.player().end({ ending: "stop" });
  await tick();
}

const take = (session: Session) => session.capture("selection");

const hasSelection = (fake: FakeIpc) => {
  fake.captured = { source: "selection", text: article };
};

export const promptStates: GalleryStates = {
  "prompt-empty": { shows: "Ask anything", show: prompt() },
  "prompt-pinned": {
    shows: "Unpin window",
    show: prompt((fake) => void fake.updateSettings({ general: { pin_prompt: true } })),
  },
  "prompt-models": {
    shows: "Eject Qwen3 4B",
    show: prompt(undefined, () => click("[data-model-menu]")),
  },
  "prompt-assistant": {
    shows: "Strict Editor",
    show: prompt((fake) => fake.setSettings({ assistants: defaults.sampleAssistants }),
      async (session) => session.chooseAssistant("Strict Editor")),
  },
  "prompt-chip": { shows: "characters", show: prompt(hasSelection, take) },
  "prompt-model-offer": {
    shows: "Use Qwen3-Coder 30B-A3B · 4-bit for this?",
    show: prompt((fake) => {
      fake.routed = "code";
      fake.offered = { id: "qwen3-coder-30b-a3b@4-bit", name: "Qwen3-Coder 30B-A3B · 4-bit" };
    }, async (session) => {
      session.text = "Write a Python function that merges two sorted lists";
      await wait(350);
    }),
  },
  "prompt-too-long-for-task": {
    shows: "takes up to 3,276 tokens of attached text",
    show: prompt((fake) => {
      fake.routed = "translate";
      fake.captured = { source: "selection", text: article.repeat(80) };
    }, async (session) => {
      await take(session);
      session.text = "in German please";
      await wait(350);
    }),
  },
  "prompt-completion": {
    shows: "/summarize",
    show: prompt(hasSelection, async (session) => {
      await take(session);
      session.text = "/";
    }),
  },
  "prompt-loading": {
    shows: "Loading the model, 62%",
    show: prompt(undefined, ask, { stages: [{ stage: "loading", fraction: 0.62 }] }),
  },
  "prompt-streaming": { shows: "Stop", show: prompt(undefined, ask, { initialWords: 32 }) },
  "prompt-answered": {
    shows: "The word is also used for the flat back of a boat.",
    show: prompt(undefined, answered, { initialWords: 999 }),
  },
  "prompt-replace": {
    shows: "Replace",
    show: prompt(undefined, async (session, fake) => {
      session.target = { has_selection: true, problem: null };
      await answered(session, fake);
    }, { initialWords: 999 }),
  },
  "prompt-insert-not-allowed": {
    shows: "To insert text in other apps",
    show: prompt(undefined, async (session, fake) => {
      session.target = { has_selection: false, problem: "not_allowed" };
      await answered(session, fake);
      // The text of a response is complete in the next frame.
      await wait(150);
      await session.insert(false);
    }, { initialWords: 999 }),
  },
  "prompt-reasoning": {
    shows: "Rayleigh scattering",
    show: prompt(undefined, async (session, fake) => {
      await answered(session, fake);
      await click(".reasoning button");
    }, { reasoning: thoughts, initialWords: 999 }),
  },
  "prompt-held": {
    shows: "Paused: very high temperature",
    show: prompt((fake) => fake.setStatus({ activity: "held", held: "heat_critical" })),
  },
  "prompt-error": {
    shows: "Not enough memory for this model right now.",
    show: prompt((fake) => fake.setStatus({ model: null, in_use_bytes: 0 }), async (session, fake) => {
      await ask(session);
      fake.player().end({ ending: "failed", failure: {
        code: "too_large", model: null, need_bytes: 15.2 * defaults.GB, budget_bytes: 10.5 * defaults.GB,
        context_that_fits: null,
      } });
      // A response is drawn in the next frame.
      await wait(150);
    }),
  },
  "prompt-no-shortcut": {
    shows: "Choose a Shortcut…",
    show: prompt(onLinux({ hotkey: { hotkey: "taken", shortcut: "Ctrl+Space" }, missing: ["selection"] })),
  },
  "prompt-german": {
    shows: "Ersetzen",
    show: prompt(speaking("de"), async (session, fake) => {
      session.target = { has_selection: true, problem: null };
      await answered(session, fake);
    }, { initialWords: 999 }),
  },
  "prompt-japanese": { shows: "What is a transom?", show: prompt(speaking("ja"), ask, { initialWords: 12 }) },
};
