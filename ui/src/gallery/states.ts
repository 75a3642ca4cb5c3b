/**
 * The states of the chat page for screenshots. `set` prepares the app before the page opens, which
 * then opens the conversation that was added last; `after` acts like a user.
 */
import { GB, sampleAssistants } from "../ipc/fake/defaults";
import { written, type FakeIpc, type Script } from "../ipc/fake";
import { hubError } from "../ipc/fake/catalog";
import { blocks, pieces, source } from "../ipc/fake/text";
import {
  NO_SETTINGS, type AnswerStats, type AttachedText, type EndingView, type Failure, type StatusView, type SummaryView,
} from "../ipc";
import { NO_CHOICES } from "../settings/patch";
import { find } from "../state/find.svelte";
import { history } from "../state/history.svelte";
import { codeAnswer, marksAnswer, prose, tableAnswer, thoughts } from "./texts";
import { speaking } from "./settings-stage";
import { answered, click, key, longConversation, manyConversations, showHistory, type, wait } from "./steps";

export interface ChatState {
  /** Text that only this state shows; see `claim`. */
  shows: string;
  set?: (ipc: FakeIpc) => void;
  after?: (ipc: FakeIpc) => Promise<void> | void;
}

const question = "Why is the sky blue?";

/** Imported late: the composer reads the stored drafts, which are cleared before. */
async function attach(attached: AttachedText) {
  const { composer } = await import("../state/composer.svelte");
  composer.attach(attached);
}

const report = { name: "Minutes of the meeting.pdf", text: `Minutes of the meeting\n\n${prose}` };

const asks = (text = question) => async () => {
  await type(text);
  key("Enter");
};

const writes = (script: Partial<Script>, status: Partial<StatusView> = {}) => (ipc: FakeIpc) => {
  ipc.script = { answer: pieces(prose), rate: 0, ...script };
  ipc.setStatus(status);
};

const answers = (more: Parameters<typeof answered>[3] = {}) => (ipc: FakeIpc) =>
  answered(ipc, question, pieces(prose), more);

/** A response of `n` paragraphs that ended early. */
const ends = (n: number, ending: EndingView) => (ipc: FakeIpc) =>
  answered(ipc, question, pieces(prose).slice(0, n), { ending });

/** A response that failed because the model could not be loaded. */
const fails = (failure: Failure) => (ipc: FakeIpc) => {
  ipc.setStatus({ model: null, in_use_bytes: 0 });
  ends(0, { ending: "failed", failure })(ipc);
};

const statsOf = (change: Partial<AnswerStats>): AnswerStats => ({
  prompt_tokens: 0, cached_tokens: 0, generated_tokens: 168, time_to_first_token_seconds: 0.41,
  tokens_per_second: 41.8, dropped_messages: 0, context_length: null, route: "chat", is_partial: false, ...change,
});

/** A full chat, whose last response was written without the first two exchanges. */
const leavesOut = (ipc: FakeIpc) => {
  const stats = statsOf({ prompt_tokens: 4300, cached_tokens: 3900, dropped_messages: 4 });
  return ipc.addConversation("A long talk", [
    "What is light?", "A wave, and a stream of photons.", "How fast is it?", "299,792,458 m/s in a vacuum.",
    question, { blocks: blocks(pieces(prose)), text: source(pieces(prose)), stats },
  ]);
};

/** As `leavesOut`, with a summary of these exchanges. */
const summarizes = (summary: Partial<SummaryView> | null) => (ipc: FakeIpc) => {
  const { id } = leavesOut(ipc);
  ipc.tree.settings.set(id, { ...NO_SETTINGS, overflow: "summarize" });
  if (summary) ipc.tree.changeSummary(ipc.tree.path(id)[3]!.id, summary);
};

const summary = "Light is a wave and a stream of photons. Its speed in a vacuum is 299,792,458 m/s.";

const long = (n: number) => (ipc: FakeIpc) => longConversation(ipc, n);

export const states: Record<string, ChatState> = {
  "chat-empty": { shows: "What would you like to know?" },
  "chat-starter": {
    shows: "This is the small starter model",
    set: (ipc) => void ipc.chooseModel("starter"),
  },
  "chat-starter-coming": {
    shows: "in the meantime",
    set: (ipc) => {
      void ipc.chooseModel("starter");
      ipc.downloadQueue.install("qwen3-8b@4-bit");
      ipc.downloadQueue.come(1, 0.4);
    },
  },
  "chat-model-ready": {
    shows: "Use Now",
    set: (ipc) => {
      void ipc.chooseModel("starter");
      ipc.downloadQueue.install("qwen3-8b@4-bit");
      ipc.setModels([...ipc.shown, ipc.downloadQueue.finish(1)]);
    },
  },
  "chat-model-failed": {
    shows: "Can’t download",
    set: ({ downloadQueue }) => {
      downloadQueue.install("qwen3-8b@4-bit");
      downloadQueue.come(1, 0.4);
      downloadQueue.fail(1, hubError("token_refused", "", { host: "huggingface.co" }));
    },
  },
  "chat-loading": {
    shows: "Loading Qwen3 4B · 4-bit, 62%",
    set: writes({ stages: [{ stage: "loading", fraction: 0.62 }] }, {
      activity: "loading", model: { name: "Qwen3 4B · 4-bit", load_fraction: 0.62, is_ready: false,
        is_unloading: false, memory_bytes: null, engine: null, context_length: null,
        unloads_in_seconds: null },
    }),
    after: asks(),
  },
  "chat-prefill": {
    shows: "Processing prompt",
    set: writes({ stages: [{ stage: "prefill", done: 2900, total: 6400 }] }, { activity: "answering" }),
    after: asks("Sum up the attached report, please."),
  },
  "chat-waiting": {
    shows: "Waiting for 2 other responses",
    set: writes({ stages: [{ stage: "waiting", position: 2 }] }),
    after: asks(),
  },
  "chat-streaming": {
    shows: "Stop",
    set: writes({ initialWords: 78 }, { activity: "answering" }),
    after: asks(),
  },
  "chat-long": { shows: "Bread and how it rises", set: long(24) },
  "chat-code": {
    shows: "Copy code",
    set: (ipc) => answered(ipc, "Count the words of a text in Rust.", codeAnswer),
  },
  "chat-table-math": {
    shows: "Mercury",
    set: (ipc) => answered(ipc, "Compare Mercury, Earth and Mars.", tableAnswer),
  },
  "chat-marks": {
    shows: "Show me all that an answer may hold",
    set: (ipc) => answered(ipc, "Show me all that an answer may hold.", marksAnswer),
  },
  "chat-reasoning": {
    shows: "Reasoning",
    set: answers({ reasoning: blocks(pieces(thoughts)) }),
    after: () => click(".reasoning button"),
  },
  "chat-thinking": {
    shows: "Thinking",
    set: writes({ reasoning: thoughts, initialWords: 14 }, { activity: "answering" }),
    after: async () => {
      await asks()();
      await click(".reasoning button");
    },
  },
  "chat-stats": {
    shows: "first token in",
    set: answers({ stats: statsOf({ prompt_tokens: 412, cached_tokens: 380 }) }),
    after: () => click(".stays .buttons > button:last-child"),
  },
  "chat-context": {
    shows: "The oldest messages will be left out.",
    set: answers({ stats: statsOf({ prompt_tokens: 7200 }) }),
  },
  "chat-left-out": {
    shows: "4 earlier messages are not in the context",
    set: leavesOut,
  },
  "chat-summary": {
    shows: "299,792,458 m/s.",
    set: summarizes(written(summary)),
    after: () => click(".summary .title"),
  },
  "chat-summary-writing": { shows: "Summarizing earlier messages…", set: summarizes({ is_writing: true }) },
  "chat-summary-missing": { shows: "Summarize Earlier Messages", set: summarizes(null) },
  "chat-summary-edit": {
    shows: "Edit the summary",
    set: summarizes(written(summary)),
    after: () => click("[aria-label='Edit summary']"),
  },
  "chat-summary-failed": {
    shows: "Can’t summarize the earlier messages.",
    set: summarizes({ failure: { code: "engine_crashed" } }),
  },
  "chat-too-long": {
    shows: "Leave Out the Oldest Messages",
    set: ends(0, { ending: "failed", failure: {
      code: "conversation_too_long", prompt_tokens: 8431, context_length: 8192 } }),
  },
  "chat-stopped": { shows: "Stopped.", set: ends(1, { ending: "canceled" }) },
  "chat-length": { shows: "Stopped at the length limit.", set: ends(2, { ending: "length" }) },
  "chat-shed": { shows: "Stopped early because memory was low.", set: ends(2, { ending: "shed" }) },
  "chat-error-crash": {
    shows: "The model stopped unexpectedly.",
    set: ends(1, { ending: "failed", failure: { code: "engine_crashed" } }),
  },
  "chat-too-large": {
    shows: "Use 4,096-Token Context",
    set: fails({ code: "too_large", model: null, need_bytes: 15.4 * GB, budget_bytes: 10.5 * GB,
      context_that_fits: 4096 }),
  },
  "chat-unusable": {
    shows: "Can’t use “model.safetensors”.",
    set: fails({
      code: "model_unusable", problem: { problem: "damaged", file: "model.safetensors" },
      reason: "model.safetensors: the file ends after 1.2 GB of 2.3 GB",
    }),
  },
  "chat-held-heat": {
    shows: "Waiting: high temperature",
    set: writes({ stages: [{ stage: "waiting", position: 0 }] }, {
      activity: "held", held: "heat_serious",
      limits: [{ limit: { limit: "new_answers" }, reason: "heat_serious" }],
    }),
    after: asks(),
  },
  "chat-status": {
    shows: "Active limits",
    set: (ipc) => {
      longConversation(ipc, 4);
      ipc.setStatus({ limits: [
        { limit: { limit: "answer_length", tokens: 1024 }, reason: "memory_warning" },
        { limit: { limit: "prefill_step", tokens: 256 }, reason: "heat_fair" },
        { limit: { limit: "idle_unload", seconds: 120 }, reason: "battery" },
      ], offer_smaller_model: true });
    },
    after: () => click("footer button"),
  },
  "chat-unloaded": {
    shows: "Unloaded while idle",
    set: (ipc) => {
      longConversation(ipc, 4);
      ipc.setStatus({ model: null, in_use_bytes: 0,
        last_unload: { name: "Qwen3 4B", held_bytes: 1.2 * GB, was_idle: true } });
    },
  },
  "chat-archive": {
    shows: "Archived Chats",
    set: (ipc) => {
      manyConversations(ipc);
      for (const one of [...ipc.tree.conversations.values()].slice(0, 4)) void ipc.archiveConversation(one.id, true);
    },
    after: async () => {
      await history.showArchive(true);
      await showHistory();
    },
  },
  "chat-history": { shows: "Packing list for the coast", set: manyConversations, after: showHistory },
  "chat-search": {
    shows: "1 chat found",
    set: manyConversations,
    after: async () => {
      await showHistory();
      await type("yeast", "[data-search]");
      await wait(250);
    },
  },
  "chat-find": {
    shows: "Find in chat",
    set: answers(),
    after: () => {
      find.query = "sky";
      find.isShown = true;
    },
  },
  "chat-delete": {
    shows: "Deleted “",
    set: manyConversations,
    after: async () => {
      await showHistory();
      await click("li.open .more button");
      await click("[role=menu] .danger");
    },
  },
  "chat-temporary": {
    shows: "This chat isn’t saved.",
    after: () => key("N", { metaKey: true, shiftKey: true }),
  },
  "chat-models": { shows: "Eject Qwen3 4B", set: long(4), after: () => click("[data-model-menu]") },
  "chat-settings": {
    shows: "Use the Model’s Defaults",
    set: long(4),
    after: () => click("[aria-label='Chat settings']"),
  },
  "chat-settings-assistant": {
    shows: "Strict Editor",
    set: (ipc) => {
      ipc.setSettings({ assistants: sampleAssistants });
      const { id } = longConversation(ipc, 4);
      ipc.tree.settings.set(id, { ...sampleAssistants[0]!.settings, model: "/models/Qwen3-4B-4bit" });
    },
    after: () => click("[aria-label='Chat settings (changed)']"),
  },
  "chat-continued": {
    shows: "Written by Qwen3 4B · 4-bit + Mistral Small 24B.",
    set: answers({ model: "Qwen3 4B · 4-bit + Mistral Small 24B" }),
  },
  "chat-branches": {
    shows: "2/2",
    set: (ipc) => {
      const { id } = answered(ipc, question, pieces(prose).slice(0, 1));
      const parent = ipc.tree.path(id)[0]!.id;
      const second = pieces(prose).slice(0, 2);
      ipc.tree.add(id, parent, "assistant", { blocks: blocks(second), text: source(second) });
    },
  },
  "chat-edit": {
    shows: "Transom keeps the original message",
    set: answers(),
    after: () => click(".mine .buttons > button:nth-last-child(2)"),
  },
  "chat-link": {
    shows: "Open this link?",
    set: (ipc) => answered(ipc, "Count the words of a text in Rust.", codeAnswer),
    after: () => click(".prose a"),
  },
  "chat-prompts": { shows: "/summarize", after: () => type("/") },
  "chat-attachment": {
    shows: "Minutes of the meeting",
    set: long(2),
    after: async () => {
      await attach({ name: null, text: `Minutes of the meeting\n\n${prose}\n\n${prose}` });
      await type("/summarize ");
    },
  },
  "chat-files": {
    shows: "protected by a password",
    set: (ipc) => {
      longConversation(ipc, 2);
      ipc.files = [
        { name: "Minutes of the meeting.pdf", read: { state: "read", attached: report } },
        { name: "Contract (signed).pdf", read: { state: "failed", problem: { kind: "encrypted" } } },
        { name: "Annual report.docx" },
      ];
    },
    after: async () => {
      await click(".tools > button");
      await type("What was decided?");
    },
  },
  "chat-files-too-long": {
    shows: "but the context holds 8,192",
    after: async () => {
      await attach({ ...report, text: prose.repeat(100) });
      await type("What was decided?");
    },
  },
  "chat-files-too-long-for-task": {
    shows: "takes up to 3,276 tokens of attached text",
    set: (ipc) => (ipc.routed = "translate"),
    after: async () => {
      await attach({ ...report, text: prose.repeat(24) });
      await type("Translate this into German");
      await wait(350);
    },
  },
  "chat-model-offer": {
    shows: "Use Qwen3-Coder 30B-A3B · 4-bit for this?",
    set: (ipc) => {
      longConversation(ipc, 2);
      ipc.routed = "code";
      ipc.offered = { id: "qwen3-coder-30b-a3b@4-bit", name: "Qwen3-Coder 30B-A3B · 4-bit" };
    },
    after: async () => {
      await type("Write a Python function that merges two sorted lists");
      await wait(350);
    },
  },
  "chat-files-sent": {
    shows: "Minutes of the meeting.pdf",
    set: (ipc) => ipc.addConversation("What was decided", [
      { text: "What was decided?", attachments: [report, { name: "Budget.xlsx", text: prose }] },
      { blocks: blocks(pieces(prose)), text: prose },
    ]),
  },
  "chat-reasoning-off": {
    shows: "Reasoning",
    set: (ipc) => {
      longConversation(ipc, 2);
      ipc.setSettings({ models: { [ipc.shown[0]!.id]: { ...NO_CHOICES, thinking: false } } });
    },
  },
  "chat-unknown-prompt": {
    shows: "There’s no saved prompt named “/sumary”",
    after: asks("/sumary of the attached report"),
  },
  "chat-notices": {
    shows: "recovered 12 chats with 340 messages",
    set: long(4),
    after: async (ipc) => {
      ipc.emit({ event: "notice", code: "store_recovered", detail: "database disk image is malformed",
        values: { conversations: 12, messages: 340,
          damaged: "~/Library/Application Support/Transom/transom-damaged-2026-11-22.db" } });
      ipc.emit({ event: "notice", code: "hotkey_taken", detail: "Alt+Space", values: {} });
      ipc.emit({ event: "notice", code: "engine_missing", detail: "/Applications/Transom.app/Contents/MacOS/transom is missing",
        values: {} });
      await wait(20);
    },
  },
  "chat-german": { shows: "Kopieren", set: speaking("de", answers()) },
  "chat-japanese": { shows: "コピー", set: speaking("ja", answers()) },
  "chat-settings-wide": {
    shows: "Use the Model’s Defaults",
    set: long(4),
    after: () => click("[aria-label='Chat settings']"),
  },
  "chat-wide": { shows: "Packing list for the coast", set: manyConversations, after: showHistory },
  "chat-5000": { shows: "Bread and how it rises", set: long(5000) },
};
