// Generated from the Rust types in src-tauri/src/wire, crates/store and crates/chat. Write anew:
// TRANSOM_WRITE_BINDINGS=1 cargo test -p transom-app bindings

/**
 * Versions, paths and what this computer lacks.
 */
export type AboutView = {
/**
 * Of the app.
 */
version: string,
/**
 * Of what it is made of, such as `MLX`, `llama.cpp`.
 */
parts: Array<PartView>,
/**
 * The data folder.
 */
data_folder: string,
/**
 * `macOS 26.1`, `Debian 12`, ….
 */
system: string,
/**
 * Chip or processor.
 */
chip: string,
/**
 * Bytes of memory.
 */
memory_bytes: number,
/**
 * What this session cannot do, by code: `tray`, `global_shortcut`, `selection`, ….
 */
missing: Array<string>,
/**
 * The shortcut that is in force.
 */
hotkey: HotkeyView,
/**
 * The system's default shortcut.
 */
default_hotkey: string,
/**
 * `macos` or `linux`: which keys to name.
 */
platform: string,
/**
 * Language tags of the system, first choice first.
 */
languages: Array<string>, };

/**
 * What the tray icon shows.
 */
export type Activity = "idle" | "loading" | "answering" | "held";

/**
 * What an answer took.
 */
export type AnswerStats = {
/**
 * Tokens in the prompt.
 */
prompt_tokens: number,
/**
 * Of these, tokens that were still known from an earlier turn.
 */
cached_tokens: number,
/**
 * Tokens generated.
 */
generated_tokens: number,
/**
 * From the question to the first token.
 */
time_to_first_token_seconds: number,
/**
 * Tokens a second while it was written; `None` for very short answers.
 */
tokens_per_second: number | null,
/**
 * Messages at the start of the conversation that no longer fitted.
 */
dropped_messages: number, };

/**
 * Light or dark.
 */
export type Appearance = "system" | "light" | "dark";

/**
 * Why something is limited.
 */
export type Because = "memory_warning" | "memory_critical" | "thrashing" | "heat_fair" | "heat_serious" | "heat_critical" | "low_power" | "battery" | "small_machine" | "setting" | "paused";

/**
 * A message that was accepted and the answer that was begun: follow it.
 */
export type Begun = {
/**
 * Their conversation, new if none was named.
 */
conversation: ConversationId,
/**
 * The person's message; `None` when an answer was asked for again.
 */
question: MessageId | null,
/**
 * The answer.
 */
answer: MessageId, };

/**
 * What the app may take of the machine.
 */
export type Behaviour = {
/**
 * Seconds without use after which a model is unloaded; `None`: by machine and power.
 */
idle_unload_seconds: number | null,
/**
 * Keep the model loaded while memory allows.
 */
keep_loaded: boolean,
/**
 * Bytes that models may use together; `None`: by machine.
 */
memory_budget_bytes: number | null, };

/**
 * A piece of rendered Markdown.
 *
 * A text is a list of blocks. A block is one element in the flow of the text: a paragraph, a
 * heading, a quote. Three kinds are split further, because they grow long: a list is an empty
 * list followed by one block for each item, a table is its head followed by one block for each
 * row, and code is an empty frame followed by blocks of some lines. These following blocks are
 * `is_inside`: their HTML goes to the end of the list, of the table's `tbody` or of the `code`
 * that the last block before them holds that is not inside. To parse an item or row, a page puts
 * it into a `<template>`, where it may stand alone.
 *
 * Classes and attributes that a page styles or acts on:
 *
 * - `figure.code[data-language]` holds `figcaption` (with `span.language` and an empty
 *   `button.copy`, whose label and action are the page's) and `pre > code`. In the code are
 *   `span.lines`, and in these `span`s with one of the classes `hl-comment`, `hl-string`,
 *   `hl-escape`, `hl-number`, `hl-constant`, `hl-keyword`, `hl-operator`, `hl-function`,
 *   `hl-type`, `hl-tag`, `hl-attribute`, `hl-variable`, `hl-heading`, `hl-emphasis`, `hl-strong`,
 *   `hl-link`, `hl-inserted`, `hl-deleted`, `hl-invalid`. `data-language` is missing where none
 *   was named.
 * - `div.table[tabindex="0"] > table`: the `div` scrolls. Cells have `align-left`,
 *   `align-center` or `align-right`.
 * - `li.task > input[type=checkbox][disabled][aria-label]`: the label is the item's text.
 * - `a[href][rel]`: http, https or mailto. The page opens nothing itself.
 * - `span.image[data-address]`: an image that was not loaded; its text is what it shows, or its
 *   address.
 * - `sup.footnote-reference > a[href="#fn-…"]` and `div.footnote[id="fn-…"]` with
 *   `sup.footnote-label`. An id is unique in its text only, so a page looks for it there.
 * - `math` (MathML; `display="block"` for formulas on their own, `alttext` is its TeX), and
 *   `code.math-error` for the source of a formula that cannot be set, `code.math-pending` for one
 *   that is still written. A formula in a box is `math.boxed`. Cells (`mtd`) have some of
 *   `cell-left`, `cell-right` (where their text stands), `cell-apart` (1 em before them),
 *   `rule-left`, `rule-right`, `rule-top` and `rule-bottom` (lines); edges of a formula's table
 *   have no padding.
 * - `p.raw`: HTML that the text contains, shown as it was written.
 * - `blockquote.alert-note`, `-tip`, `-important`, `-warning`, `-caution`.
 */
export type Block = {
/**
 * Whether it belongs inside the list, table or code before it.
 */
is_inside: boolean,
/**
 * Sanitized HTML: nothing in it runs, loads or styles anything.
 */
html: string, };

/**
 * The models that can be had.
 */
export type CatalogueView = {
/**
 * Smallest first within a family.
 */
entries: Array<EntryView>,
/**
 * What to take on this machine.
 */
recommended: Array<RecommendedView>,
/**
 * Two that fit side by side on it.
 */
pair: PairView | null,
/**
 * The machine's memory.
 */
memory_bytes: number,
/**
 * Of it, what models may use together.
 */
room_bytes: number,
/**
 * Bytes free where downloads go; `None` where the system does not tell.
 */
disk_free_bytes: number | null,
/**
 * Of these, what downloads under way are going to take.
 */
disk_coming_bytes: number,
/**
 * Why the user's own list is not in force as it is now.
 */
mistake: MistakeView | null,
/**
 * Where the user's own list is, or would be.
 */
user_file: string, };

/**
 * How the blocks of a growing text differ from what a follower knows.
 */
export type Change = {
/**
 * How many blocks the text has now. Known blocks beyond are gone.
 */
n_blocks: number,
/**
 * The new and the changed blocks, each with its index, in ascending order.
 */
blocks: Array<[number, Block]>, };

/**
 * A conversation, without its messages.
 */
export type Conversation = {
/**
 * Its name.
 */
id: ConversationId,
/**
 * Title for people; empty until the first question gave it one.
 */
title: string,
/**
 * Kept at the top.
 */
is_pinned: boolean,
/**
 * When it began.
 */
created_at: Timestamp,
/**
 * When something was last said in it.
 */
updated_at: Timestamp,
/**
 * Messages on the path that is shown.
 */
n_messages: number, };

/**
 * Names a conversation. Never used twice.
 */
export type ConversationId = number;

/**
 * What to do with a download.
 */
export type DownloadChange = { "change": "pause" } | { "change": "resume" } | { "change": "cancel" } | { "change": "move",
/**
 * The place.
 */
place: number, };

/**
 * What a download does.
 */
export type DownloadState = { "state": "waiting" } | { "state": "downloading" } | { "state": "verifying",
/**
 * How far, from 0 to 1.
 */
fraction: number, } | { "state": "retrying",
/**
 * In so many seconds.
 */
seconds: number,
/**
 * Why.
 */
because: TroubleView, } | { "state": "paused" } | { "state": "done",
/**
 * The model that it is, once its files were read.
 */
model: string | null, } | { "state": "failed",
/**
 * Why.
 */
because: TroubleView, };

/**
 * A model that is being fetched, or was.
 */
export type DownloadView = {
/**
 * By which it is changed.
 */
id: number,
/**
 * The key of the variant that it is of.
 */
key: string,
/**
 * Name for people.
 */
name: string,
/**
 * What it does.
 */
state: DownloadState,
/**
 * Bytes that are there.
 */
done_bytes: number,
/**
 * Bytes in all; `None` until the hub was asked.
 */
total_bytes: number | null,
/**
 * Of late.
 */
bytes_per_second: number | null,
/**
 * At this rate.
 */
seconds_left: number | null, };

/**
 * What a dropped file is good for.
 */
export type DropKind = "model" | "text" | "other";

/**
 * Files over a window.
 */
export type DropView = { "state": "over",
/**
 * The name of the first.
 */
name: string,
/**
 * What it would be good for here.
 */
kind: DropKind, } | { "state": "left" } | { "state": "added",
/**
 * The model.
 */
id: string,
/**
 * Its name for people.
 */
name: string, } | { "state": "attached",
/**
 * The file's name.
 */
name: string,
/**
 * All of it.
 */
text: string, } | { "state": "refused",
/**
 * Its name.
 */
name: string,
/**
 * The reason in English; empty where it simply is none.
 */
reason: string, };

/**
 * How a message ended; [`transom_store::Ending`] with its failure read.
 */
export type EndingView = { "ending": "writing" } | { "ending": "stop" } | { "ending": "length" } | { "ending": "cancelled" } | { "ending": "shed" } | { "ending": "failed",
/**
 * Why.
 */
failure: Failure, } | { "ending": "interrupted" };

/**
 * A model that can be had.
 */
export type EntryView = {
/**
 * What people type: the catalogue's id, or the hub's `owner/name`.
 */
id: string,
/**
 * Name for people.
 */
name: string,
/**
 * `Qwen3`, …; empty where nobody said.
 */
family: string,
/**
 * What it is good for, and what not; empty where nobody said.
 */
description: string,
/**
 * SPDX, or the licence's own name; empty where nobody said.
 */
licence: string,
/**
 * What it is for.
 */
tags: Array<TagView>,
/**
 * The page that says more.
 */
source: string,
/**
 * Parameters; `None` where nobody said.
 */
n_parameters: number | null,
/**
 * Of a mixture of experts, those that a token uses.
 */
n_active_parameters: number | null,
/**
 * Tokens that it was made to attend to.
 */
context_length: number | null,
/**
 * It is from the user's own list.
 */
is_users: boolean,
/**
 * It was found on the hub, and is in no list.
 */
is_from_hub: boolean,
/**
 * How often it was fetched lately, where the hub says so.
 */
n_fetched: number | null,
/**
 * Its forms; empty until the hub was asked for them.
 */
variants: Array<VariantView>,
/**
 * Which of them suits this machine best.
 */
best: number, };

/**
 * What a model's files say.
 */
export type FactsView = {
/**
 * `qwen3`, ….
 */
architecture: string,
/**
 * Parameters.
 */
n_parameters: number,
/**
 * How most weights are packed: `4-bit`, `Q4_K`, ….
 */
quantisation: string,
/**
 * `mlx`, `gguf`, or both.
 */
formats: Array<string>,
/**
 * Bytes on disk.
 */
size_bytes: number,
/**
 * Tokens that it was made to attend to.
 */
max_context_length: number | null,
/**
 * It can chat.
 */
has_chat_template: boolean, };

/**
 * A failed turn. Windows put it into the user's language by its code.
 */
export type Failure = { "code": "engine_crashed" } | { "code": "too_large",
/**
 * What it needs.
 */
need_bytes: number,
/**
 * What models may use now.
 */
budget_bytes: number,
/**
 * A context length with which it would fit.
 */
context_that_fits: number | null, } | { "code": "held",
/**
 * Worth trying again after this long.
 */
retry_after_seconds: number, } | { "code": "busy" } | { "code": "prompt_too_long",
/**
 * Tokens of it.
 */
prompt_tokens: number,
/**
 * Tokens of context.
 */
context_length: number, } | { "code": "model_unusable",
/**
 * The reason in the engine's words.
 */
reason: string, } | { "code": "unloaded" } | { "code": "storage",
/**
 * The reason, naming the file.
 */
reason: string, } | { "code": "other",
/**
 * The reason in English.
 */
reason: string, };

/**
 * How a conversation leaves or comes.
 */
export type FileFormat = "markdown" | "json";

/**
 * Whether a model fits, by parts.
 */
export type FitView = {
/**
 * Weights.
 */
weight_bytes: number,
/**
 * Keys and values with the context full.
 */
kv_cache_bytes: number,
/**
 * Working memory beside them.
 */
headroom_bytes: number,
/**
 * A smaller model that guesses ahead for it.
 */
draft_bytes: number,
/**
 * What is kept of earlier conversations.
 */
prefix_bytes: number,
/**
 * What models may use together.
 */
budget_bytes: number,
/**
 * Of it, used by others that would not make room.
 */
taken_bytes: number,
/**
 * The context that these are for.
 */
context_length: number,
/**
 * The longest context that would fit; `None` if none does.
 */
context_that_fits: number | null,
/**
 * All of it fits.
 */
fits: boolean,
/**
 * How well.
 */
verdict: VerdictView,
/**
 * How fast it answers; `None` where that cannot be told.
 */
speed: SpeedView | null,
/**
 * The working memory was corrected by what was measured here.
 */
is_measured: boolean, };

/**
 * A conversation that a search found, or one of the list.
 */
export type FoundConversation = {
/**
 * Which.
 */
conversation: Conversation,
/**
 * Where the words were found; `None` in a list that was not searched for, or when the title
 * has them.
 */
snippet: Snippet | null, };

/**
 * The app itself.
 */
export type General = {
/**
 * Shortcut of the quick prompt, such as `Alt+Space`; `None`: the system's default, empty: none.
 */
hotkey: string | null,
/**
 * Start with the session.
 */
launch_at_login: boolean,
/**
 * Show an icon in the Dock.
 */
show_in_dock: boolean,
/**
 * Keep the chat window open when another window is used.
 */
pin_chat: boolean,
/**
 * Light, dark, or as the system.
 */
appearance: Appearance,
/**
 * BCP 47 tag of one of the languages; `None`: as the system.
 */
language: string | null,
/**
 * The welcome was seen.
 */
was_welcomed: boolean, };

/**
 * Heat.
 */
export type Heat = "nominal" | "fair" | "serious" | "critical";

/**
 * What a shortcut that was tried is.
 */
export type HotkeyView = { "hotkey": "registered",
/**
 * As settings write it; empty if switched off.
 */
shortcut: string, } | { "hotkey": "taken",
/**
 * As settings write it.
 */
shortcut: string, } | { "hotkey": "unusable",
/**
 * As it was given.
 */
shortcut: string, } | { "hotkey": "unavailable",
/**
 * The reason in English.
 */
reason: string, };

/**
 * How the hub is reached.
 */
export type HubAccessView = {
/**
 * There is a token, in the keychain or in the environment. It is never shown.
 */
has_token: boolean,
/**
 * The token is the environment's (`HF_TOKEN`), so it cannot be taken away here.
 */
is_token_from_environment: boolean,
/**
 * Why the keychain cannot keep one; in English.
 */
keychain_problem: string | null,
/**
 * Where models are fetched from.
 */
endpoint: string,
/**
 * Nobody chose another.
 */
is_default_endpoint: boolean,
/**
 * The environment says where (`HF_ENDPOINT`), so it cannot be chosen here.
 */
is_endpoint_from_environment: boolean,
/**
 * The environment forbids the network (`HF_HUB_OFFLINE`).
 */
is_offline: boolean, };

/**
 * How keys and values are kept.
 */
export type KvCache = "automatic" | "full" | "small";

/**
 * What is limited.
 */
export type Limit = { "limit": "new_answers" } | { "limit": "running_answers" } | { "limit": "answer_length",
/**
 * Most tokens.
 */
tokens: number, } | { "limit": "context",
/**
 * Most tokens.
 */
tokens: number, } | { "limit": "prefill_step",
/**
 * Most tokens.
 */
tokens: number, } | { "limit": "speculation" } | { "limit": "repaint",
/**
 * Least milliseconds between two.
 */
milliseconds: number, } | { "limit": "idle_unload",
/**
 * After so many seconds.
 */
seconds: number, } | { "limit": "smaller_model" };

/**
 * A model in memory.
 */
export type LoadedView = {
/**
 * Name for people.
 */
name: string,
/**
 * 0 to 1 while it is loaded; `None` before its size is known and when it is loaded.
 */
load_fraction: number | null,
/**
 * It is loaded.
 */
is_ready: boolean,
/**
 * It is being unloaded.
 */
is_leaving: boolean,
/**
 * Bytes that its process takes; `None` where the system does not tell.
 */
memory_bytes: number | null,
/**
 * `mlx` or `llama`; `None` while it loads.
 */
engine: string | null,
/**
 * Tokens of context that it was loaded with.
 */
context_length: number | null,
/**
 * Seconds until it is unloaded if nobody asks.
 */
unloads_in_seconds: number | null, };

/**
 * The machine's own signals.
 */
export type MachineView = {
/**
 * `normal`, `warning`, `critical`.
 */
memory: Pressure,
/**
 * `nominal`, `fair`, `serious`, `critical`.
 */
heat: Heat,
/**
 * Low Power Mode, or its like.
 */
is_low_power: boolean,
/**
 * No mains power.
 */
is_on_battery: boolean,
/**
 * Swap grows.
 */
is_thrashing: boolean, };

/**
 * What a long conversation's list needs of each message.
 */
export type MessageHead = {
/**
 * Its name.
 */
id: MessageId,
/**
 * Who wrote it.
 */
speaker: Speaker,
/**
 * Characters of text and reasoning, for a guess at its height.
 */
n_chars: number, };

/**
 * Names a message. Never used twice.
 */
export type MessageId = number;

/**
 * A message as it is drawn.
 */
export type MessageView = {
/**
 * Its name.
 */
id: MessageId,
/**
 * Its conversation.
 */
conversation: ConversationId,
/**
 * Who wrote it.
 */
speaker: Speaker,
/**
 * What the model thought before.
 */
reasoning: Array<Block>,
/**
 * What is said.
 */
blocks: Array<Block>,
/**
 * The source of `blocks`, for copying and editing.
 */
text: string,
/**
 * Text that the person took along; empty if none.
 */
attachment: string,
/**
 * How it ended.
 */
ending: EndingView,
/**
 * Name of the model that wrote it.
 */
model: string | null,
/**
 * What it took.
 */
stats: AnswerStats | null,
/**
 * When it was begun.
 */
created_at: Timestamp,
/**
 * Versions of it (edited or answered again), itself included, oldest first.
 */
siblings: Array<MessageId>, };

/**
 * A mistake in the user's list of models.
 */
export type MistakeView = {
/**
 * The file.
 */
file: string,
/**
 * From 1.
 */
line: number,
/**
 * From 1.
 */
column: number,
/**
 * In English.
 */
reason: string, };

/**
 * Choices for one model. `None` everywhere: what the model's authors recommend, or what fits.
 */
export type ModelSettings = {
/**
 * Tokens of context.
 */
context_length: number | null,
/**
 * How keys and values are kept.
 */
kv_cache: KvCache,
/**
 * Most tokens of an answer.
 */
max_tokens: number | null,
/**
 * 0 to 2.
 */
temperature: number | null,
/**
 * Above 0, to 1.
 */
top_p: number | null,
/**
 * 0 keeps all.
 */
top_k: number | null,
/**
 * 0 to 1.
 */
min_p: number | null,
/**
 * Above 0, to 10; 1 changes nothing.
 */
repetition_penalty: number | null,
/**
 * Same seed, same answer.
 */
seed: number | null,
/**
 * Instructions at the start of every conversation.
 */
system_prompt: string | null,
/**
 * Whether models that can reason first do so; `None` leaves it to the model.
 */
thinking: boolean | null, };

/**
 * A model that is there.
 */
export type ModelView = {
/**
 * Its path: the name by which commands and settings know it.
 */
id: string,
/**
 * Name for people: its entry's with how it is packed, else its folder's or file's.
 */
name: string,
/**
 * Where it is from.
 */
origin: OriginView,
/**
 * It came with the app, and is small.
 */
is_starter: boolean,
/**
 * It was added by path; it can be forgotten without deleting anything.
 */
is_added: boolean,
/**
 * It lies in our models folder, so that its files can be deleted.
 */
can_be_removed: boolean,
/**
 * It is the one that is asked.
 */
is_chosen: boolean,
/**
 * Id of the entry of the catalogue that it is.
 */
entry: string | null,
/**
 * Bytes of all its files.
 */
size_bytes: number,
/**
 * What its authors recommend; `None` where nobody knows.
 */
sampling: SamplingView | null,
/**
 * What its files say; `None` when they cannot be used.
 */
facts: FactsView | null,
/**
 * Why they cannot be used.
 */
problem: string | null, };

/**
 * Told to every page when it happens.
 */
export type News = { "news": "status",
/**
 * All of it.
 */
status: StatusView, } | { "news": "settings",
/**
 * All of them.
 */
settings: Settings, } | { "news": "conversations" } | { "news": "history_cleared" } | { "news": "models" } | { "news": "catalogue" } | { "news": "downloads",
/**
 * All of them, in their order.
 */
downloads: Array<DownloadView>, } | { "news": "drop",
/**
 * Which window.
 */
window: Window,
/**
 * What of it.
 */
drop: DropView, } | { "news": "shown",
/**
 * Which window.
 */
window: Window,
/**
 * What to open.
 */
conversation: ConversationId | null,
/**
 * Which settings pane: `models`, `model`, `behaviour`, `general`, `about`.
 */
pane: string | null, } | { "news": "compose",
/**
 * The text.
 */
text: string, } | { "news": "notice",
/**
 * A code: `hotkey_taken`, `store_recovered`, ….
 */
code: string,
/**
 * Detail in English; may be empty.
 */
detail: string,
/**
 * What the code's sentence is filled with: `conversations`, `damaged`, ….
 */
values: Record<string, unknown>, };

/**
 * A conversation that was opened.
 */
export type Opened = {
/**
 * It.
 */
conversation: Conversation,
/**
 * The path that is shown, first message first.
 */
messages: Array<MessageHead>, };

/**
 * Where a model is from.
 */
export type OriginView = { "origin": "starter" } | { "origin": "ours" } | { "origin": "added" } | { "origin": "elsewhere",
/**
 * The program's name.
 */
app: string, };

/**
 * What the second of two models is for. Nothing of it is done yet: no engine runs such a model.
 */
export type PairKindView = "draft" | "embedding";

/**
 * Two models that fit side by side.
 */
export type PairView = {
/**
 * What the second is for.
 */
kind: PairKindView,
/**
 * The one that answers.
 */
main: PickView,
/**
 * The other one.
 */
second: PickView,
/**
 * Bytes of memory that both need together.
 */
need_bytes: number, };

/**
 * A part that others wrote.
 */
export type PartView = {
/**
 * Name.
 */
name: string,
/**
 * Version.
 */
version: string,
/**
 * SPDX licence.
 */
licence: string, };

/**
 * A recommended model, in the variant that suits the computer.
 */
export type PickView = {
/**
 * The entry's id.
 */
entry: string,
/**
 * Name for people.
 */
name: string,
/**
 * `4-bit`, `Q4_K_M`, ….
 */
packing: string,
/**
 * Bytes of memory that it needs.
 */
need_bytes: number,
/**
 * How fast it would answer.
 */
speed: SpeedView | null, };

/**
 * Memory pressure.
 */
export type Pressure = "normal" | "warning" | "critical";

/**
 * What a model is recommended for.
 */
export type Purpose = "chat" | "code" | "small";

/**
 * A model to take on this machine.
 */
export type RecommendedView = {
/**
 * For what.
 */
purpose: Purpose,
/**
 * The entry's id.
 */
entry: string,
/**
 * The variant's key.
 */
variant: string, };

/**
 * A command that could not be done.
 */
export type Refusal = { "code": "invalid",
/**
 * Which.
 */
field: string,
/**
 * Why, in English.
 */
reason: string, } | { "code": "not_found" } | { "code": "storage",
/**
 * The reason, naming the file.
 */
reason: string, } | { "code": "turn",
/**
 * Why.
 */
failure: Failure, } | { "code": "hub",
/**
 * Why.
 */
trouble: TroubleView, } | { "code": "other",
/**
 * The reason in English.
 */
reason: string, };

/**
 * A limit in force.
 */
export type RestraintView = {
/**
 * What is limited.
 */
limit: Limit,
/**
 * Why.
 */
because: Because, };

/**
 * What authors recommend for drawing the next token; what they leave open is `None`.
 */
export type SamplingView = {
/**
 * 0 to 2.
 */
temperature: number | null,
/**
 * Above 0, to 1.
 */
top_p: number | null,
/**
 * 0 keeps all.
 */
top_k: number | null,
/**
 * 0 to 1.
 */
min_p: number | null,
/**
 * 1 changes nothing.
 */
repetition_penalty: number | null, };

/**
 * A prompt that the user keeps, called with `/name`.
 */
export type SavedPrompt = {
/**
 * One word of at most 100 bytes, without the slash.
 */
name: string,
/**
 * Text in which `{text}` stands for what was taken along or typed after the name.
 */
text: string, };

/**
 * Part of an answer.
 */
export type Section = "reasoning" | "answer";

/**
 * Everything that the user chose.
 */
export type Settings = {
/**
 * The app itself.
 */
general: General,
/**
 * What it may take of the machine.
 */
behaviour: Behaviour,
/**
 * Id of the model to ask (a path); `None`: the starter, until another is chosen.
 */
model: string | null,
/**
 * Choices for single models, by id.
 */
models: { [key in string]: ModelSettings },
/**
 * Where older versions kept the paths that the user added. The app moves them to a file of the
 * data folder that every program reads, and empties this.
 */
added_models: Array<string>,
/**
 * Ids of the models last used, latest first.
 */
recent_models: Array<string>,
/**
 * Reusable prompts; `None`: the built-in ones.
 */
prompts: Array<SavedPrompt> | null, };

/**
 * An answer as far as it is, for whoever begins to follow it.
 */
export type Snapshot = {
/**
 * The message so far.
 */
message: MessageView,
/**
 * What it does now.
 */
stage: Stage, };

/**
 * A piece of a message around the words that were searched for.
 */
export type Snippet = {
/**
 * Of which message.
 */
message: MessageId,
/**
 * Pieces of text in order, each with whether it is one of the words.
 */
pieces: Array<[string, boolean]>, };

/**
 * Who wrote a message.
 */
export type Speaker = "user" | "assistant";

/**
 * Tokens a second.
 */
export type SpeedView = {
/**
 * At least.
 */
low: number,
/**
 * At most.
 */
high: number,
/**
 * Measured here, and not predicted.
 */
is_measured: boolean, };

/**
 * What an answer does before and while it is written.
 */
export type Stage = { "stage": "waiting",
/**
 * Asks before it.
 */
position: number, } | { "stage": "loading",
/**
 * 0 to 1; `None` while other models make room.
 */
fraction: number | null, } | { "stage": "prefill",
/**
 * Tokens read.
 */
done: number,
/**
 * Tokens in all.
 */
total: number, } | { "stage": "writing",
/**
 * Tokens a second of late; `None` at the start.
 */
tokens_per_second: number | null, };

/**
 * What the supervisor says, in a window's terms.
 */
export type StatusView = {
/**
 * The one thing to show.
 */
activity: Activity,
/**
 * The loaded chat model, or the one that is loading.
 */
model: LoadedView | null,
/**
 * Bytes that models may use together now.
 */
budget_bytes: number,
/**
 * Of these, taken.
 */
in_use_bytes: number,
/**
 * Why no answer begins at present.
 */
held: Because | null,
/**
 * The user paused it.
 */
is_paused: boolean,
/**
 * Every limit in force.
 */
restraints: Array<RestraintView>,
/**
 * Least milliseconds between two repaints of a growing answer.
 */
repaint_ms: number,
/**
 * A smaller model would do better now.
 */
offer_smaller_model: boolean,
/**
 * What the machine says of itself now.
 */
machine: MachineView,
/**
 * The last model that went, and what came back.
 */
last_unload: UnloadView | null,
/**
 * Asks that wait.
 */
n_waiting: number,
/**
 * The supervisor is another program's, such as a `transom chat` in a terminal.
 */
is_guest: boolean, };

/**
 * What a model is for.
 */
export type TagView = "chat" | "code" | "reasoning" | "embedding";

/**
 * Where a text is from.
 */
export type TakenFrom = "selection" | "clipboard";

/**
 * Text that may be taken along, and where it is from.
 */
export type TakenText = {
/**
 * From where.
 */
source: TakenFrom,
/**
 * The text; empty if there was none.
 */
text: string, };

/**
 * What is recommended for a computer with so much memory.
 */
export type TierView = {
/**
 * Its memory.
 */
memory_bytes: number,
/**
 * Of it, what models may use together.
 */
room_bytes: number,
/**
 * It is this computer; the others are Macs of which nothing else is known.
 */
is_here: boolean,
/**
 * For talking; `None` where nothing fits, as below.
 */
chat: PickView | null,
/**
 * For writing programs.
 */
code: PickView | null,
/**
 * Small and quick.
 */
small: PickView | null,
/**
 * What fits side by side.
 */
pair: PairView | null, };

/**
 * Milliseconds since 1970 in UTC.
 */
export type Timestamp = number;

/**
 * What went wrong with the hub.
 */
export type TroubleView = {
/**
 * The hub room's own code, such as `disk_full`.
 */
code: string,
/**
 * The sentence in English, for codes that a page has no sentence for.
 */
reason: string,
/**
 * What the sentence is filled with: `file`, `host`, `needed_bytes`, ….
 */
values: Record<string, unknown>, };

/**
 * A model that went.
 */
export type UnloadView = {
/**
 * Name for people.
 */
name: string,
/**
 * Bytes that it held.
 */
held_bytes: number | null,
/**
 * Nobody asked for it to go.
 */
was_idle: boolean, };

/**
 * News of an answer.
 */
export type Update = { "update": "snapshot",
/**
 * The answer so far.
 */
snapshot: Snapshot, } | { "update": "stage",
/**
 * What it does now.
 */
stage: Stage, } | { "update": "text",
/**
 * The section that grows.
 */
section: Section,
/**
 * How its blocks changed since the last update.
 */
change: Change,
/**
 * Tokens a second of late.
 */
tokens_per_second: number | null, } | { "update": "ended",
/**
 * The source of the whole answer.
 */
text: string,
/**
 * How it ended.
 */
ending: EndingView,
/**
 * What it took.
 */
stats: AnswerStats | null, };

/**
 * A form of a model that can be had.
 */
export type VariantView = {
/**
 * By which it is installed, and by which its download is known.
 */
key: string,
/**
 * `mlx` or `gguf`.
 */
format: string,
/**
 * `4-bit`, `Q4_K_M`, ….
 */
packing: string,
/**
 * The hub's `owner/name`.
 */
repository: string,
/**
 * Bytes to fetch; `None` until the hub was asked.
 */
size_bytes: number | null,
/**
 * Bytes that must become free on the disk before it can be fetched; `None` where there is room
 * for it, as far as anybody knows.
 */
disk_missing_bytes: number | null,
/**
 * How well it fits; `None` where nobody knows what it needs.
 */
verdict: VerdictView | null,
/**
 * How fast it would answer.
 */
speed: SpeedView | null,
/**
 * The model that it is, if it is there already.
 */
model: string | null, };

/**
 * How well a model fits this machine.
 */
export type VerdictView = { "verdict": "fits" } | { "verdict": "context",
/**
 * Tokens of it.
 */
tokens: number, } | { "verdict": "others_close",
/**
 * Bytes that must become free.
 */
bytes: number, } | { "verdict": "too_large",
/**
 * Bytes that it needs.
 */
need_bytes: number,
/**
 * Bytes that models may use.
 */
room_bytes: number, };

/**
 * A window.
 */
export type Window = "chat" | "prompt" | "settings";
