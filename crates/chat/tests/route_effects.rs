//! What routes save: tokens that a model reads for the same messages, and responses that outgrow the
//! context. Each message is sent on its route and as plain chat.
//!
//! The requests are those of the app, in a context of 8,192 tokens. Lengths are in bytes of UTF-8, four to
//! a token. A prompt reads again what is not at the start of an earlier prompt and its response, as with KV
//! caches that are kept in memory. `cargo test -p transom-chat --test route_effects -- --nocapture` prints
//! the table of `docs/benchmarks.md`.

#![expect(clippy::unwrap_used, reason = "a test stops at the first error")]

use std::collections::BTreeMap;

use transom_chat::request::{dropped_before, has_all_history, routed_request};
use transom_chat::routing::{Route, Routes};
use transom_chat::update::AnswerStats;
use transom_engine::{ModelInfo, Prompt, Role, SamplingParams, Truncation};
use transom_store::{
    AttachedText, ConversationId, Ending, Message, MessageId, MessageRole, ModelSettings, Overflow,
    Timestamp, attached_text,
};

const CONTEXT: usize = 8192;
const BYTES_PER_TOKEN: usize = 4;
const MODEL: &str = "model";

/// Tokens of the texts that are worked on.
const TEXTS: [usize; 7] = [250, 500, 1000, 1500, 2000, 2500, 3000];

/// The room that is kept free for a response has at most this share of the context, and a conversation
/// that does not fit is cut to this share of what fits, as in `transom_engine::truncation`.
const MAX_RESERVED: usize = CONTEXT / 4;
const KEPT_PERCENT: usize = 60;

/// Exchanges of a chat before a message with a text, and their tokens: a question and a response.
const N_EXCHANGES: usize = 20;
const QUESTION_TOKENS: usize = 34;
const RESPONSE_TOKENS: usize = 212;

/// How messages with a text come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Session {
    /// One in a new chat.
    New,
    /// One in a long chat that is not in memory.
    Opened,
    /// One in a long chat that is in memory, then a question without a text.
    Continued,
    /// Ten in one chat.
    Series,
}

const SESSIONS: [Session; 4] = [
    Session::New,
    Session::Opened,
    Session::Continued,
    Session::Series,
];

/// What responses cost.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    prefill_tokens: usize,
    /// Responses that need more room than the context has after their prompt.
    n_cut: usize,
}

/// A conversation, and the texts in KV caches.
#[derive(Default)]
struct Chat {
    path: Vec<Message>,
    cached: Vec<Vec<String>>,
    cost: Cost,
}

/// Returns the tokens of a usual response to a text of so many tokens.
fn response_tokens(route: Route, text_tokens: usize) -> usize {
    match route {
        Route::Rewrite | Route::Translate => text_tokens * 11 / 10,
        Route::Extract => text_tokens / 2,
        Route::Code => 1500,
        Route::Chat | Route::Summarize | Route::Question => 250,
    }
}

fn tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

fn info() -> ModelInfo {
    ModelInfo {
        name: MODEL.to_owned(),
        architecture: "qwen3".to_owned(),
        engine: "test".to_owned(),
        n_parameters: 1,
        stored_as: String::new(),
        computed_as: String::new(),
        context_length: CONTEXT,
        vocab_size: 1,
        has_chat_template: true,
        draft: None,
        recommended_sampling: SamplingParams::default(),
    }
}

impl Chat {
    /// Adds a message with an attached text of so many tokens, and its response.
    fn ask_about(&mut self, text_tokens: usize, route: Route, response_tokens: usize) {
        let attached = AttachedText {
            name: None,
            text: self.words(text_tokens),
        };
        let question = Message {
            attachment: attached_text::join(&[attached]),
            ..self.message(MessageRole::User, "Please do this.".to_owned())
        };
        self.respond(question, route, response_tokens);
    }

    /// Adds a question without a text, and its response.
    fn ask(&mut self) {
        let question = self.words(QUESTION_TOKENS);
        let question = self.message(MessageRole::User, question);
        self.respond(question, Route::Chat, RESPONSE_TOKENS);
    }

    fn respond(&mut self, question: Message, route: Route, response_tokens: usize) {
        let n_dropped = dropped_before(&self.path, MODEL, Some(CONTEXT as u32));
        self.path.push(question);
        let path = &self.path[n_dropped..];
        let settings = ModelSettings::default();
        let routes = Routes::default();
        let on_route = (route, &routes);
        let request = routed_request(path, &settings, Overflow::DropOldest, on_route, &info());
        let Prompt::Chat(chat) = request.prompt else {
            panic!("a model with a template is given a conversation");
        };
        let Truncation::DropOldest {
            response_tokens: reserved,
            ..
        } = request.truncation
        else {
            panic!("a conversation that may be shortened");
        };
        let is_system = |message: &&transom_engine::Message| message.role == Role::System;
        let n_system = chat.messages.iter().take_while(is_system).count();
        let contents = chat.messages.into_iter().map(|message| message.content);
        let mut prompt: Vec<String> = contents.collect();
        let sum = |prompt: &[String]| prompt.iter().map(|text| tokens(text)).sum::<usize>();
        let mut n_more = 0;
        let fitting = CONTEXT - reserved.min(MAX_RESERVED);
        if sum(&prompt) > fitting {
            while prompt.len() > n_system + 2 && sum(&prompt) > fitting * KEPT_PERCENT / 100 {
                prompt.drain(n_system..n_system + 2);
                n_more += 2;
            }
        }
        let shared = |cached: &Vec<String>| {
            let pairs = cached.iter().zip(&prompt);
            let same = pairs.take_while(|(cached, text)| cached == text);
            same.map(|(_, text)| tokens(text)).sum::<usize>()
        };
        let n_cached = self.cached.iter().map(shared).max().unwrap_or(0);
        let n_prompt = sum(&prompt);
        self.cost.prefill_tokens += n_prompt - n_cached;
        self.cost.n_cut += usize::from(response_tokens > CONTEXT - n_prompt);
        let has_all = has_all_history(path, route, &routes);
        let stats = AnswerStats {
            dropped_messages: (n_dropped + if has_all { n_more } else { 0 }) as u32,
            context_length: Some(CONTEXT as u32),
            route,
            ..AnswerStats::default()
        };
        let text = self.words(response_tokens);
        prompt.push(text.clone());
        self.cached.push(prompt);
        let response = Message {
            model: Some(MODEL.to_owned()),
            stats: Some(serde_json::to_string(&stats).unwrap()),
            ..self.message(MessageRole::Assistant, text)
        };
        self.path.push(response);
    }

    /// Returns a text of so many tokens that is unlike every other one of the chat.
    fn words(&self, n_tokens: usize) -> String {
        format!("{:04}", self.path.len()).repeat(n_tokens)
    }

    fn message(&self, role: MessageRole, text: String) -> Message {
        Message {
            id: MessageId(self.path.len() as i64 + 1),
            conversation: ConversationId(1),
            parent: None,
            role,
            reasoning: String::new(),
            text,
            attachment: String::new(),
            ending: Ending::Stop,
            model: None,
            stats: None,
            summary: None,
            created_at: Timestamp(1),
            siblings: Vec::new(),
        }
    }
}

/// Returns what the messages of a session cost that ask for `task`, on `route`.
fn cost(session: Session, task: Route, route: Route) -> Cost {
    let mut sum = Cost::default();
    for text in TEXTS {
        let mut chat = Chat::default();
        if matches!(session, Session::Opened | Session::Continued) {
            (0..N_EXCHANGES).for_each(|_| chat.ask());
            chat.cost = Cost::default();
        }
        if session == Session::Opened {
            chat.cached.clear();
        }
        let n_messages = if session == Session::Series { 10 } else { 1 };
        for _ in 0..n_messages {
            chat.ask_about(text, route, response_tokens(task, text));
        }
        if session == Session::Continued {
            chat.ask();
        }
        sum.prefill_tokens += chat.cost.prefill_tokens;
        sum.n_cut += chat.cost.n_cut;
    }
    sum
}

/// Every route reads fewer tokens than plain chat over all sessions, or cuts fewer responses.
#[test]
fn routes_save_prefill_and_responses_that_outgrow_the_context() {
    let mut saved: BTreeMap<(Route, Session), f64> = BTreeMap::new();
    println!("| route | new | opened | continued | series | all | cut |");
    println!("|---|---|---|---|---|---|---|");
    for route in Route::tasks() {
        let costs = SESSIONS.map(|session| {
            let (chat, own) = (
                cost(session, route, Route::Chat),
                cost(session, route, route),
            );
            let share = 1.0 - own.prefill_tokens as f64 / chat.prefill_tokens as f64;
            saved.insert((route, session), share);
            (chat, own)
        });
        let sum = |count: fn(&(Cost, Cost)) -> usize| costs.iter().map(count).sum::<usize>();
        let of_chat = sum(|(chat, _)| chat.prefill_tokens);
        let of_route = sum(|(_, own)| own.prefill_tokens);
        let cut = (sum(|(chat, _)| chat.n_cut), sum(|(_, own)| own.n_cut));
        let percent = |share: f64| format!("{:+.0} %", -100.0 * share);
        let cells = SESSIONS.map(|session| percent(saved[&(route, session)]));
        let all = 1.0 - of_route as f64 / of_chat as f64;
        println!(
            "| {} | {} | {} | {} of {} |",
            route.name(),
            cells.join(" | "),
            percent(all),
            cut.1,
            cut.0
        );
        assert!(
            of_route < of_chat || cut.1 < cut.0,
            "{route:?} saves nothing"
        );
        assert_eq!(cut.1, 0, "{route:?}");
        if matches!(route, Route::Rewrite | Route::Translate | Route::Code) {
            assert!(cut.0 > 0, "{route:?}: the sessions are too easy");
        }
        if route != Route::Code {
            assert!(saved[&(route, Session::Opened)] > 0.5, "{route:?}");
            assert!(saved[&(route, Session::Series)] > 0.05, "{route:?}");
        }
        assert!(saved[&(route, Session::New)] > -0.1, "{route:?}");
    }
}
