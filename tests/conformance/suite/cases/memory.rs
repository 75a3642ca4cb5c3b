//! Memory: measured need, reported use, and what trims free.

use transom_engine::{KvCacheChoice, Limits, Role, TokenEvent, Trim};
use transom_engine_host::wire::Command;

use crate::process::{TestProcess, limits};
use crate::request::TestRequest;
use crate::subject::{Subject, Support};

const FIRST: &str = "Name three colours of autumn leaves, and say why they turn.";

/// Returns the request of the second turn, after the response `reply` to `FIRST`.
fn second(reply: &str) -> TestRequest {
    TestRequest::chat(&[
        (Role::User, FIRST),
        (Role::Assistant, reply),
        (Role::User, "Go on."),
    ])
}

pub(crate) async fn a_trim_keeps_the_cached_prefix(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let first = process.generate(&TestRequest::user(FIRST)).await;
    let before = first.summary().memory;
    let (bytes, after) = process.trim(Trim::KeepConversation).await;
    assert_eq!(after.weight_bytes, before.weight_bytes);
    assert_eq!(after.kv_cache_bytes, before.kv_cache_bytes);
    assert!(after.allocator_cache_bytes <= before.allocator_cache_bytes);
    let given = before.allocator_cache_bytes - after.allocator_cache_bytes;
    assert!(bytes >= given, "{bytes} reported, {given} freed");
    let next = process.generate(&second(&first.text())).await;
    let cached = next.started().cached_tokens;
    assert!(cached + subject.reuse_slack >= first.started().prompt_tokens);
    process.shut_down().await;
}

pub(crate) async fn a_trim_of_everything_frees_the_kv_cache(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let first = process.generate(&TestRequest::user(FIRST)).await;
    let next = second(&first.text());
    let with = process.text(&next).await;
    let (_, before) = process.trim(Trim::KeepConversation).await;
    assert!(before.kv_cache_bytes > 0);
    let (bytes, after) = process.trim(Trim::Everything).await;
    assert!(bytes >= before.kv_cache_bytes, "{bytes} of {before:?}");
    assert_eq!(after.kv_cache_bytes, 0);
    assert_eq!(after.weight_bytes, before.weight_bytes);
    let (nothing, _) = process.trim(Trim::Everything).await;
    assert_eq!(nothing, 0, "freed twice");
    let response = process.generate(&next).await;
    assert_eq!(response.started().cached_tokens, 0);
    assert_eq!(response.full_text(), with);
    process.shut_down().await;
}

pub(crate) async fn a_trim_does_not_change_a_running_response(subject: &Subject) {
    let request = TestRequest::text("On and on").endless().max_tokens(400);
    let mut process = TestProcess::tiny(subject).await;
    let expected = process.text(&request).await;
    for trim in [Trim::KeepConversation, Trim::Everything] {
        process.start_job(&request);
        process
            .until(|event| matches!(event, TokenEvent::Text { .. }))
            .await;
        process.send(Command::Trim { trim });
        let response = process.response().await;
        assert_eq!(response.stats().generated_tokens, 400);
        assert_eq!(response.full_text(), expected);
        process.trim_result().await;
    }
    process.shut_down().await;
}

/// Checks weights, KV cache and peak of a response that fills the context to its last token.
pub(crate) async fn a_full_context_stays_within_the_measured_need(subject: &Subject) {
    for context_length in [256, 2048] {
        let mut process = TestProcess::start(subject);
        let limits = limits(context_length);
        let need = process.measure(&subject.tiny, &limits).await.unwrap();
        process.load(&subject.tiny, &limits).await.unwrap();
        assert_eq!(need.context_length, context_length);
        let prompt = (0..context_length as u32 - 40).map(|n| n * 5 % 250);
        let request = TestRequest::tokens(prompt).endless().seeded(1.0, 1);
        let response = process.generate(&request).await;
        assert_eq!(response.stats().generated_tokens, 40);
        let memory = response.summary().memory;
        let both = format!("{memory:?} {need:?}");
        // Each small tensor of a tiny model uses slightly more than its bytes.
        let rounding = need.weight_bytes / 50;
        assert!(
            memory.weight_bytes <= need.weight_bytes + rounding,
            "{both}"
        );
        assert!(memory.kv_cache_bytes <= need.kv_cache_bytes, "{both}");
        assert!(memory.allocator_cache_bytes <= need.cache_bytes, "{both}");
        let most = need.total_bytes() + subject.extra_peak_bytes;
        assert!(memory.peak_bytes <= most, "{both}");
        let least = memory.weight_bytes + memory.kv_cache_bytes;
        assert!(memory.peak_bytes >= least, "{both}");
        process.shut_down().await;
    }
}

pub(crate) async fn a_small_kv_cache_needs_no_more_than_the_default(subject: &Subject) {
    let mut process = TestProcess::start(subject);
    let usual = process
        .measure(&subject.starter, &limits(2048))
        .await
        .unwrap();
    let small_limits = Limits {
        kv_cache: KvCacheChoice::Small,
        ..limits(2048)
    };
    let small = process
        .measure(&subject.starter, &small_limits)
        .await
        .unwrap();
    assert!(small.total_bytes() <= usual.total_bytes());
    match subject.has_small_kv_cache {
        Support::Yes => assert!(small.kv_cache_bytes < usual.kv_cache_bytes),
        Support::No(_) => assert_eq!(small, usual),
    }
    let full_limits = Limits {
        kv_cache: KvCacheChoice::Full,
        ..limits(2048)
    };
    let full = process
        .measure(&subject.starter, &full_limits)
        .await
        .unwrap();
    assert!(full.total_bytes() >= usual.total_bytes());
    process.load(&subject.starter, &small_limits).await.unwrap();
    let response = process
        .generate(&TestRequest::user(FIRST).max_tokens(12))
        .await;
    assert!(response.summary().memory.kv_cache_bytes <= small.kv_cache_bytes);
    assert!(!response.text().contains('\u{fffd}'), "{}", response.text());
    process.shut_down().await;
}
