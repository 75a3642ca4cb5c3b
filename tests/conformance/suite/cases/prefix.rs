//! The prefix cache: which tokens of a prompt are computed and which are reused.

use transom_engine::{Role, Trim, Truncation};

use crate::process::{TestProcess, limits};
use crate::request::{TestRequest, n_shared, tiny_chat_tokens, tiny_tokens};
use crate::subject::Subject;

const SYSTEM: (Role, &str) = (Role::System, "You are brief and kind.");
const FIRST: (Role, &str) = (Role::User, "What is the tallest mountain on Earth?");
const SECOND: (Role, &str) = (Role::User, "And the deepest lake?");

pub(crate) async fn the_prefill_chunk_does_not_change_the_text(subject: &Subject) {
    let tokens: Vec<u32> = (0..300_u32).map(|n| (n * n + n / 3) % 250).collect();
    let request = TestRequest::tokens(tokens).max_tokens(16);
    let mut process = TestProcess::tiny(subject).await;
    let expected = process.text(&request).await;
    for chunk in [1, 7, 64, 299, 300, 5000] {
        process.trim(Trim::Everything).await;
        let in_steps = request
            .clone()
            .params(|params| params.prefill_chunk = Some(chunk));
        let response = process.generate(&in_steps).await;
        assert_eq!(response.started().cached_tokens, 0);
        assert_eq!(response.full_text(), expected, "in steps of {chunk}");
        // A slow reader misses some steps, but every step that it gets ends at a multiple of the
        // chunk.
        let step = chunk.min(subject.max_prefill);
        let ends = response.prefill.iter();
        let unusual: Vec<_> = ends
            .filter(|done| **done != 300 && **done % step != 0)
            .collect();
        assert!(unusual.is_empty(), "steps of {step} ended at {unusual:?}");
    }
    process.shut_down().await;
    let small = transom_engine::Limits {
        prefill_chunk: 32,
        ..limits(8192)
    };
    let mut process = TestProcess::with(subject, &subject.tiny, &small).await;
    let in_steps = request
        .clone()
        .params(|params| params.prefill_chunk = Some(100));
    let response = process.generate(&in_steps).await;
    assert_eq!(response.full_text(), expected);
    let ends: Vec<_> = response
        .prefill
        .iter()
        .filter(|done| **done % 32 != 0)
        .collect();
    assert_eq!(ends, [&300], "steps longer than the load allowed");
    process.shut_down().await;
}

pub(crate) async fn a_second_turn_computes_only_new_tokens(subject: &Subject) {
    for model in [&subject.tiny, &subject.starter] {
        let mut process = TestProcess::with(subject, model, &limits(8192)).await;
        let first = process.generate(&TestRequest::chat(&[SYSTEM, FIRST])).await;
        let reply = first.text();
        let turns = [SYSTEM, FIRST, (Role::Assistant, reply.as_str()), SECOND];
        let second = TestRequest::chat(&turns);
        let response = process.generate(&second).await;
        let cached = response.started().cached_tokens;
        let before = first.started().prompt_tokens;
        assert!(
            cached + subject.reuse_slack >= before,
            "{cached} of {before}"
        );
        let again = process.generate(&second).await;
        let prompt_tokens = again.started().prompt_tokens;
        let cached = again.started().cached_tokens;
        assert!(
            cached + 1 + subject.reuse_slack >= prompt_tokens,
            "{cached} of {prompt_tokens}"
        );
        process.shut_down().await;

        let mut fresh = TestProcess::with(subject, model, &limits(8192)).await;
        let expected = fresh.text(&second).await;
        assert_eq!(response.full_text(), expected, "with a cached prefix");
        assert_eq!(again.full_text(), expected, "with all of it cached");
        fresh.shut_down().await;
    }
}

/// The tokens of the response are cached too, except the last one, after which nothing was
/// computed.
pub(crate) async fn tokens_of_the_response_are_not_computed_again(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let a = tiny_tokens(subject, "a")[0];
    let say_a =
        |request: TestRequest| request.sampling(|sampling| sampling.logit_bias = vec![(a, 1e6)]);
    let first = process
        .generate(&say_a(TestRequest::chat(&[SYSTEM, FIRST])))
        .await;
    let reply = first.text();
    assert_eq!(reply, "a".repeat(24));
    let second = say_a(TestRequest::chat(&[
        SYSTEM,
        FIRST,
        (Role::Assistant, &reply),
        SECOND,
    ]));
    let response = process.generate(&second).await;
    let cached = response.started().cached_tokens;
    let known = first.started().prompt_tokens + 24;
    assert!(cached < known + 1, "{cached} cached of {known} known");
    assert!(
        cached + 1 + subject.reuse_slack >= known,
        "{cached} cached of {known} known"
    );
    process.shut_down().await;
}

pub(crate) async fn a_refused_request_keeps_the_cached_prefix(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &limits(512)).await;
    let first = TestRequest::chat(&[SYSTEM, FIRST]);
    let n_first = process.generate(&first).await.started().prompt_tokens;
    let invalid = first
        .clone()
        .sampling(|sampling| sampling.logit_bias = vec![(9999, 1.0)]);
    process.generate(&invalid).await.error();
    process
        .generate(&TestRequest::user(&"too long ".repeat(100)))
        .await
        .error();
    process.generate(&TestRequest::chat(&[])).await.error();
    let cached = process.generate(&first).await.started().cached_tokens;
    assert!(
        cached + 1 + subject.reuse_slack >= n_first,
        "{cached} of {n_first}"
    );
    process.shut_down().await;
}

pub(crate) async fn an_edited_message_is_reused_up_to_the_edit(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let edited = (Role::User, "What is the tallest building on Earth?");
    let reply = (Role::Assistant, "It depends.");
    let before = [SYSTEM, FIRST, reply, SECOND];
    let after = [SYSTEM, edited, reply, SECOND];
    process.text(&TestRequest::chat(&before)).await;
    let response = process.generate(&TestRequest::chat(&after)).await;
    let shared = n_shared(
        &tiny_chat_tokens(subject, &before),
        &tiny_chat_tokens(subject, &after),
    );
    let cached = response.started().cached_tokens;
    assert!(
        cached <= shared,
        "{cached} cached, but only {shared} are shared"
    );
    assert!(
        cached + subject.reuse_slack >= shared,
        "{cached} of {shared}"
    );
    process.shut_down().await;
    let mut fresh = TestProcess::tiny(subject).await;
    assert_eq!(
        fresh.text(&TestRequest::chat(&after)).await,
        response.full_text()
    );
    fresh.shut_down().await;
}

/// Conversations in turn get the same responses as in separate processes. Only tokens of the shared
/// prefix may be reused.
pub(crate) async fn another_conversation_gets_the_response_of_a_new_process(subject: &Subject) {
    let long = "The boat went out at dawn. ".repeat(8);
    let turns = [
        vec![SYSTEM, FIRST],
        vec![(Role::User, long.as_str())],
        vec![SYSTEM, SECOND],
    ];
    let mut expected = Vec::new();
    for turns in &turns {
        let mut fresh = TestProcess::tiny(subject).await;
        expected.push(fresh.text(&TestRequest::chat(turns)).await);
        fresh.shut_down().await;
    }
    let mut process = TestProcess::tiny(subject).await;
    let mut before: Vec<u32> = Vec::new();
    for which in [0, 1, 0, 2, 1, 2, 0] {
        let response = process.generate(&TestRequest::chat(&turns[which])).await;
        assert_eq!(response.full_text(), expected[which]);
        let tokens = tiny_chat_tokens(subject, &turns[which]);
        let shared = n_shared(&before, &tokens);
        let cached = response.started().cached_tokens;
        assert!(
            cached <= shared,
            "{cached} cached, but only {shared} are shared"
        );
        before = tokens;
    }
    process.shut_down().await;
}

pub(crate) async fn the_oldest_exchanges_are_dropped_when_the_context_is_full(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &limits(256)).await;
    let drop_oldest = |affordable| Truncation::DropOldest {
        response_tokens: 32,
        context_limit: affordable,
    };
    let mut turns = vec![SYSTEM];
    for _ in 0..6 {
        turns.extend([FIRST, (Role::Assistant, "I would rather not say.")]);
    }
    turns.push(SECOND);
    // A cut keeps 60 %; below a limit, the newest exchange may have more.
    for (affordable, n_most) in [(None, (256 - 32) * 60 / 100), (Some(150), 150 - 32)] {
        let response = process
            .generate(&TestRequest::chat(&turns).truncation(drop_oldest(affordable)))
            .await;
        let started = response.started();
        assert!(started.dropped_messages > 0 && started.dropped_messages % 2 == 0);
        assert!(started.prompt_tokens <= n_most, "{started:?}");
        let mut kept = vec![SYSTEM];
        kept.extend(&turns[1 + started.dropped_messages..]);
        let tokens = tiny_chat_tokens(subject, &kept);
        assert_eq!(
            started.prompt_tokens,
            tokens.len(),
            "other messages were kept"
        );
        let mut fresh = TestProcess::with(subject, &subject.tiny, &limits(256)).await;
        assert_eq!(
            fresh.text(&TestRequest::chat(&kept)).await,
            response.full_text()
        );
        fresh.shut_down().await;
    }
    let whole = process
        .generate(&TestRequest::chat(&[SYSTEM, SECOND]).truncation(drop_oldest(None)))
        .await;
    assert_eq!(whole.started().dropped_messages, 0);
    process.shut_down().await;
}
