//! What of a prompt is computed, and what is taken from the turn before.

use transom_engine::{Role, Trim, Truncation};

use crate::ask::{Ask, n_shared, tiny_chat_tokens, tiny_tokens};
use crate::subject::Subject;
use crate::talk::{Talk, limits};

const SYSTEM: (Role, &str) = (Role::System, "You are brief and kind.");
const FIRST: (Role, &str) = (Role::User, "What is the tallest mountain on Earth?");
const SECOND: (Role, &str) = (Role::User, "And the deepest lake?");

pub(crate) async fn prefill_in_any_steps_gives_the_same_text(subject: &Subject) {
    let tokens: Vec<u32> = (0..300_u32).map(|n| (n * n + n / 3) % 250).collect();
    let ask = Ask::tokens(tokens).max_tokens(16);
    let mut talk = Talk::tiny(subject).await;
    let expected = talk.text(&ask).await;
    for chunk in [1, 7, 64, 299, 300, 5000] {
        talk.trim(Trim::Everything).await;
        let in_steps = ask
            .clone()
            .params(|params| params.prefill_chunk = Some(chunk));
        let answer = talk.ask(&in_steps).await;
        assert_eq!(answer.started().cached_tokens, 0);
        assert_eq!(answer.everything(), expected, "in steps of {chunk}");
        // A slow reader misses steps, but never sees one that ends elsewhere.
        let ends = answer.prefill.iter();
        let odd: Vec<_> = ends
            .filter(|done| **done != 300 && **done % chunk != 0)
            .collect();
        assert!(odd.is_empty(), "steps of {chunk} ended at {odd:?}");
    }
    talk.leave().await;
    let small = transom_engine::Limits {
        prefill_chunk: 32,
        ..limits(8192)
    };
    let mut talk = Talk::with(subject, &subject.tiny, &small).await;
    let in_steps = ask
        .clone()
        .params(|params| params.prefill_chunk = Some(100));
    let answer = talk.ask(&in_steps).await;
    assert_eq!(answer.everything(), expected);
    let ends: Vec<_> = answer
        .prefill
        .iter()
        .filter(|done| **done % 32 != 0)
        .collect();
    assert_eq!(ends, [&300], "steps longer than the load allowed");
    talk.leave().await;
}

/// D039
pub(crate) async fn a_second_turn_computes_only_what_is_new(subject: &Subject) {
    for model in [&subject.tiny, &subject.starter] {
        let mut talk = Talk::with(subject, model, &limits(8192)).await;
        let first = talk.ask(&Ask::chat(&[SYSTEM, FIRST])).await;
        let said = first.text();
        let turns = [SYSTEM, FIRST, (Role::Assistant, said.as_str()), SECOND];
        let second = Ask::chat(&turns);
        let answer = talk.ask(&second).await;
        let cached = answer.started().cached_tokens;
        let before = first.started().prompt_tokens;
        assert!(
            cached + subject.reuse_slack >= before,
            "{cached} of {before}"
        );
        let again = talk.ask(&second).await;
        let prompt_tokens = again.started().prompt_tokens;
        let cached = again.started().cached_tokens;
        assert!(
            cached + 1 + subject.reuse_slack >= prompt_tokens,
            "{cached} of {prompt_tokens}"
        );
        talk.leave().await;

        let mut fresh = Talk::with(subject, model, &limits(8192)).await;
        let expected = fresh.text(&second).await;
        assert_eq!(answer.everything(), expected, "with a cached prefix");
        assert_eq!(again.everything(), expected, "with all of it cached");
        fresh.leave().await;
    }
}

/// The answer's own tokens are cached too, but for the last, which nothing was computed after.
pub(crate) async fn what_was_answered_is_not_computed_again(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let a = tiny_tokens(subject, "a")[0];
    let say_a = |ask: Ask| ask.sampling(|sampling| sampling.logit_bias = vec![(a, 1e6)]);
    let first = talk.ask(&say_a(Ask::chat(&[SYSTEM, FIRST]))).await;
    let said = first.text();
    assert_eq!(said, "a".repeat(24));
    let second = say_a(Ask::chat(&[
        SYSTEM,
        FIRST,
        (Role::Assistant, &said),
        SECOND,
    ]));
    let answer = talk.ask(&second).await;
    let cached = answer.started().cached_tokens;
    let known = first.started().prompt_tokens + 24;
    assert!(cached < known + 1, "{cached} cached of {known} known");
    assert!(
        cached + 1 + subject.reuse_slack >= known,
        "{cached} cached of {known} known"
    );
    talk.leave().await;
}

pub(crate) async fn a_refused_ask_leaves_the_conversation_cached(subject: &Subject) {
    let mut talk = Talk::with(subject, &subject.tiny, &limits(512)).await;
    let first = Ask::chat(&[SYSTEM, FIRST]);
    let n_first = talk.ask(&first).await.started().prompt_tokens;
    let wrong = first
        .clone()
        .sampling(|sampling| sampling.logit_bias = vec![(9999, 1.0)]);
    talk.ask(&wrong).await.error();
    talk.ask(&Ask::user(&"too long ".repeat(100))).await.error();
    talk.ask(&Ask::chat(&[])).await.error();
    let cached = talk.ask(&first).await.started().cached_tokens;
    assert!(
        cached + 1 + subject.reuse_slack >= n_first,
        "{cached} of {n_first}"
    );
    talk.leave().await;
}

pub(crate) async fn an_edited_message_is_reused_up_to_the_edit(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let edited = (Role::User, "What is the tallest building on Earth?");
    let said = (Role::Assistant, "It depends.");
    let before = [SYSTEM, FIRST, said, SECOND];
    let after = [SYSTEM, edited, said, SECOND];
    talk.text(&Ask::chat(&before)).await;
    let answer = talk.ask(&Ask::chat(&after)).await;
    let shared = n_shared(
        &tiny_chat_tokens(subject, &before),
        &tiny_chat_tokens(subject, &after),
    );
    let cached = answer.started().cached_tokens;
    assert!(
        cached <= shared,
        "{cached} cached, but only {shared} are shared"
    );
    assert!(
        cached + subject.reuse_slack >= shared,
        "{cached} of {shared}"
    );
    talk.leave().await;
    let mut fresh = Talk::tiny(subject).await;
    assert_eq!(fresh.text(&Ask::chat(&after)).await, answer.everything());
    fresh.leave().await;
}

/// A and B in turns, each as in a process of its own; the tokens of B's beginning that A shares
/// may be reused, and no others.
pub(crate) async fn another_conversation_is_answered_as_in_a_fresh_process(subject: &Subject) {
    let long = "The boat went out at dawn. ".repeat(8);
    let turns = [
        vec![SYSTEM, FIRST],
        vec![(Role::User, long.as_str())],
        vec![SYSTEM, SECOND],
    ];
    let mut expected = Vec::new();
    for turns in &turns {
        let mut fresh = Talk::tiny(subject).await;
        expected.push(fresh.text(&Ask::chat(turns)).await);
        fresh.leave().await;
    }
    let mut talk = Talk::tiny(subject).await;
    let mut before: Vec<u32> = Vec::new();
    for which in [0, 1, 0, 2, 1, 2, 0] {
        let answer = talk.ask(&Ask::chat(&turns[which])).await;
        assert_eq!(answer.everything(), expected[which]);
        let tokens = tiny_chat_tokens(subject, &turns[which]);
        let shared = n_shared(&before, &tokens);
        let cached = answer.started().cached_tokens;
        assert!(
            cached <= shared,
            "{cached} cached, but only {shared} are shared"
        );
        before = tokens;
    }
    talk.leave().await;
}

/// D038
pub(crate) async fn the_oldest_exchanges_go_when_a_conversation_outgrows_the_context(
    subject: &Subject,
) {
    let mut talk = Talk::with(subject, &subject.tiny, &limits(256)).await;
    let drop_oldest = |affordable| Truncation::DropOldest {
        response_tokens: 32,
        context_limit: affordable,
    };
    let mut turns = vec![SYSTEM];
    for _ in 0..6 {
        turns.extend([FIRST, (Role::Assistant, "I would rather not say.")]);
    }
    turns.push(SECOND);
    for (affordable, n_most) in [(None, 256 - 32), (Some(150), 150 - 32)] {
        let answer = talk
            .ask(&Ask::chat(&turns).fit(drop_oldest(affordable)))
            .await;
        let started = answer.started();
        assert!(started.dropped_messages > 0 && started.dropped_messages % 2 == 0);
        assert!(started.prompt_tokens <= n_most, "{started:?}");
        let mut kept = vec![SYSTEM];
        kept.extend(&turns[1 + started.dropped_messages..]);
        let tokens = tiny_chat_tokens(subject, &kept);
        assert_eq!(started.prompt_tokens, tokens.len(), "others were kept");
        let mut fresh = Talk::with(subject, &subject.tiny, &limits(256)).await;
        assert_eq!(fresh.text(&Ask::chat(&kept)).await, answer.everything());
        fresh.leave().await;
    }
    let whole = talk
        .ask(&Ask::chat(&[SYSTEM, SECOND]).fit(drop_oldest(None)))
        .await;
    assert_eq!(whole.started().dropped_messages, 0);
    talk.leave().await;
}
