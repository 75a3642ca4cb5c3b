// Generated from the Rust types in src-tauri/src/wire and in crates. Update with:
// TRANSOM_WRITE_BINDINGS=1 cargo test -p transom-app bindings

/** Versions, paths and features that this session lacks. */
export type AboutView = {
/** The app's version. */
version: string,
/** Software that the app contains, such as `MLX` and `llama.cpp`. */
dependencies: Array<DependencyView>,
/** The data folder. */
data_folder: string,
/** `macOS 26.1`, `Debian 12`, …. */
system: string,
/** The chip or processor. */
chip: string,
/** Bytes of memory. */
memory_bytes: number,
/** Features that this session lacks, by code: `tray`, `global_shortcut`, `selection`, …. */
missing: Array<string>,
/** The current shortcut. */
hotkey: HotkeyView,
/** The default shortcut on this system. */
default_hotkey: string,
/** `macos` or `linux`, for the names of keys. */
platform: string,
/** The system's language tags, preferred first. */
languages: Array<string>,
/** The built-in values of the routes that the user can change. */
routes: Array<[Route, RouteSettings]>, };

/** The state that the menu-bar icon shows. */
export type Activity = "idle" | "loading" | "answering" | "held";

/** Statistics of a response. */
export type AnswerStats = {
/** Tokens in the prompt. */
prompt_tokens: number,
/** Prompt tokens that were cached from an earlier turn. */
cached_tokens: number,
/** Tokens generated. */
generated_tokens: number,
/** Time from the question to the first token. */
time_to_first_token_seconds: number,
/** Tokens per second while decoding; `None` for very short responses. */
tokens_per_second: number | null,
/** Messages at the start of the conversation that were left out of the prompt. */
dropped_messages: number,
/** The context length that the user had chosen, or a lower one while memory or power was short;
 * `None` if it was automatic. */
context_length: number | null,
/** The route of the question. */
route: Route,
/** The request had only a part of the earlier messages, because of its route. */
is_partial: boolean, };

/** A program that may use the local API. */
export type ApiClientView = {
/** The name of its key. */
name: string,
/** When the key was created, in milliseconds since 1970; `None` if it is not a stored key. */
created_at: number | null,
/** What it does now. */
work: ApiWork | null,
/** Requests since the app serves. */
requests: number,
/** Tokens of prompts and responses since the app serves. */
tokens: number,
/** When its last request came, in milliseconds since 1970. */
last_used_at: number | null, };

/** The lines that set up a program for the local API. */
export type ApiSetupView = {
/** `curl`, `openai`, `zed`, …. */
program: string,
/** The lines. */
lines: string, };

/** Whether the local API listens. */
export type ApiStateView = { "state": "off" } | { "state": "listening",
/** The port. */
port: number,
/** The port for programs that expect Ollama. */
ollama_port: number | null, } | { "state": "port_taken",
/** The port. */
port: number,
/** It is the port for programs that expect Ollama. */
is_ollama: boolean, } | { "state": "already_served",
/** The port. */
port: number, } | { "state": "failed",
/** The port. */
port: number,
/** The reason in English. */
reason: string, };

/** What is done for a program. */
export type ApiWork = { "work": "queued",
/** Display name of the model. */
model: string, } | { "work": "prefill",
/** Display name of the model. */
model: string, } | { "work": "generating",
/** Display name of the model. */
model: string,
/** Tokens so far. */
tokens: number, };

/** An event that the app sends to pages. */
export type AppEvent = { "event": "status",
/** The whole status. */
status: StatusView, } | { "event": "settings",
/** All settings. */
settings: Settings, } | { "event": "conversations" } | { "event": "deleted",
/** The conversation. */
id: ConversationId, } | { "event": "history_cleared" } | { "event": "models" } | { "event": "catalog" } | { "event": "downloads",
/** All downloads in order. */
downloads: Array<DownloadView>, } | { "event": "benchmark",
/** `None` after its end. Reload the results. */
running: BenchmarkProgress | null, } | { "event": "updates",
/** All of it. */
updates: UpdatesView, } | { "event": "drop",
/** The window. */
window: Window,
/** What happened. */
drop: DropView, } | { "event": "document",
/** A number of this document, which no other one has. */
file: number,
/** What happened. */
document: DocumentView, } | { "event": "shown",
/** The window. */
window: Window,
/** The conversation to open. */
conversation: ConversationId | null,
/** The settings pane: `models`, `model`, `behavior`, `api`, `general` or `about`. `model:<id>`
 * shows the settings of that model. */
pane: string | null, } | { "event": "target",
/** The program. */
target: TargetView, } | { "event": "shortcut",
/** In the format of the page's shortcuts, such as `Mod+Shift+G`. */
keys: string, } | { "event": "chat_form_changed" } | { "event": "compose",
/** The text. */
text: string, } | { "event": "notice",
/** A code: `hotkey_taken`, `store_recovered`, …. */
code: string,
/** Details in English; may be empty. */
detail: string,
/** Values for the code's sentence: `conversations`, `damaged`, …. */
values: Record<string, unknown>, };

/** Light or dark. */
export type Appearance = "system" | "light" | "dark";

/** Settings of a conversation under a name, which the user applies to a conversation. Unlike a saved
 * prompt, which is the text of one message, they count for all of its responses. */
export type Assistant = {
/** At most 100 characters. */
name: string,
/** The settings. */
settings: ConversationSettings, };

/** A text that a person attached to a message. */
export type AttachedText = {
/** The name of the file; `None` for selected, copied or pasted text. */
name: string | null,
/** The text. */
text: string, };

/** The axes of a plot of speeds. */
export type Axes = {
/** Time in seconds. */
seconds: Axis,
/** Tokens per second. */
speed: Axis, };

/** The labels of an axis: 0, and `n_steps` multiples of `step`. */
export type Axis = {
/** Distance of two labels. */
step: number,
/** Number of distances. */
n_steps: number, };

/** A request of another program, which came through the local API. */
export type BackgroundView = {
/** The name of its key. */
client: string,
/** Display name of the model. */
model: string, };

/** What the app may use of the computer. */
export type Behavior = {
/** Seconds without use after which a model is unloaded; `None` depends on the computer and its
 * power supply. */
idle_unload_seconds: number | null,
/** Keep the model loaded while memory allows. */
keep_loaded: boolean,
/** The memory budget of all models, in bytes; `None` depends on the computer. */
memory_budget_bytes: number | null, };

/** A benchmark of one model on one machine. */
export type Benchmark = {
/** The id of the model. */
model_id: string,
/** Its display name. */
model: string,
/** Name of the chip; empty if unknown. */
chip: string,
/** The version of Transom. */
version: string,
/** When it ended, in seconds since 1970. */
ended_at: number,
/** What was measured. */
measured: Measured, };

/** The file format of an exported result. */
export type BenchmarkFormat = "svg" | "json";

/** A benchmark in progress. */
export type BenchmarkProgress = {
/** Display name of the model. */
model: string,
/** The engine that is measured; `None` while its files are loaded. */
engine: string | null,
/** Seconds that were measured, in all engines. */
seconds: number,
/** Seconds to measure, in all engines. */
total_seconds: number, };

/** A result, with what a page needs to draw it. */
export type BenchmarkView = {
/** Identifies it for commands. */
key: string,
/** The result. */
benchmark: Benchmark,
/** The axes of speeds over time; `None` for other results. */
axes: Axes | null, };

/** The last results, and the benchmark that runs. */
export type BenchmarksView = {
/** The newest first, one of each kind for each model. */
results: Array<BenchmarkView>,
/** The benchmark that the app runs now. */
running: BenchmarkProgress | null, };

/** A piece of rendered Markdown.
 *
 * A text is a list of blocks. A block is one top-level element: a paragraph, a heading, a quote.
 * Three kinds are split further, because they grow long: a list is an empty list element followed
 * by one block per item, a table is its header followed by one block per row, and code is an empty
 * frame followed by blocks of some lines. These following blocks have `is_inside` set: their HTML
 * is appended to the list, to the table's `tbody` or to the `code` of the last block before them
 * that is not inside. To parse an item or a row on its own, a page puts it into a `<template>`.
 *
 * Classes and attributes that a page styles or acts on:
 *
 * - `figure.code[data-language]` holds `figcaption` (with `span.language` and an empty
 *   `button.copy`, whose label and action are the page's) and `pre > code`. In the code are
 *   `span.lines`, and in these `span`s with one of the classes `hl-comment`, `hl-string`,
 *   `hl-escape`, `hl-number`, `hl-constant`, `hl-keyword`, `hl-operator`, `hl-function`,
 *   `hl-type`, `hl-tag`, `hl-attribute`, `hl-variable`, `hl-heading`, `hl-emphasis`, `hl-strong`,
 *   `hl-link`, `hl-inserted`, `hl-deleted`, `hl-invalid`. `data-language` is missing if the text
 *   names no language.
 * - `div.table[tabindex="0"] > table`: the `div` scrolls. Cells have `align-left`,
 *   `align-center` or `align-right`.
 * - `li.task > input[type=checkbox][disabled][aria-label]`: the label is the item's text.
 * - `a[href][rel]`: http, https or mailto. The page opens nothing itself.
 * - `span.image[data-address]`: an image that was not loaded. Its text is the image's description,
 *   or its address.
 * - `sup.footnote-reference > a[href="#fn-…"]` and `div.footnote[id="fn-…"]` with
 *   `sup.footnote-label`. An id is unique only within its text, so a page searches it there.
 * - `math` (MathML; `display="block"` for display formulas, `alttext` is the TeX source),
 *   `code.math-error` for the source of a formula that cannot be rendered, and `code.math-pending`
 *   for one that is not complete yet. A boxed formula is `math.boxed`. Cells (`mtd`) have some of
 *   `cell-left`, `cell-right` (alignment of their text), `cell-apart` (1 em before them),
 *   `rule-left`, `rule-right`, `rule-top` and `rule-bottom` (lines). The outer edges of a formula's
 *   table have no padding.
 * - `p.raw`: HTML in the text, shown as source.
 * - `blockquote.alert-note`, `-tip`, `-important`, `-warning`, `-caution`. */
export type Block = {
/** True if this block is appended inside the list, table or code before it. */
is_inside: boolean,
/** Sanitized HTML: it runs, loads and styles nothing. */
html: string, };

/** Selected or copied text to attach, and its source. */
export type CapturedText = {
/** Where the text comes from. */
source: TextSource,
/** The text; empty if there was none. */
text: string, };

/** An error in the user's own catalog. */
export type CatalogErrorView = {
/** The file. */
file: string,
/** Counted from 1. */
line: number,
/** Counted from 1. */
column: number,
/** The code of the catalog crate, such as `missing_key`. */
code: string,
/** The key with the error; may be empty. */
key: string,
/** The details in English. */
detail: string, };

/** The models that can be downloaded. */
export type CatalogView = {
/** Smallest first within a family. */
entries: Array<EntryView>,
/** Recommendations for this machine. */
recommended: Array<RecommendedView>,
/** Two models that fit together on this machine. */
pair: PairView | null,
/** The machine's memory in bytes. */
memory_bytes: number,
/** Bytes that models may use together. */
room_bytes: number,
/** Free bytes on the disk for downloads; `None` if the system does not report them. */
disk_free_bytes: number | null,
/** Bytes that the running downloads still need. */
disk_reserved_bytes: number,
/** The error in the user's own catalog, which is not used until it is fixed. */
error: CatalogErrorView | null,
/** The path of the user's own catalog, which may not exist. */
user_file: string, };

/** The difference between the current blocks of a growing text and the ones that a follower has. */
export type Change = {
/** The number of blocks that the text has now. The follower drops the ones beyond it. */
n_blocks: number,
/** New and changed blocks with their indexes, in ascending order. */
blocks: Array<[number, Block]>, };

/** An error of a command. */
export type CommandError = { "code": "invalid",
/** The field. */
field: string,
/** The reason in English. */
reason: string, } | { "code": "not_found" } | { "code": "storage",
/** The kind of the error; `None` if the file is not the app's own. */
kind?: StoreErrorKind,
/** The reason in English, which names the file. */
reason: string, } | { "code": "turn",
/** The reason. */
failure: Failure, } | { "code": "model",
/** The reason. */
error: ModelErrorView, } | { "code": "hub",
/** The reason. */
error: HubErrorView, } | { "code": "other",
/** The reason in English. */
reason: string, };

/** What a file without text seems to contain. */
export type Content = "image" | "archive" | "rich_text" | "binary";

/** A conversation without its messages. */
export type Conversation = {
/** The id. */
id: ConversationId,
/** The title; empty until the first question sets it. */
title: string,
/** Whether it is pinned to the top of the list. */
is_pinned: boolean,
/** Whether it is archived: not in the list, but found by a search. */
is_archived: boolean,
/** When it was created. */
created_at: Timestamp,
/** When its last message was added. */
updated_at: Timestamp,
/** The number of messages on the path that is shown. */
n_messages: number, };

/** The id of a conversation. Never reused. */
export type ConversationId = number;

/** Settings of one conversation. `None` means the current model and what its settings say. */
export type ConversationSettings = {
/** The id of the model that responds. */
model: string | null,
/** Instructions at the start of the conversation. */
instructions: string | null,
/** 0 to 2. */
temperature: number | null,
/** The context length in tokens. */
context_length: number | null,
/** Whether a model that can reason does so. */
thinking: boolean | null,
/** What happens when the conversation outgrows its context. */
overflow: Overflow, };

/** A software component by others. */
export type DependencyView = {
/** Name. */
name: string,
/** Version. */
version: string,
/** SPDX license. */
license: string, };

/** How far the predictions of a model are from those of a reference. */
export type Divergence = {
/** Mean Kullback-Leibler divergence from the reference in nats. The tokens that are not among the
 * [`COMPARED_TOKENS`] most likely ones of the reference count as one, so it is a lower bound. */
kl_nats: number,
/** Its standard error. */
kl_error: number,
/** Share of the places where both find the same token most likely, from 0 to 1. */
same_top: number, };

/** Why a document can't be read, and what to do. */
export type DocumentProblem = { "kind": "not_found" } | { "kind": "cannot_open",
/** The reason of the system. */
reason: string, } | { "kind": "not_text",
/** What the file seems to contain. */
content: Content, } | { "kind": "encrypted" } | { "kind": "damaged",
/** The reason of the library, on one line. */
reason: string, } | { "kind": "too_large",
/** Bytes of the file. */
bytes: number,
/** Bytes that are allowed. */
limit_bytes: number, } | { "kind": "too_much_text",
/** Bytes of the text. */
bytes: number,
/** Bytes that are allowed. */
limit_bytes: number, } | { "kind": "too_slow",
/** The limit in seconds: of time, or of CPU time on all cores together. */
limit_seconds: number, } | { "kind": "too_much_memory",
/** The limit in bytes. */
limit_bytes: number, } | { "kind": "no_text",
/** Number of pages, if the format has pages. */
pages: number | null, } | { "kind": "not_started",
/** The program and the reason of the system. */
reason: string, };

/** The state of a document for the composer. */
export type DocumentView = { "state": "reading",
/** The file's name. */
name: string, } | { "state": "read",
/** Its name and its whole text. */
attached: AttachedText, } | { "state": "failed",
/** The reason. */
problem: DocumentProblem, };

/** A change of a download. */
export type DownloadChange = { "change": "pause" } | { "change": "resume" } | { "change": "cancel" } | { "change": "move",
/** The position. */
position: number, };

/** The state of a download. */
export type DownloadState = { "state": "waiting" } | { "state": "downloading" } | { "state": "verifying",
/** Progress from 0 to 1. */
fraction: number, } | { "state": "retrying",
/** Seconds until the retry. */
seconds: number,
/** The reason. */
error: HubErrorView, } | { "state": "paused" } | { "state": "done",
/** The id of the installed model, once its files were read. */
model: string | null, } | { "state": "failed",
/** The reason. */
error: HubErrorView, };

/** A download. */
export type DownloadView = {
/** The id for changing it. */
id: number,
/** The key of its variant. */
key: string,
/** Display name. */
name: string,
/** The current state. */
state: DownloadState,
/** Bytes on disk. */
done_bytes: number,
/** Total bytes; `None` until the hub was asked. */
total_bytes: number | null,
/** The current rate. */
bytes_per_second: number | null,
/** The remaining time at this rate. */
seconds_left: number | null, };

/** A message that is being written. */
export type Draft = {
/** Its conversation; `None` for a new one. */
conversation: ConversationId | null,
/** The message as it would be sent. */
text: string,
/** The attached texts. Only the start of a long one is needed. */
attachments: Array<AttachedText>,
/** Bytes of UTF-8 of the message and of all of its attached texts. */
n_bytes: number,
/** Estimated tokens of all attached texts, also of one that the message contains, such as a selection
 * in a saved prompt. */
attached_tokens: number,
/** The route that the user chose; `None` lets the app decide. */
route: Route | null,
/** The context length of the model that it would be sent to; `None` if that is not known. */
context_length: number | null, };

/** The route of a message that is being written. */
export type DraftRoute = {
/** The route. */
route: Route,
/** What its request may contain; without limits while the context length is not known. */
limits: RouteLimits,
/** The attached text is too long for the route, so the message must not be sent on it. */
is_attached_too_long: boolean, };

/** What dropped files can be used as. */
export type DropKind = "model" | "document" | "mixed" | "other";

/** Why a dropped file was not used. */
export type DropProblem = "not_usable" | "bad_model" | "no_model" | "only_documents";

/** Files that are dragged or dropped on a window. */
export type DropView = { "state": "over",
/** The name of the first file that can be used, or else of the first one. */
name: string,
/** What the files can be used as in this window. */
kind: DropKind,
/** True if several files can be used. */
is_several: boolean, } | { "state": "left" } | { "state": "added",
/** The model's id. */
id: string,
/** Its display name. */
name: string, } | { "state": "refused",
/** The file's name. */
name: string,
/** Why it can't be used. */
problem: DropProblem,
/** The error of the model's files, if they are the problem. */
error: ModelErrorView | null,
/** Another error of the model or the system, in English; may be empty. */
reason: string, };

/** Why a measurement ended before its time. */
export type EarlyEnd = "interrupted" | "unloaded" | "limited";

/** How a message ended: [`transom_store::Ending`] with its failure parsed. */
export type EndingView = { "ending": "writing" } | { "ending": "stop" } | { "ending": "length" } | { "ending": "canceled" } | { "ending": "shed" } | { "ending": "failed",
/** The reason. */
failure: Failure, } | { "ending": "interrupted" };

/** The energy of a measurement. */
export type Energy = {
/** Joules of all windows. They include reading the prompts, and every other program. */
joules: number,
/** Mean power. */
watts: number,
/** Generated tokens per joule. */
tokens_per_joule: number, };

/** What an engine was told. */
export type EngineSettings = {
/** The format of the weights in the files. */
stored_as: string,
/** How the engine computes with the weights. */
computed_as: string,
/** Number of tokens in the context. */
context_length: number,
/** Tokens of each prompt. */
prompt_tokens: number,
/** Tokens of each response. */
generate_tokens: number,
/** 0: responses are greedy. */
temperature: number,
/** Whether speculative decoding was on. */
speculation: boolean,
/** Bytes of the weights. */
weight_bytes: number | null,
/** Bytes of the KV cache of a full context. */
kv_cache_bytes: number | null,
/** Bytes that all models may use. */
budget_bytes: number, };

/** A model that can be downloaded. */
export type EntryView = {
/** The catalog's id, or the hub's `owner/name`. */
id: string,
/** Display name. */
name: string,
/** `Qwen3`, …; empty if unknown. */
family: string,
/** Strengths and weaknesses; empty if unknown. */
description: string,
/** SPDX id, or the license's own name; empty if unknown. */
license: string,
/** What it is for. */
tags: Array<TagView>,
/** URL of a page with details. */
source: string,
/** Number of parameters, if known. */
n_parameters: number | null,
/** Active parameters per token of a mixture of experts. */
n_active_parameters: number | null,
/** The maximum context length in tokens. */
context_length: number | null,
/** It is from the user's own catalog. */
is_users: boolean,
/** It was found on the hub and is not in the catalog. */
is_from_hub: boolean,
/** Recent downloads, if the hub reports them. */
n_downloads: number | null,
/** Its variants; empty until the hub was asked for them. */
variants: Array<VariantView>,
/** The index of the variant that suits this machine best. */
best: number, };

/** Facts from a model's files. */
export type FactsView = {
/** Number of parameters. */
n_parameters: number,
/** The quantization of most weights: `4-bit`, `Q4_K`, …. */
quantization: string,
/** `mlx`, `gguf`, or both. */
formats: Array<string>,
/** Bytes on disk. */
size_bytes: number,
/** The maximum context length in tokens. */
max_context_length: number | null,
/** It has a chat template. */
has_chat_template: boolean,
/** Whether it reasons if the user does not choose; `None` if that can't be switched. */
default_thinking: boolean | null, };

/** A failed turn. Windows translate it by its code. */
export type Failure = { "code": "engine_crashed" } | { "code": "too_large",
/** The model's name; missing in failures of the engine and in those of earlier versions. */
model: string | null,
/** Bytes that the model needs. */
need_bytes: number,
/** Bytes that models may use now. */
budget_bytes: number,
/** A context length with which the model would fit. */
context_that_fits: number | null, } | { "code": "held",
/** Try again after this time. */
retry_after_seconds: number, } | { "code": "busy" } | { "code": "prompt_too_long",
/** Tokens in the prompt. */
prompt_tokens: number,
/** Tokens in the context. */
context_length: number, } | { "code": "attached_too_long",
/** The route. */
route: Route,
/** About the tokens of the attached text. */
attached_tokens: number,
/** The tokens that it may have. */
max_tokens: number, } | { "code": "conversation_too_long",
/** Tokens in the prompt. */
prompt_tokens: number,
/** Tokens in the context. */
context_length: number, } | { "code": "no_model" } | { "code": "model_unusable",
/** What is wrong with it; missing in failures that earlier versions stored. */
problem: ModelProblem | null,
/** The engine's error message in English. */
reason: string, } | { "code": "invalid_parameter",
/** The parameter as the command line names it, such as `top-p`. */
name: string,
/** The value. */
value: string,
/** The engine's error message in English. */
reason: string, } | { "code": "backend",
/** The library's own message, in English. */
reason: string, } | { "code": "shed" } | { "code": "stuck",
/** Id of the process. */
process_id: number,
/** Bytes that it uses. */
held_bytes: number, } | { "code": "unloaded" } | { "code": "storage",
/** The kind of the error, which windows translate. */
kind?: StoreErrorKind,
/** The reason in English, which names the file. */
reason: string, } | { "code": "other",
/** The reason in English. */
reason: string, };

/** The file format of an export. */
export type FileFormat = "markdown" | "json";

/** Where the documents to attach come from. */
export type FileSource = "dialog" | "clipboard";

/** How well a model fits this machine. */
export type FitSummary = { "fit": "fits" } | { "fit": "context",
/** The context length in tokens. */
tokens: number, } | { "fit": "others_close",
/** Bytes that must become free. */
bytes: number, } | { "fit": "too_large",
/** Bytes that it needs. */
need_bytes: number,
/** Bytes that models may use. */
room_bytes: number, };

/** The memory that a model needs, by part, and whether it fits. */
export type FitView = {
/** Weights. */
weight_bytes: number,
/** KV cache at full context. */
kv_cache_bytes: number,
/** Working memory. */
headroom_bytes: number,
/** Draft model. */
draft_bytes: number,
/** Saved prefixes of earlier conversations. */
prefix_bytes: number,
/** Bytes that all models may use. */
budget_bytes: number,
/** Bytes of the budget that are used by models that would not be unloaded. */
taken_bytes: number,
/** The context length for these numbers. */
context_length: number,
/** The longest context that would fit; `None` if none does. */
context_that_fits: number | null,
/** The total fits. */
fits: boolean,
/** How well it fits. */
summary: FitSummary,
/** The estimated speed, if known. */
speed: SpeedView | null,
/** The working memory was corrected by measurements on this machine. */
is_measured: boolean, };

/** A conversation in search results or in the list. */
export type FoundConversation = {
/** The conversation. */
conversation: Conversation,
/** The text around the matches; `None` if nothing was searched for, or if the title matches. */
snippet: Snippet | null, };

/** Settings of the app itself. */
export type General = {
/** The shortcut of the quick prompt, such as `Alt+Space`; `None` for the system's default,
 * empty for none. */
hotkey: string | null,
/** Start the app at login. */
launch_at_login: boolean,
/** Show the app in the Dock. */
show_in_dock: boolean,
/** Open the chat as an ordinary window, not under the menu-bar icon. */
chat_in_window: boolean,
/** Keep the chat window open when another window gets the focus. */
pin_chat: boolean,
/** Keep the quick prompt open when another window gets the focus. */
pin_prompt: boolean,
/** The size of pages in percent; `None` for 100. */
zoom: number | null,
/** Light, dark, or like the system. */
appearance: Appearance,
/** The BCP 47 tag of a language; `None` for the system's language. */
language: string | null,
/** Send every message as plain chat, and never choose a route such as `translate`. */
routing_off: boolean,
/** Ask the server for a newer version at every start and once a day. */
check_for_updates: boolean,
/** Whether the welcome was shown. */
was_welcomed: boolean, };

/** The state of a shortcut. */
export type HotkeyView = { "hotkey": "registered",
/** In the format of the settings; empty if switched off. */
shortcut: string, } | { "hotkey": "taken",
/** In the format of the settings. */
shortcut: string, } | { "hotkey": "unusable",
/** As entered. */
shortcut: string, } | { "hotkey": "unavailable",
/** The reason in English. */
reason: string, };

/** Settings for accessing the hub. */
export type HubAccessView = {
/** There is a token in the keychain or in the environment. Pages never receive it. */
has_token: boolean,
/** The token comes from the environment (`HF_TOKEN`), so it can't be removed here. */
is_token_from_environment: boolean,
/** Why the keychain cannot store a token. */
keychain_problem: HubErrorView | null,
/** The hub's address. */
endpoint: string,
/** The address is the default. */
is_default_endpoint: boolean,
/** The address comes from the environment (`HF_ENDPOINT`), so it can't be changed here. */
is_endpoint_from_environment: boolean,
/** The environment disables the network (`HF_HUB_OFFLINE`). */
is_offline: boolean, };

/** An error of the hub. */
export type HubErrorView = {
/** The code of the hub crate, such as `disk_full`. */
code: string,
/** The English sentence, for codes that a page does not know. */
reason: string,
/** Values for the sentence: `file`, `host`, `needed_bytes`, …. */
values: Record<string, unknown>, };

/** The precision of the KV cache. */
export type KvCache = "automatic" | "full" | "small";

/** Something that is limited. Displayed as `shorter responses (1024 tokens)`. */
export type Limit = { "limit": "running_answers" } | { "limit": "new_answers" } | { "limit": "answer_length",
/** Maximum number of tokens. */
tokens: number, } | { "limit": "context",
/** Maximum number of tokens. */
tokens: number, } | { "limit": "prefill_step",
/** Maximum number of tokens of a step. */
tokens: number, } | { "limit": "speculation" } | { "limit": "repaint",
/** Minimum milliseconds between two repaints. */
milliseconds: number, } | { "limit": "idle_unload",
/** Idle time in seconds; 0 unloads at once. */
seconds: number, } | { "limit": "smaller_model" };

/** The reason for a limit. */
export type LimitReason = "memory_warning" | "memory_critical" | "thrashing" | "heat_fair" | "heat_serious" | "heat_critical" | "low_power" | "battery" | "small_machine" | "setting" | "paused";

/** An active limit. */
export type LimitView = {
/** What is limited. */
limit: Limit,
/** Why it is limited. */
reason: LimitReason, };

/** A model in memory. */
export type LoadedView = {
/** Display name. */
name: string,
/** 0 to 1 while loading; `None` before its size is known and after the load. */
load_fraction: number | null,
/** It is loaded. */
is_ready: boolean,
/** It is being unloaded. */
is_unloading: boolean,
/** Bytes that its process uses; `None` if the system does not report them. */
memory_bytes: number | null,
/** `mlx` or `llama`; `None` while it loads. */
engine: string | null,
/** The context length in tokens that it was loaded with. */
context_length: number | null,
/** Seconds until the idle unload. */
unloads_in_seconds: number | null, };

/** The local API for other programs, served by the app. */
export type LocalApi = {
/** The app serves it. */
is_on: boolean,
/** The port; `None` for the default one. */
port: number | null,
/** A second port, for programs that expect Ollama there; `None` for none. */
ollama_port: number | null,
/** Origins whose web pages may use it, such as `https://chat.example.org`. Pages of this computer
 * always may. */
allowed_origins: Array<string>, };

/** The local API. */
export type LocalApiView = {
/** Whether it listens, and where. */
state: ApiStateView,
/** The programs that have a key or use the API now: keys oldest first, then others. */
clients: Array<ApiClientView>,
/** Why the keys can't be read, in English. */
keys_problem: string | null,
/** The last requests, newest first. */
requests: Array<RequestRecord>,
/** Requests of all programs that may wait. */
max_queued: number,
/** Requests of one key that may wait. */
max_queued_per_key: number, };

/** What was measured, for each form of the model. */
export type Measured = { "kind": "sustained",
/** One for each engine. */
forms: Array<SustainedReport>, } | { "kind": "quality",
/** One for each form, the reference first. */
forms: Array<QualityReport>, };

/** Memory pressure, in the levels of Apple's `DISPATCH_SOURCE_TYPE_MEMORYPRESSURE`. */
export type MemoryPressure = "normal" | "warning" | "critical";

/** The data of a message that the list of a long conversation needs. */
export type MessageHead = {
/** The id. */
id: MessageId,
/** Who wrote it. */
speaker: Speaker,
/** The number of characters of text and reasoning, to estimate its height. */
n_chars: number, };

/** The id of a message. Never reused. */
export type MessageId = number;

/** A message for display. */
export type MessageView = {
/** The id. */
id: MessageId,
/** The conversation that it belongs to. */
conversation: ConversationId,
/** Who wrote it. */
speaker: Speaker,
/** The model's reasoning before the answer. */
reasoning: Array<Block>,
/** The rendered text. */
blocks: Array<Block>,
/** The source of `blocks`, for copying and editing. */
text: string,
/** Texts that the user attached. */
attachments: Array<AttachedText>,
/** How it ended. */
ending: EndingView,
/** Name of the model that wrote it; of several, if another one continued it. */
model: string | null,
/** Statistics of the response. */
stats: AnswerStats | null,
/** When it was created. */
created_at: Timestamp,
/** Versions of this message (edited or regenerated), including itself, oldest first. */
siblings: Array<MessageId>, };

/** The speed in one minute. */
export type MinuteSpeed = {
/** Number of the minute, from 1. */
minute: number,
/** Median of its windows, in tokens per second. */
tokens_per_second: number, };

/** Why a model cannot be used, found, added or removed. */
export type ModelErrorView = {
/** The code of the sentence, such as `truncated`. */
code: string,
/** The name of the file, folder or model. */
file: string,
/** What else the sentence names, such as a version or an entry; may be empty. */
value: string,
/** The whole error in English. */
detail: string, };

/** An installed model that is better suited for a task than the current one. */
export type ModelOffer = {
/** Its id. */
id: string,
/** Its display name. */
name: string, };

/** What is wrong with a model. Windows translate it by its code. */
export type ModelProblem = { "problem": "architecture",
/** The architecture's name in the files. */
name: string, } | { "problem": "quantization",
/** The quantization's name in the files. */
name: string, } | { "problem": "format" } | { "problem": "tokenizer" } | { "problem": "special_tokens" } | { "problem": "purpose" } | { "problem": "feature" } | { "problem": "variants" } | { "problem": "missing",
/** The name of the file or folder. */
file: string, } | { "problem": "damaged",
/** The name of the file or folder. */
file: string, } | { "problem": "template" };

/** Settings of one model. `None` means what the model's authors recommend, or what fits. */
export type ModelSettings = {
/** The context length in tokens. */
context_length: number | null,
/** The precision of the KV cache. */
kv_cache: KvCache,
/** The maximum number of tokens in a response. */
max_tokens: number | null,
/** 0 to 2. */
temperature: number | null,
/** Above 0, up to 1. */
top_p: number | null,
/** 0 turns it off. */
top_k: number | null,
/** 0 to 1. */
min_p: number | null,
/** Above 0, up to 10; 1 turns it off. */
repetition_penalty: number | null,
/** The same seed gives the same response. */
seed: number | null,
/** Instructions at the start of every conversation. */
system_prompt: string | null,
/** Whether models that can reason do so; `None` lets the model decide. */
thinking: boolean | null, };

/** An installed model. */
export type ModelView = {
/** The id that commands and settings use. */
id: string,
/** Display name: the catalog's name with the quantization, else the name of the folder or file. */
name: string,
/** Where it comes from. */
origin: OriginView,
/** It is in our models folder, so its files can be deleted. */
can_be_removed: boolean,
/** It is the selected model. */
is_chosen: boolean,
/** The id of its catalog entry. */
entry: string | null,
/** Bytes of all its files. */
size_bytes: number,
/** The recommendations of its authors, if known. */
sampling: SamplingView | null,
/** Facts from its files; `None` if they cannot be used. */
facts: FactsView | null,
/** Why its files cannot be used. */
problem: ModelErrorView | null,
/** It makes embedding vectors and generates no text. */
is_embedder: boolean,
/** It is selected, but no longer installed. */
is_missing: boolean, };

/** A newer version. */
export type OfferView = {
/** Its version. */
version: string,
/** The size of the download in bytes. */
size_bytes: number,
/** What it changes, in English. */
notes: Array<ReleaseNote>, };

/** A conversation that was opened. */
export type OpenedConversation = {
/** The conversation. */
conversation: Conversation,
/** Its settings. */
settings: ConversationSettings,
/** The visible path, first message first. */
messages: Array<MessageHead>,
/** Summaries of the beginning of that path. */
summaries: Array<SummaryView>, };

/** Where a model comes from. */
export type OriginView = { "origin": "starter" } | { "origin": "ours" } | { "origin": "added" } | { "origin": "elsewhere",
/** The program's name. */
app: string, };

/** What happens when a conversation outgrows its context. */
export type Overflow = "drop_oldest" | "stop" | "summarize";

/** The purpose of two models that are loaded together. */
export type PairKind = "draft" | "embedding";

/** Two models that fit together. */
export type PairView = {
/** The purpose of the second model. */
kind: PairKind,
/** The model that writes responses. */
main: PickView,
/** The other model. */
second: PickView,
/** Bytes of memory that both need together. */
need_bytes: number, };

/** A recommended model, in the variant that suits the computer. */
export type PickView = {
/** The entry's id. */
entry: string,
/** Display name. */
name: string,
/** `4-bit`, `Q4_K_M`, …. */
quantization: string,
/** Bytes of memory that it needs. */
need_bytes: number,
/** The estimated speed. */
speed: SpeedView | null, };

/** The predicted speed beside the measured one, in tokens per second. */
export type Prediction = {
/** The predicted range. */
low: number,
/** Its upper end. */
high: number,
/** The measured speed: the median of the first minute. */
measured: number,
/** The measured speed is more than a quarter below or above the range. */
is_far_off: boolean, };

/** What a model is recommended for. */
export type Purpose = "chat" | "code" | "small";

/** How well a form of a model predicts a text. */
export type QualityReport = {
/** Name of the model in its files. */
model: string,
/** The engine that ran it. */
engine: string,
/** The format of the weights in the files. */
stored_as: string,
/** How the engine computes with the weights. */
computed_as: string,
/** The others are compared with this one. */
is_reference: boolean,
/** The distance from the reference; `None` for the reference, and if it has other tokens for the
 * text. */
divergence: Divergence | null,
/** Number of predicted tokens. */
n_tokens: number,
/** Bytes of text of these tokens. */
n_bytes: number,
/** Perplexity per token. Comparable only between models with the same tokenizer. */
perplexity: number,
/** Its standard error. */
perplexity_error: number,
/** Bits per byte of text, which do not depend on the tokenizer. */
bits_per_byte: number, };

/** A recommended model. */
export type RecommendedView = {
/** What it is recommended for. */
purpose: Purpose,
/** The entry's id. */
entry: string,
/** The variant's key. */
variant: string, };

/** A line of release notes. */
export type ReleaseNote = {
/** It is the heading of the lines below. */
is_heading: boolean,
/** Plain text. */
text: string, };

/** A request of a client. */
export type RequestRecord = {
/** Its number since the start of the server. */
id: number,
/** The name of its key; `None` if it had none that is valid. */
key: string | null,
/** The route, such as `/v1/chat/completions`; `other` for an unknown path. */
route: string,
/** The name of the model, once it is found. */
model: string | null,
/** Tokens of the prompts of all its responses. */
prompt_tokens: number,
/** Generated tokens of all its responses. */
generated_tokens: number,
/** When it came, in milliseconds since 1970. */
began_at: number,
/** How long it took, in milliseconds; `None` while it is open. */
took_ms: number | null,
/** The HTTP status, or the one of an error within a stream; `None` before the response begins. */
status: number | null,
/** The client closed the connection before the end. */
is_canceled: boolean, };

/** What kind of help a message asks for. */
export type Route = "chat" | "code" | "summarize" | "rewrite" | "translate" | "question" | "extract";

/** What the user changed about a route. `None` means its built-in value. */
export type RouteChanges = {
/** Its messages are plain chat. */
is_off: boolean,
/** Instructions for the model; empty for none. */
instructions: string | null,
/** 0 to 2. */
temperature: number | null,
/** Whether models that can reason do so. */
thinking: RouteThinking | null,
/** The share of the context that is kept free for the response; 0 to 0.25. */
reserve: number | null,
/** The share of the context for earlier messages, if the message has a text of its own; 0 to 1,
 * where 1 stands for all of them. */
history: number | null,
/** The share of the context that attached text may take at most; 0.1 to 1, where 1 stands for as much as
 * the context holds. */
attached: number | null, };

/** What the request for a message may contain on its route. */
export type RouteLimits = {
/** How many of the newest earlier messages it contains; `None` for as many as fit. */
earlier_messages: number | null,
/** The tokens that attached text may have; `None` for as many as fit. */
attached_tokens: number | null,
/** The tokens that are kept free for the response; `None` for as many as usual. */
response_tokens: number | null, };

/** What a route changes in a request, as in `routes.toml`. */
export type RouteSettings = {
/** Instructions for the model; empty for none. */
instructions: string,
/** The temperature, if nobody set one. */
temperature: number | null,
/** Whether a model that can reason does so, if nobody said. */
thinking: boolean | null,
/** The share of the context that the newest earlier messages may take, if the message has a text of its
 * own; all of them if there is none. */
history: number | null,
/** The share of the context that attached text may take at most; as much as the context holds if there is
 * none. */
attached: number | null,
/** The conversation keeps this route while its messages ask for nothing else. */
is_sticky: boolean,
/** The share of the context that is kept free for the response. */
reserve_context: number | null,
/** The tokens that are kept free for the response, as a multiple of those of the message. */
reserve_text: number | null, };

/** Whether models that can reason do so on a route. */
export type RouteThinking = "on" | "off" | "model";

/** Sampling parameters that the authors of a model recommend. */
export type SamplingView = {
/** 0 always takes the most likely token. */
temperature: number | null,
/** Keeps the most likely tokens that together have this probability. */
top_p: number | null,
/** Keeps this many of the most likely tokens; 0 keeps all. */
top_k: number | null,
/** Keeps tokens with at least this probability relative to the most likely one. */
min_p: number | null,
/** 1 turns the penalty off. */
repetition_penalty: number | null, };

/** A prompt that the user saved, called with `/name`. */
export type SavedPrompt = {
/** One word of at most 100 bytes, without the slash. */
name: string,
/** The text. `{text}` stands for the attachment, or for the text after the name. */
text: string, };

/** A section of a response. */
export type Section = "reasoning" | "answer";

/** All settings of the user. */
export type Settings = {
/** Settings of the app itself. */
general: General,
/** What the app may use of the computer. */
behavior: Behavior,
/** The local API for other programs. */
local_api: LocalApi,
/** The id of the current model; `None` for the starter, until the user chooses another one. */
model: string | null,
/** Settings of single models, by id. */
models: { [key in string]: ModelSettings },
/** Where older versions stored the paths of added models. The app moves them to a file in the
 * data folder that every program reads, and empties this list. */
added_models: Array<string>,
/** The ids of recently used models, newest first. */
recent_models: Array<string>,
/** Saved prompts; `None` for the built-in ones. */
prompts: Array<SavedPrompt> | null,
/** Named settings for conversations. */
assistants: Array<Assistant>,
/** Changes of routes, by the name of the route, such as `translate`. */
routes: { [key in string]: RouteChanges },
/** The names of routes for which the user did not take another model that was offered. None is offered for
 * them again. */
declined_offers: Array<string>, };

/** A response so far, for a new follower. */
export type Snapshot = {
/** The message so far. */
message: MessageView,
/** The current stage. */
stage: Stage, };

/** A piece of a message around the matches of a search. */
export type Snippet = {
/** The message. */
message: MessageId,
/** Pieces of text in order, each with whether it is a match. */
pieces: Array<[string, boolean]>, };

/** The author of a message. The names are those in the database too. */
export type Speaker = "user" | "assistant";

/** Decode speed in tokens per second. */
export type SpeedView = {
/** Lower bound. */
low: number,
/** Upper bound. */
high: number,
/** True if earlier uses on this machine were measured; false for a prediction. */
is_measured: boolean, };

/** Ten seconds of the measurement, or less at its end. */
export type SpeedWindow = {
/** Start, from the start of the measurement. */
start_seconds: number,
/** Length. */
seconds: number,
/** Tokens that were generated after the first of each response. */
tokens: number,
/** The speed while tokens were generated, without reading prompts; `None` if none were generated. */
tokens_per_second: number | null,
/** The thermal state at the end. */
thermal: ThermalState,
/** The limits in force at the end. */
limits: Array<string>,
/** Energy of the window; `None` if it is unknown. */
joules: number | null, };

/** The stage of a response before and while it is written. */
export type Stage = { "stage": "waiting",
/** Requests before it in the queue. */
position: number, } | { "stage": "loading",
/** 0 to 1; `None` while other models are being unloaded. */
fraction: number | null, } | { "stage": "prefill",
/** Tokens processed. */
done: number,
/** Tokens in total. */
total: number, } | { "stage": "writing",
/** Current tokens per second; `None` at the start. */
tokens_per_second: number | null, };

/** The ids of a message that was accepted and of the response that was started. */
export type StartedTurn = {
/** The conversation, which is new if the caller named none. */
conversation: ConversationId,
/** The user's message; `None` if an existing question is answered again. */
question: MessageId | null,
/** The response; follow it for its updates. */
answer: MessageId, };

/** The supervisor's status for pages. */
export type StatusView = {
/** The main state to show. */
activity: Activity,
/** The loaded chat model, or the one that is loading. */
model: LoadedView | null,
/** Bytes that all models may use now. */
budget_bytes: number,
/** Bytes of the budget that are in use. */
in_use_bytes: number,
/** Why no response starts at present. */
held: LimitReason | null,
/** The user paused Transom. */
is_paused: boolean,
/** All active limits. */
limits: Array<LimitView>,
/** A smaller model is recommended now. */
offer_smaller_model: boolean,
/** The signals of the machine. */
machine: SystemSignals,
/** The last model that was unloaded. */
last_unload: UnloadView | null,
/** Queued requests. */
n_queued: number,
/** The request of another program that runs now, if there is one. */
background: BackgroundView | null,
/** The supervisor belongs to another program, such as `transom chat` in a terminal. */
is_client: boolean, };

/** The kind of an error of the store's file, for windows that say it in the user's language. */
export type StoreErrorKind = "folder" | "read_only" | "full" | "damaged" | "newer" | "busy" | "disk";

/** A summary of the beginning of a conversation, which the model gets in place of dropped messages. */
export type SummaryView = {
/** The last message that it covers. It covers all messages before that one, too. */
last: MessageId,
/** The text; empty if there is none yet. */
text: string,
/** The rendered text. */
blocks: Array<Block>,
/** The model is writing it, in place of `text`. */
is_writing: boolean,
/** Why the last attempt to write it failed. */
failure: Failure | null, };

/** The speed of a form of a model over minutes. */
export type SustainedReport = {
/** Name of the model in its files. */
model: string,
/** The engine that ran it. */
engine: string,
/** What the engine was told. */
settings: EngineSettings,
/** The speed in each ten seconds. */
windows: Array<SpeedWindow>,
/** The first, the fifth, the tenth and the last minute. */
minutes: Array<MinuteSpeed>,
/** Where the machine slowed down. */
throttling: Throttling | null,
/** `None` if it is unknown, for the reason in `energy_problem`. */
energy: Energy | null,
/** Why the energy is unknown, in English. */
energy_problem: string | null,
/** `None` if there is no prediction for this machine. */
prediction: Prediction | null,
/** Why the measurement ended early. */
ended_early: EarlyEnd | null, };

/** The state of the machine. The default is a machine on mains power without any pressure. */
export type SystemSignals = {
/** Memory pressure: the system asks programs to free memory. */
memory: MemoryPressure,
/** The system swaps out more than [`SystemSignals::THRASHING_BYTES_PER_SECOND`], so the machine
 * is too slow to work with. Swap in use can stay the same meanwhile. */
is_thrashing: boolean,
/** The thermal state. */
thermal: ThermalState,
/** Low Power Mode, or a power saver profile, is on. */
is_low_power: boolean,
/** The machine runs on battery. */
is_on_battery: boolean, };

/** A use of a model. */
export type TagView = "chat" | "code" | "reasoning" | "embedding";

/** Why no text can be inserted into another program. */
export type TargetProblem = "no_program" | "wayland" | "not_allowed" | "password";

/** The program that the quick prompt was called from, as a place for a response. */
export type TargetView = {
/** Text was selected there. */
has_selection: boolean,
/** Why no text can be inserted there; `None` if it can. */
problem: TargetProblem | null, };

/** The source of a captured text. */
export type TextSource = "selection" | "clipboard";

/** Thermal state, in the levels of Apple's `NSProcessInfoThermalState`. */
export type ThermalState = "nominal" | "fair" | "serious" | "critical";

/** The point where the machine slowed down. */
export type Throttling = {
/** Start of the first slow window. */
at_seconds: number,
/** The speed before: the median of the first minute, in tokens per second. */
before: number,
/** The median of the speeds from this point on. */
after: number, };

/** Recommendations for a computer with this much memory. */
export type TierView = {
/** Memory in bytes. */
memory_bytes: number,
/** Bytes that models may use together. */
room_bytes: number,
/** It is this computer. The others are Macs of which only the memory is known. */
is_this_computer: boolean,
/** For conversation; `None` if nothing fits, also below. */
chat: PickView | null,
/** For programming. */
code: PickView | null,
/** Small and fast. */
small: PickView | null,
/** Two models that fit together. */
pair: PairView | null, };

/** Milliseconds since 1970 in UTC. */
export type Timestamp = number;

/** A model that was unloaded. */
export type UnloadView = {
/** Display name. */
name: string,
/** Bytes that it used. */
held_bytes: number | null,
/** It was unloaded because it was idle. */
was_idle: boolean, };

/** An update about a response. */
export type Update = { "update": "snapshot",
/** The response so far. */
snapshot: Snapshot, } | { "update": "stage",
/** The current stage. */
stage: Stage, } | { "update": "text",
/** The section that grew. */
section: Section,
/** The blocks that changed since the last update. */
change: Change,
/** Current tokens per second. */
tokens_per_second: number | null, } | { "update": "ended",
/** The source of the whole answer. */
text: string,
/** How it ended. */
ending: EndingView,
/** The name of the model that wrote it, or of all models that did. */
model: string | null,
/** Statistics of the response. */
stats: AnswerStats | null, };

/** Why an update failed. */
export type UpdateProblem = { "problem": "unreachable" } | { "problem": "refused" } | { "problem": "insecure" } | { "problem": "malformed" } | { "problem": "no_file" } | { "problem": "interrupted" } | { "problem": "disk_full",
/** Bytes that the update needs; 0 if the disk was full unexpectedly. */
needed_bytes: number,
/** Free bytes. */
free_bytes: number, } | { "problem": "bad_signature" } | { "problem": "other_version" } | { "problem": "not_permitted" } | { "problem": "not_restored",
/** Where the old app is. */
path: string, } | { "problem": "failed",
/** The reason in English. */
detail: string, };

/** Why a copy of the app does not update itself. */
export type UpdateRefusal = "no_server" | "not_installed" | "not_in_applications" | "package" | "not_writable";

/** A step of an update. */
export type UpdateStep = { "step": "idle" } | { "step": "checking" } | { "step": "downloading",
/** Bytes so far. */
done_bytes: number, } | { "step": "ready" } | { "step": "waiting" } | { "step": "installing" };

/** Updates of the app. */
export type UpdatesView = {
/** Why this copy does not update itself; `None` if it does. */
refusal: UpdateRefusal | null,
/** The server that is asked for the newest version; empty if this build knows none. */
host: string,
/** What is happening. */
step: UpdateStep,
/** The newer version that the last check found. */
offer: OfferView | null,
/** The version that the server offered at the last check, if it is older than this one. */
older: string | null,
/** When the last check succeeded, in milliseconds since 1970. */
checked_at: number | null,
/** Why the last check, download or installation failed. */
problem: UpdateProblem | null, };

/** A variant of a model that can be downloaded. */
export type VariantView = {
/** The key for installing it, and of its download. */
key: string,
/** `mlx` or `gguf`. */
format: string,
/** `4-bit`, `Q4_K_M`, …. */
quantization: string,
/** The hub's `owner/name`. */
repository: string,
/** Bytes to download; `None` until the hub was asked. */
size_bytes: number | null,
/** Bytes that must become free on the disk before the download; `None` if there is enough space
 * or the size is unknown. */
disk_missing_bytes: number | null,
/** How well it fits, if known. */
fit: FitSummary | null,
/** The estimated speed. */
speed: SpeedView | null,
/** The id of the installed model, if it is installed. */
model: string | null, };

/** A window. */
export type Window = "chat" | "prompt" | "settings";

/** A change of the zoom of all pages. */
export type ZoomStep = "in" | "out" | "reset";
