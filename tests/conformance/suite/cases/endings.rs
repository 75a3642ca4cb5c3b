//! How responses end by themselves.

use transom_engine::{FinishReason, Role};

use crate::process::{TestProcess, limits};
use crate::request::{TestRequest, tiny_chat_tokens, tiny_tokens};
use crate::subject::{Subject, Support};

pub(crate) async fn a_response_ends_at_its_token_limit(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    for n_tokens in [1, 2, 17] {
        let request = TestRequest::text("hello").endless().max_tokens(n_tokens);
        let response = process.generate(&request).await;
        assert_eq!(response.reason(), FinishReason::Length);
        assert_eq!(response.stats().generated_tokens, n_tokens);
    }
    process.shut_down().await;
}

pub(crate) async fn a_response_ends_at_the_end_of_text_token(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let reply = tiny_tokens(subject, "ab<|im_end|>c");
    let request = TestRequest::text("0").forcing(&reply);
    let response = process.generate(&request).await;
    assert_eq!(response.reason(), FinishReason::Stop);
    assert_eq!(response.text(), "ab");
    assert_eq!(
        response.stats().generated_tokens,
        2,
        "the end-of-text token is not counted"
    );
    let past = request.params(|params| params.ignore_end_of_text = true);
    let response = process.generate(&past).await;
    assert_eq!(response.reason(), FinishReason::Length);
    assert_eq!(response.text(), "abc");
    // Only the end-of-text token.
    let response = process
        .generate(&TestRequest::text("0").forcing(&reply[2..3]))
        .await;
    assert_eq!(response.reason(), FinishReason::Stop);
    assert_eq!(response.text(), "");
    assert_eq!(response.stats().generated_tokens, 0);
    process.shut_down().await;
}

pub(crate) async fn a_full_context_ends_the_response(subject: &Subject) {
    let mut process = TestProcess::with(subject, &subject.tiny, &limits(64)).await;
    for n_prompt in [10, 62, 63] {
        let response = process
            .generate(&TestRequest::tokens(20..20 + n_prompt).endless())
            .await;
        assert_eq!(response.reason(), FinishReason::Length);
        let generated = response.stats().generated_tokens;
        assert_eq!(generated, 64 - n_prompt as usize);
    }
    process.shut_down().await;
}

/// The shift keeps the system prompt, which the next conversation finds in the cache.
pub(crate) async fn a_full_context_is_shifted_if_the_engine_supports_it(subject: &Subject) {
    const CONTEXT_LENGTH: usize = 256;
    let mut process = TestProcess::with(subject, &subject.tiny, &limits(CONTEXT_LENGTH)).await;
    let system = (Role::System, "Answer in rhymes, and mind the metre.");
    let request = TestRequest::chat(&[system, (Role::User, "Tell me of the sea.")]);
    let request = request.endless().max_tokens(600);
    let request = request.params(|params| params.shift_context = true);
    let response = process.generate(&request).await;
    let stats = response.stats();
    assert_eq!(response.reason(), FinishReason::Length);
    match subject.shifts_context {
        Support::Yes => {
            assert_eq!(stats.generated_tokens, 600);
            let least = stats.prompt_tokens + 600 - CONTEXT_LENGTH;
            assert!(stats.shifted_tokens >= least, "{stats:?}");
            assert!(stats.shifted_tokens < stats.prompt_tokens + 600);
            let kept = tiny_tokens(subject, &format!("<|im_start|>system\n{}", system.1)).len();
            let next = TestRequest::chat(&[system, (Role::User, "Now of the hills.")]);
            let cached = process.generate(&next).await.started().cached_tokens;
            assert!(cached + subject.reuse_slack >= kept, "{cached} of {kept}");
        }
        Support::No(_) => {
            assert_eq!(stats.generated_tokens, CONTEXT_LENGTH - stats.prompt_tokens);
            assert_eq!(stats.shifted_tokens, 0);
        }
    }
    // Drafted tokens of repeated text are correct across shifts too.
    let a = tiny_tokens(subject, "a")[0];
    let request = TestRequest::text(&"a".repeat(100))
        .endless()
        .max_tokens(500);
    let request = request.params(|params| params.shift_context = true);
    let request = request.sampling(|sampling| sampling.logit_bias = vec![(a, 1e6)]);
    let reply = process.text(&request).await;
    assert_eq!(reply, "a".repeat(reply.len()));
    assert_eq!(reply.len() == 500, subject.shifts_context.is_supported());
    // Nearly all of the context is the prompt, so half of it is dropped repeatedly.
    let request = TestRequest::tokens(5..250).endless().max_tokens(700);
    let request = request.params(|params| params.shift_context = true);
    let generated = process.generate(&request).await.stats().generated_tokens;
    match subject.shifts_context {
        Support::Yes => assert_eq!(generated, 700),
        Support::No(_) => assert_eq!(generated, CONTEXT_LENGTH - 245),
    }
    // A shift does not change the response to the next conversation.
    let other = TestRequest::user("And what of rivers?");
    let after = process.generate(&other).await;
    let n_tokens = tiny_chat_tokens(subject, &[(Role::User, "And what of rivers?")]).len();
    assert_eq!(after.started().prompt_tokens, n_tokens);
    process.shut_down().await;
    let mut fresh = TestProcess::with(subject, &subject.tiny, &limits(CONTEXT_LENGTH)).await;
    assert_eq!(fresh.text(&other).await, after.full_text());
    fresh.shut_down().await;
}
