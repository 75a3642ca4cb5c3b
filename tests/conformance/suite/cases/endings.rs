//! How answers end by themselves.

use transom_engine::{FinishReason, Role};

use crate::ask::{Ask, tiny_chat_tokens, tiny_tokens};
use crate::subject::{Declared, Subject};
use crate::talk::{Talk, limits};

pub(crate) async fn an_answer_ends_at_its_token_limit(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    for n_tokens in [1, 2, 17] {
        let ask = Ask::text("hello").endless().max_tokens(n_tokens);
        let answer = talk.ask(&ask).await;
        assert_eq!(answer.reason(), FinishReason::Length);
        assert_eq!(answer.stats().generated_tokens, n_tokens);
    }
    talk.leave().await;
}

pub(crate) async fn an_answer_ends_at_the_end_of_text_token(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let said = tiny_tokens(subject, "ab<|im_end|>c");
    let ask = Ask::text("0").saying(&said);
    let answer = talk.ask(&ask).await;
    assert_eq!(answer.reason(), FinishReason::Stop);
    assert_eq!(answer.text(), "ab");
    assert_eq!(
        answer.stats().generated_tokens,
        2,
        "its own end is not counted"
    );
    let past = ask.params(|params| params.ignore_end_of_text = true);
    let answer = talk.ask(&past).await;
    assert_eq!(answer.reason(), FinishReason::Length);
    assert_eq!(answer.text(), "abc");
    // Nothing but the end.
    let answer = talk.ask(&Ask::text("0").saying(&said[2..3])).await;
    assert_eq!(answer.reason(), FinishReason::Stop);
    assert_eq!(answer.text(), "");
    assert_eq!(answer.stats().generated_tokens, 0);
    talk.leave().await;
}

pub(crate) async fn a_full_context_ends_the_answer(subject: &Subject) {
    let mut talk = Talk::with(subject, &subject.tiny, &limits(64)).await;
    for n_prompt in [10, 62, 63] {
        let answer = talk.ask(&Ask::tokens(20..20 + n_prompt).endless()).await;
        assert_eq!(answer.reason(), FinishReason::Length);
        let generated = answer.stats().generated_tokens;
        assert_eq!(generated, 64 - n_prompt as usize);
    }
    talk.leave().await;
}

/// D037: what was forgotten is not the system prompt: the next conversation under it finds it cached.
pub(crate) async fn a_full_context_is_shifted_where_the_engine_can(subject: &Subject) {
    const CONTEXT_LENGTH: usize = 256;
    let mut talk = Talk::with(subject, &subject.tiny, &limits(CONTEXT_LENGTH)).await;
    let system = (Role::System, "Answer in rhymes, and mind the metre.");
    let ask = Ask::chat(&[system, (Role::User, "Tell me of the sea.")]);
    let ask = ask.endless().max_tokens(600);
    let ask = ask.params(|params| params.shift_context = true);
    let answer = talk.ask(&ask).await;
    let stats = answer.stats();
    assert_eq!(answer.reason(), FinishReason::Length);
    match subject.shifts_context {
        Declared::Does => {
            assert_eq!(stats.generated_tokens, 600);
            let least = stats.prompt_tokens + 600 - CONTEXT_LENGTH;
            assert!(stats.shifted_tokens >= least, "{stats:?}");
            assert!(stats.shifted_tokens < stats.prompt_tokens + 600);
            let kept = tiny_tokens(subject, &format!("<|im_start|>system\n{}", system.1)).len();
            let next = Ask::chat(&[system, (Role::User, "Now of the hills.")]);
            let cached = talk.ask(&next).await.started().cached_tokens;
            assert!(cached + subject.reuse_slack >= kept, "{cached} of {kept}");
        }
        Declared::DoesNot(_) => {
            assert_eq!(stats.generated_tokens, CONTEXT_LENGTH - stats.prompt_tokens);
            assert_eq!(stats.shifted_tokens, 0);
        }
    }
    // What repeats itself is guessed, across shifts too.
    let a = tiny_tokens(subject, "a")[0];
    let ask = Ask::text(&"a".repeat(100)).endless().max_tokens(500);
    let ask = ask.params(|params| params.shift_context = true);
    let ask = ask.sampling(|sampling| sampling.logit_bias = vec![(a, 1e6)]);
    let said = talk.text(&ask).await;
    assert_eq!(said, "a".repeat(said.len()));
    assert_eq!(said.len() == 500, subject.shifts_context.does());
    // Nearly all of the context is the prompt: half of it goes, again and again.
    let ask = Ask::tokens(5..250).endless().max_tokens(700);
    let ask = ask.params(|params| params.shift_context = true);
    let generated = talk.ask(&ask).await.stats().generated_tokens;
    match subject.shifts_context {
        Declared::Does => assert_eq!(generated, 700),
        Declared::DoesNot(_) => assert_eq!(generated, CONTEXT_LENGTH - 245),
    }
    // Whatever was shifted, the next conversation is answered as ever.
    let other = Ask::user("And what of rivers?");
    let after = talk.ask(&other).await;
    let n_tokens = tiny_chat_tokens(subject, &[(Role::User, "And what of rivers?")]).len();
    assert_eq!(after.started().prompt_tokens, n_tokens);
    talk.leave().await;
    let mut fresh = Talk::with(subject, &subject.tiny, &limits(CONTEXT_LENGTH)).await;
    assert_eq!(fresh.text(&other).await, after.everything());
    fresh.leave().await;
}
