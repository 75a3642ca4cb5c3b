//! Several conversations in memory: what each continues from, and what they may use.

use std::path::Path;

use transom_engine::{ConversationId, Limits, Role, Trim};

use super::saved_state::{saved_folder, start_saving};
use crate::process::{TestProcess, limits};
use crate::request::{TestRequest, n_shared, tiny_chat_tokens};
use crate::subject::Subject;

/// Enough for all conversations of a case.
const AMPLE: u64 = 64 << 20;

const SYSTEM: (Role, &str) = (
    Role::System,
    "You are brief and kind, and you know a little of every country.",
);
const FIRST: (Role, &str) = (Role::User, "What is the tallest mountain on Earth?");
const SECOND: (Role, &str) = (Role::User, "And the deepest lake?");
const OTHER: (Role, &str) = (
    Role::User,
    "Name three colors of autumn leaves, a tree for each of them, the month in which its leaves \
     turn, and a country that has many of these trees.",
);

type Turns<'a> = Vec<(Role, &'a str)>;

fn parking(context_length: usize, parked_bytes: u64) -> Limits {
    Limits {
        parked_bytes,
        ..limits(context_length)
    }
}

/// Returns the request of `turns` in the conversation `number`.
fn chat(number: u64, turns: &[(Role, &str)]) -> TestRequest {
    of_conversation(number, TestRequest::chat(turns))
}

fn of_conversation(number: u64, request: TestRequest) -> TestRequest {
    request.params(|params| params.conversation = Some(ConversationId(number)))
}

/// Returns the second turn of the conversation that starts with `first` and this reply.
fn second<'a>(first: &[(Role, &'a str)], reply: &'a str) -> Turns<'a> {
    [first, &[(Role::Assistant, reply), SECOND]].concat()
}

/// Returns the response of a new process.
async fn fresh_text(subject: &Subject, path: &Path, turns: &[(Role, &str)]) -> String {
    let mut process = TestProcess::with(subject, path, &limits(8192)).await;
    let text = process.text(&TestRequest::chat(turns)).await;
    process.shut_down().await;
    text
}

/// Continues two conversations in turn, each of which needs prefill only for its new tokens.
pub(crate) async fn a_conversation_continues_after_another_one(subject: &Subject) {
    for model in [&subject.tiny, &subject.starter] {
        let mut process = TestProcess::with(subject, model, &parking(8192, AMPLE)).await;
        let starts = [vec![SYSTEM, FIRST], vec![OTHER]];
        let mut replies = Vec::new();
        for (number, turns) in (1..).zip(&starts) {
            let response = process.generate(&chat(number, turns)).await;
            let before = response.started().prompt_tokens;
            replies.push((before, response.text()));
        }
        for ((number, turns), (before, reply)) in (1..).zip(&starts).zip(&replies) {
            let turns = second(turns, reply);
            let response = process.generate(&chat(number, &turns)).await;
            let cached = response.started().cached_tokens;
            assert!(
                cached + subject.reuse_slack >= *before,
                "{cached} of {before}"
            );
            let expected = fresh_text(subject, model, &turns).await;
            assert_eq!(response.full_text(), expected, "conversation {number}");
        }
        process.shut_down().await;
    }
}

/// The former conversation stays as it was, whatever the new one adds to the shared tokens.
pub(crate) async fn a_new_conversation_computes_only_what_is_not_shared(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &parking(8192, AMPLE)).await;
    let (first, other) = (vec![SYSTEM, FIRST], vec![SYSTEM, OTHER]);
    let response = process.generate(&chat(1, &first)).await;
    let (before, reply) = (response.started().prompt_tokens, response.text());
    let response = process.generate(&chat(2, &other).max_tokens(300)).await;
    let shared = n_shared(
        &tiny_chat_tokens(subject, &first),
        &tiny_chat_tokens(subject, &other),
    );
    let cached = response.started().cached_tokens;
    assert!(cached <= shared, "{cached} of {shared}");
    assert!(
        cached + subject.reuse_slack >= shared,
        "{cached} of {shared}"
    );
    let next = second(&first, &reply);
    let response = process.generate(&chat(1, &next)).await;
    let cached = response.started().cached_tokens;
    assert!(
        cached + subject.reuse_slack >= before,
        "{cached} of {before}"
    );
    process.shut_down().await;
    let expected = fresh_text(subject, &subject.tiny, &next).await;
    assert_eq!(response.full_text(), expected);
}

pub(crate) async fn an_edited_message_rewinds_its_own_conversation(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &parking(8192, AMPLE)).await;
    let reply = (Role::Assistant, "It depends on how one measures.");
    let before = [SYSTEM, FIRST, reply, SECOND];
    let after = [SYSTEM, OTHER, reply, SECOND];
    process.text(&chat(1, &before)).await;
    let edited = process.generate(&chat(1, &after)).await;
    assert_eq!(edited.summary().memory.parked_bytes, 0);
    let shared = n_shared(
        &tiny_chat_tokens(subject, &before),
        &tiny_chat_tokens(subject, &after),
    );
    let again = process.generate(&chat(1, &before)).await;
    let cached = again.started().cached_tokens;
    assert!(cached <= shared, "{cached} of {shared}");
    process.shut_down().await;
    for (response, turns) in [(edited, after), (again, before)] {
        let expected = fresh_text(subject, &subject.tiny, &turns).await;
        assert_eq!(response.full_text(), expected);
    }
}

/// Fills the context with six conversations that share some tokens, and returns to two of them.
pub(crate) async fn other_conversations_stay_within_their_limit(subject: &Subject) {
    const SHARED: u32 = 100;
    for parked_bytes in [0, 1, 200_000, AMPLE] {
        let limits = parking(512, parked_bytes);
        let mut process = TestProcess::start(subject);
        let need = process.measure(&subject.tiny, &limits).await.unwrap();
        assert_eq!(need.parked_bytes, parked_bytes);
        process.load(&subject.tiny, &limits).await.unwrap();
        for (step, number) in [0, 1, 2, 3, 4, 1, 0, 5].into_iter().enumerate() {
            let own = number * 31 + 1;
            let tokens = (0..460_u32).map(|n| match n {
                ..SHARED => n,
                _ => (n * 7 + own) % 250,
            });
            let request = TestRequest::tokens(tokens).endless();
            let response = process
                .generate(&of_conversation(number.into(), request))
                .await;
            let memory = response.summary().memory;
            let both = format!("{memory:?} {need:?}");
            assert!(memory.parked_bytes <= parked_bytes, "{both}");
            assert!(memory.kv_cache_bytes <= need.kv_cache_bytes, "{both}");
            let most = need.total_bytes() + subject.extra_peak_bytes;
            assert!(memory.peak_bytes <= most, "{both}");
            let cached = response.started().cached_tokens;
            let is_known = matches!(step, 5 | 6);
            match parked_bytes {
                AMPLE if is_known => assert!(cached + 1 + subject.reuse_slack >= 460, "{cached}"),
                0 | 1 => assert!(cached <= SHARED as usize, "{cached} in step {step}"),
                _ => {}
            }
        }
        process.shut_down().await;
    }
}

pub(crate) async fn a_trim_drops_other_conversations(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &parking(8192, AMPLE)).await;
    let (first, other) = (vec![SYSTEM, FIRST], vec![OTHER]);
    let first_reply = process.generate(&chat(1, &first)).await.text();
    let last = process.generate(&chat(2, &other)).await;
    let (before, reply) = (last.started().prompt_tokens, last.text());
    let (_, memory) = process.trim(Trim::KeepConversation).await;
    assert_eq!(memory.parked_bytes, 0);
    let response = process.generate(&chat(2, &second(&other, &reply))).await;
    let cached = response.started().cached_tokens;
    assert!(
        cached + subject.reuse_slack >= before,
        "{cached} of {before}"
    );
    let response = process
        .generate(&chat(1, &second(&first, &first_reply)))
        .await;
    let cached = response.started().cached_tokens;
    let shared = n_shared(
        &tiny_chat_tokens(subject, &first),
        &tiny_chat_tokens(subject, &other),
    );
    assert!(cached <= shared, "{cached} of {shared}");
    process.shut_down().await;
}

pub(crate) async fn every_conversation_is_saved(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let mut saved = saved_folder(folder.path());
    let limits = parking(1024, AMPLE);
    let mut process = start_saving(subject, &subject.tiny, &limits, &saved).await;
    let (first, other) = (vec![SYSTEM, FIRST], vec![OTHER]);
    let response = process.generate(&chat(1, &first)).await;
    let (before, reply) = (response.started().prompt_tokens, response.text());
    process.text(&chat(2, &other)).await;
    let next = second(&first, &reply);
    process.text(&chat(1, &next).max_tokens(1)).await;
    process.unload_to(&mut saved).await;
    process.shut_down().await;
    let n_saved = match subject.saves_state.is_supported() {
        true => 2,
        false => 0,
    };
    assert_eq!(saved.conversations.len(), n_saved);
    let mut process = start_saving(subject, &subject.tiny, &limits, &saved).await;
    process.text(&chat(2, &other)).await;
    let response = process.generate(&chat(1, &next)).await;
    let cached = response.started().cached_tokens;
    match subject.saves_state.is_supported() {
        true => assert!(
            cached + subject.reuse_slack > before,
            "{cached} of {before}"
        ),
        false => assert_eq!(cached, 0),
    }
    process.shut_down().await;
    let expected = fresh_text(subject, &subject.tiny, &next).await;
    assert_eq!(response.full_text(), expected);
}
