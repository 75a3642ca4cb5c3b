/**
 * The states of the chat page for screenshots. `set` prepares the app before the page opens,
 * `after` acts like a user.
 */
import { GB } from "../ipc/fake/defaults";
import type { FakeIpc } from "../ipc/fake";
import { hubError } from "../ipc/fake/catalog";
import { blocks, pieces, source } from "../ipc/fake/text";
import { codeAnswer, marksAnswer, prose, tableAnswer, thoughts } from "./texts";
import { answered, click, key, longConversation, manyConversations, showHistory, type, wait } from "./steps";

export interface ChatState {
  /** As in `?state=`. On a line of its own, because the list is read from this source. */
  name: string;
  /** Text that only this state shows; see `claim`. */
  shows: string;
  set?: (ipc: FakeIpc) => void;
  /** The conversation to open: the one that was added last, unless "none". */
  opens?: "last" | "none";
  after?: (ipc: FakeIpc) => Promise<void> | void;
}

const question = "Why is the sky blue?";
const asks = (ipc: FakeIpc, text = question) => async () => {
  await type(text);
  key("Enter");
  void ipc;
};

export const states: ChatState[] = [
  {
    name: "chat-empty",
    shows: "What would you like to know?",
  },
  {
    name: "chat-starter",
    shows: "This is the small starter model",
    set: (ipc) => void ipc.chooseModel("starter"),
  },
  {
    name: "chat-starter-coming",
    shows: "in the meantime",
    set: (ipc) => {
      void ipc.chooseModel("starter");
      ipc.downloadQueue.install("qwen3-8b@4-bit");
      ipc.downloadQueue.come(1, 0.4);
    },
  },
  {
    name: "chat-model-ready",
    shows: "Use Now",
    set: (ipc) => {
      void ipc.chooseModel("starter");
      ipc.downloadQueue.install("qwen3-8b@4-bit");
      ipc.setModels([...ipc.shown, ipc.downloadQueue.finish(1)]);
    },
  },
  {
    name: "chat-model-failed",
    shows: "Can’t download",
    set: (ipc) => {
      ipc.downloadQueue.install("qwen3-8b@4-bit");
      ipc.downloadQueue.come(1, 0.4);
      ipc.downloadQueue.fail(1, hubError("token_refused", "", { host: "huggingface.co" }));
    },
  },
  {
    name: "chat-loading",
    shows: "Loading Qwen3 4B · 4-bit, 62%",
    set: (ipc) => {
      ipc.script = { answer: pieces(prose), rate: 0, stages: [{ stage: "loading", fraction: 0.62 }] };
      ipc.setStatus({ activity: "loading", model: { name: "Qwen3 4B · 4-bit", load_fraction: 0.62,
        is_ready: false, is_unloading: false, memory_bytes: null, engine: null, context_length: null,
        unloads_in_seconds: null } });
    },
    after: (ipc) => asks(ipc)(),
  },
  {
    name: "chat-prefill",
    shows: "Processing prompt",
    set: (ipc) => {
      ipc.script = { answer: pieces(prose), rate: 0, stages: [{ stage: "prefill", done: 2900, total: 6400 }] };
      ipc.setStatus({ activity: "answering" });
    },
    after: (ipc) => asks(ipc, "Sum up the attached report, please.")(),
  },
  {
    name: "chat-waiting",
    shows: "Waiting for 2 other responses",
    set: (ipc) => {
      ipc.script = { answer: pieces(prose), rate: 0, stages: [{ stage: "waiting", position: 2 }] };
    },
    after: (ipc) => asks(ipc)(),
  },
  {
    name: "chat-streaming",
    shows: "Stop",
    set: (ipc) => {
      ipc.script = { answer: pieces(prose), rate: 0, initialWords: 78 };
      ipc.setStatus({ activity: "answering" });
    },
    after: (ipc) => asks(ipc)(),
  },
  {
    name: "chat-long",
    shows: "Bread and how it rises",
    set: (ipc) => void longConversation(ipc, 24),
  },
  {
    name: "chat-code",
    shows: "Copy code",
    set: (ipc) => answered(ipc, "Count the words of a text in Rust.", codeAnswer),
  },
  {
    name: "chat-table-math",
    shows: "Mercury",
    set: (ipc) => answered(ipc, "Compare Mercury, Earth and Mars.", tableAnswer),
  },
  {
    name: "chat-marks",
    shows: "Show me all that an answer may hold",
    set: (ipc) => answered(ipc, "Show me all that an answer may hold.", marksAnswer),
  },
  {
    name: "chat-reasoning",
    shows: "Reasoning",
    set: (ipc) => answered(ipc, question, pieces(prose), { reasoning: blocks(pieces(thoughts)) }),
    after: () => click(".reasoning button"),
  },
  {
    name: "chat-thinking",
    shows: "Thinking",
    set: (ipc) => {
      ipc.script = { reasoning: thoughts, answer: pieces(prose), rate: 0, initialWords: 14 };
      ipc.setStatus({ activity: "answering" });
    },
    after: async (ipc) => {
      await asks(ipc)();
      await click(".reasoning button");
    },
  },
  {
    name: "chat-stats",
    shows: "first token in",
    set: (ipc) => answered(ipc, question, pieces(prose), { stats: { prompt_tokens: 412,
      cached_tokens: 380, generated_tokens: 168, time_to_first_token_seconds: 0.41,
      tokens_per_second: 41.8, dropped_messages: 0 } }),
    after: () => click(".stays .buttons button:last-child"),
  },
  {
    name: "chat-stopped",
    shows: "Stopped.",
    set: (ipc) => answered(ipc, question, pieces(prose).slice(0, 1), { ending: { ending: "cancelled" } }),
  },
  {
    name: "chat-length",
    shows: "Stopped at the length limit.",
    set: (ipc) => answered(ipc, question, pieces(prose).slice(0, 2), { ending: { ending: "length" } }),
  },
  {
    name: "chat-shed",
    shows: "Stopped early because memory was low.",
    set: (ipc) => answered(ipc, question, pieces(prose).slice(0, 2), { ending: { ending: "shed" } }),
  },
  {
    name: "chat-error-crash",
    shows: "The model stopped unexpectedly.",
    set: (ipc) => answered(ipc, question, pieces(prose).slice(0, 1),
      { ending: { ending: "failed", failure: { code: "engine_crashed" } } }),
  },
  {
    name: "chat-too-large",
    shows: "Use 4,096-Token Context",
    set: (ipc) => {
      ipc.setStatus({ model: null, in_use_bytes: 0 });
      answered(ipc, question, [], { ending: { ending: "failed", failure: {
        code: "too_large", need_bytes: 15.4 * GB, budget_bytes: 10.5 * GB, context_that_fits: 4096 } } });
    },
  },
  {
    name: "chat-unusable",
    shows: "Can’t use “model.safetensors”.",
    set: (ipc) => {
      ipc.setStatus({ model: null, in_use_bytes: 0 });
      answered(ipc, question, [], { ending: { ending: "failed", failure: {
        code: "model_unusable", problem: { problem: "damaged", file: "model.safetensors" },
        reason: "model.safetensors: the file ends after 1.2 GB of 2.3 GB" } } });
    },
  },
  {
    name: "chat-held-heat",
    shows: "Waiting: high temperature",
    set: (ipc) => {
      ipc.script = { answer: pieces(prose), rate: 0, stages: [{ stage: "waiting", position: 0 }] };
      ipc.setStatus({ activity: "held", held: "heat_serious",
        limits: [{ limit: { limit: "new_answers" }, reason: "heat_serious" }] });
    },
    after: (ipc) => asks(ipc)(),
  },
  {
    name: "chat-status",
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
  {
    name: "chat-unloaded",
    shows: "Unloaded while idle",
    set: (ipc) => {
      longConversation(ipc, 4);
      ipc.setStatus({ model: null, in_use_bytes: 0,
        last_unload: { name: "Qwen3 4B", held_bytes: 1.2 * GB, was_idle: true } });
    },
  },
  {
    name: "chat-history",
    shows: "Packing list for the coast",
    set: manyConversations,
    after: showHistory,
  },
  {
    name: "chat-search",
    shows: "1 chat found",
    set: manyConversations,
    after: async () => {
      await showHistory();
      await type("yeast", "[data-search]");
      await wait(250);
    },
  },
  {
    name: "chat-delete",
    shows: "You can’t undo this.",
    set: manyConversations,
    after: async () => {
      await showHistory();
      await click("li.open .more button");
      await click("[role=menu] .danger");
    },
  },
  {
    name: "chat-models",
    shows: "Eject Qwen3 4B",
    set: (ipc) => void longConversation(ipc, 4),
    after: () => click("[data-model-menu]"),
  },
  {
    name: "chat-branches",
    shows: "2/2",
    set: (ipc) => {
      const { id } = answered(ipc, question, pieces(prose).slice(0, 1));
      const parent = ipc.tree.path(id)[0]!.id;
      const second = pieces(prose).slice(0, 2);
      ipc.tree.add(id, parent, "assistant", { blocks: blocks(second), text: source(second) });
    },
  },
  {
    name: "chat-edit",
    shows: "Transom keeps the original message",
    set: (ipc) => answered(ipc, question, pieces(prose)),
    after: () => click(".mine .buttons button:last-child"),
  },
  {
    name: "chat-link",
    shows: "Open this link?",
    set: (ipc) => answered(ipc, "Count the words of a text in Rust.", codeAnswer),
    after: () => click(".prose a"),
  },
  {
    name: "chat-prompts",
    shows: "/summarize",
    after: () => type("/"),
  },
  {
    name: "chat-attachment",
    shows: "Minutes of the meeting",
    set: (ipc) => void longConversation(ipc, 2),
    after: async () => {
      const { composer } = await import("../state/composer.svelte");
      composer.attach(`Minutes of the meeting\n\n${prose}\n\n${prose}`);
      await type("/summarize ");
    },
  },
  {
    name: "chat-unknown-prompt",
    shows: "There’s no saved prompt named “/sumary”",
    after: async () => {
      await type("/sumary of the attached report");
      key("Enter");
    },
  },
  {
    name: "chat-notices",
    shows: "recovered 12 chats with 340 messages",
    set: (ipc) => void longConversation(ipc, 4),
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
  {
    name: "chat-wide",
    shows: "Packing list for the coast",
    set: manyConversations,
    after: showHistory,
  },
  {
    name: "chat-5000",
    shows: "Bread and how it rises",
    set: (ipc) => void longConversation(ipc, 5000),
  },
];
