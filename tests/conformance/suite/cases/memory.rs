//! What a model takes, what it says that it takes, and what it gives back.

use transom_engine::{KvCacheChoice, Limits, Role, TokenEvent, Trim};
use transom_engine_host::wire::Command;

use crate::ask::Ask;
use crate::subject::{Declared, Subject};
use crate::talk::{Talk, limits};

const FIRST: &str = "Name three colours of autumn leaves, and say why they turn.";

/// The second turn after `FIRST` was answered with `said`.
fn second(said: &str) -> Ask {
    Ask::chat(&[
        (Role::User, FIRST),
        (Role::Assistant, said),
        (Role::User, "Go on."),
    ])
}

pub(crate) async fn a_trim_keeps_the_conversation(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let first = talk.ask(&Ask::user(FIRST)).await;
    let before = first.summary().memory;
    let (bytes, after) = talk.trim(Trim::KeepConversation).await;
    assert_eq!(after.weight_bytes, before.weight_bytes);
    assert_eq!(after.kv_cache_bytes, before.kv_cache_bytes);
    assert!(after.allocator_cache_bytes <= before.allocator_cache_bytes);
    let given = before.allocator_cache_bytes - after.allocator_cache_bytes;
    assert!(bytes >= given, "{bytes} told, {given} given");
    let next = talk.ask(&second(&first.text())).await;
    let cached = next.started().cached_tokens;
    assert!(cached + subject.reuse_slack >= first.started().prompt_tokens);
    talk.leave().await;
}

/// D047, D048
pub(crate) async fn a_trim_of_everything_forgets_the_conversation(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let first = talk.ask(&Ask::user(FIRST)).await;
    let next = second(&first.text());
    let with = talk.text(&next).await;
    let (_, before) = talk.trim(Trim::KeepConversation).await;
    assert!(before.kv_cache_bytes > 0);
    let (bytes, after) = talk.trim(Trim::Everything).await;
    assert!(bytes >= before.kv_cache_bytes, "{bytes} of {before:?}");
    assert_eq!(after.kv_cache_bytes, 0);
    assert_eq!(after.weight_bytes, before.weight_bytes);
    let (nothing, _) = talk.trim(Trim::Everything).await;
    assert_eq!(nothing, 0, "given back twice");
    let answer = talk.ask(&next).await;
    assert_eq!(answer.started().cached_tokens, 0);
    assert_eq!(answer.everything(), with);
    talk.leave().await;
}

pub(crate) async fn a_trim_in_mid_answer_changes_nothing_of_it(subject: &Subject) {
    let ask = Ask::text("On and on").endless().max_tokens(400);
    let mut talk = Talk::tiny(subject).await;
    let expected = talk.text(&ask).await;
    for trim in [Trim::KeepConversation, Trim::Everything] {
        talk.begin(&ask);
        talk.until(|event| matches!(event, TokenEvent::Text { .. }))
            .await;
        talk.send(Command::Trim { trim });
        let answer = talk.answer().await;
        assert_eq!(answer.stats().generated_tokens, 400);
        assert_eq!(answer.everything(), expected);
        talk.trimmed().await;
    }
    talk.leave().await;
}

/// Weights, keys and values, and the peak of an answer that fills the context to its last token.
pub(crate) async fn a_full_context_stays_within_what_was_measured(subject: &Subject) {
    for context_length in [256, 2048] {
        let mut talk = Talk::start(subject);
        let limits = limits(context_length);
        let need = talk.measure(&subject.tiny, &limits).await.unwrap();
        talk.load(&subject.tiny, &limits).await.unwrap();
        assert_eq!(need.context_length, context_length);
        let prompt = (0..context_length as u32 - 40).map(|n| n * 5 % 250);
        let ask = Ask::tokens(prompt).endless().seeded(1.0, 1);
        let answer = talk.ask(&ask).await;
        assert_eq!(answer.stats().generated_tokens, 40);
        let memory = answer.summary().memory;
        let both = format!("{memory:?} {need:?}");
        // Each small tensor of a tiny model takes a little more than its bytes.
        let rounding = need.weight_bytes / 50;
        assert!(
            memory.weight_bytes <= need.weight_bytes + rounding,
            "{both}"
        );
        assert!(memory.kv_cache_bytes <= need.kv_cache_bytes, "{both}");
        assert!(memory.allocator_cache_bytes <= need.cache_bytes, "{both}");
        let most = need.total_bytes() + subject.beside_bytes;
        assert!(memory.peak_bytes <= most, "{both}");
        let least = memory.weight_bytes + memory.kv_cache_bytes;
        assert!(memory.peak_bytes >= least, "{both}");
        talk.leave().await;
    }
}

pub(crate) async fn a_small_kv_cache_needs_no_more_than_the_usual(subject: &Subject) {
    let mut talk = Talk::start(subject);
    let usual = talk.measure(&subject.starter, &limits(2048)).await.unwrap();
    let small_limits = Limits {
        kv_cache: KvCacheChoice::Small,
        ..limits(2048)
    };
    let small = talk.measure(&subject.starter, &small_limits).await.unwrap();
    assert!(small.total_bytes() <= usual.total_bytes());
    match subject.has_small_kv_cache {
        Declared::Does => assert!(small.kv_cache_bytes < usual.kv_cache_bytes),
        Declared::DoesNot(_) => assert_eq!(small, usual),
    }
    let full_limits = Limits {
        kv_cache: KvCacheChoice::Full,
        ..limits(2048)
    };
    let full = talk.measure(&subject.starter, &full_limits).await.unwrap();
    assert!(full.total_bytes() >= usual.total_bytes());
    talk.load(&subject.starter, &small_limits).await.unwrap();
    let answer = talk.ask(&Ask::user(FIRST).max_tokens(12)).await;
    assert!(answer.summary().memory.kv_cache_bytes <= small.kv_cache_bytes);
    assert!(!answer.text().contains('\u{fffd}'), "{}", answer.text());
    talk.leave().await;
}
