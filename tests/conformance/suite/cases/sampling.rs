//! The sampling parameters mean the same in every engine.
//!
//! Engines round differently and the logits of the models are unknown. So these cases use biases
//! that are so large that the logits of the model vanish in f32 and f64 arithmetic, which makes the
//! results exact.

use transom_engine::SamplingParams;

use crate::process::TestProcess;
use crate::request::{TestRequest, tiny_tokens};
use crate::subject::Subject;

/// A bias in which logits vanish: the next f64 is 256 away, the next f32 [`ULP`] away.
const HUGE: f32 = (1_u64 << 60) as f32;

/// The distance from [`HUGE`] to the next f32.
const ULP: f32 = (1_u64 << 37) as f32;

/// Returns the token of each letter.
fn letters(subject: &Subject, letters: &str) -> Vec<u32> {
    let tokens = tiny_tokens(subject, letters);
    assert_eq!(tokens.len(), letters.len());
    tokens
}

fn count(text: &str, letter: char) -> usize {
    text.chars().filter(|c| *c == letter).count()
}

/// Checks a share within ten standard deviations. A wrong sampler is far outside.
fn assert_share(observed: usize, n: usize, expected: f64) {
    let spread = 10.0 * (n as f64 * expected * (1.0 - expected)).sqrt();
    let distance = (observed as f64 - n as f64 * expected).abs();
    assert!(
        distance <= spread.min(n as f64 / 8.0),
        "{observed} of {n}, not {expected}"
    );
}

pub(crate) async fn filters_that_leave_one_token_are_greedy(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let greedy = process.text(&TestRequest::text("hello")).await;
    let hot = TestRequest::text("hello").seeded(1.5, 7);
    let top_k = hot.clone().sampling(|sampling| sampling.top_k = 1);
    let top_p = hot.clone().sampling(|sampling| sampling.top_p = 1e-6);
    let min_p = hot.clone().sampling(|sampling| sampling.min_p = 1.0);
    for request in [top_k, top_p, min_p] {
        assert_eq!(
            process.text(&request).await,
            greedy,
            "{:?}",
            request.0.params.sampling
        );
    }
    let cold = TestRequest::text("hello").seeded(1e-6, 7);
    assert_eq!(process.text(&cold).await, greedy);
    assert_ne!(process.text(&hot).await, greedy);
    process.shut_down().await;
}

/// With the most extreme values of parameters, no overflow may select another token.
pub(crate) async fn extreme_parameters_give_the_most_likely_token(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let greedy = process.text(&TestRequest::text("hello")).await;
    let a = letters(subject, "a")[0];
    type Change = fn(&mut SamplingParams);
    let edges: [Change; 5] = [
        |sampling| sampling.temperature = f32::from_bits(1),
        |sampling| sampling.temperature = f32::MIN_POSITIVE,
        |sampling| sampling.top_p = f32::from_bits(1),
        |sampling| sampling.top_p = f32::MIN_POSITIVE,
        |sampling| {
            sampling.temperature = f32::MAX;
            sampling.top_k = 1;
        },
    ];
    for edge in edges {
        let request = TestRequest::text("hello")
            .seeded(1.0, u64::MAX)
            .sampling(edge);
        assert_eq!(
            process.text(&request).await,
            greedy,
            "{:?}",
            request.0.params.sampling
        );
    }
    let filters: [Change; 4] = [
        |_| {},
        |sampling| sampling.top_p = 0.95,
        |sampling| sampling.top_k = 5,
        |sampling| sampling.min_p = 0.5,
    ];
    for filter in filters {
        let request = TestRequest::text("hello")
            .seeded(1.0, 1)
            .endless()
            .max_tokens(8);
        let request = request.sampling(filter);
        let most = request.clone().sampling(|sampling| {
            sampling.logit_bias = vec![(a, f32::MAX), (a, f32::MAX)];
        });
        assert_eq!(
            process.text(&most).await,
            "aaaaaaaa",
            "{:?}",
            most.0.params.sampling
        );
        let all_but_one = request.sampling(|sampling| {
            let others = (0..272).filter(|token| *token != a);
            sampling.logit_bias = others.map(|token| (token, -f32::MAX)).collect();
        });
        assert_eq!(process.text(&all_but_one).await, "aaaaaaaa");
    }
    // More tokens than the vocabulary has.
    let request = TestRequest::text("hello").seeded(1.0, 9);
    let all = request
        .clone()
        .sampling(|sampling| sampling.top_k = usize::MAX);
    assert_eq!(process.text(&all).await, process.text(&request).await);
    // All tokens are equally likely, so only the length of the response is known.
    let flat = request.sampling(|sampling| sampling.temperature = f32::MAX);
    assert_eq!(
        process
            .generate(&flat.endless().max_tokens(30))
            .await
            .stats()
            .generated_tokens,
        30
    );
    process.shut_down().await;
}

pub(crate) async fn a_bias_bans_and_forces(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let [a, b] = letters(subject, "ab")[..] else {
        panic!("two tokens")
    };
    let biased = |bias: &[(u32, f32)]| {
        let request = TestRequest::text("hello").max_tokens(12);
        let request = request.params(|params| params.ignore_end_of_text = true);
        request.sampling(|sampling| sampling.logit_bias = bias.to_vec())
    };
    assert_eq!(process.text(&biased(&[(a, 100.0)])).await, "a".repeat(12));
    let hot = biased(&[(b, 200.0)]).seeded(1.0, 3);
    assert_eq!(process.text(&hot).await, "b".repeat(12));
    // The biases of a repeated id are added, so `a` loses here.
    let twice = biased(&[(a, 100.0), (b, 150.0), (a, -60.0)]);
    assert_eq!(process.text(&twice).await, "b".repeat(12));
    let banned = biased(&[(a, 200.0), (b, 100.0), (a, -1e9)]).seeded(2.0, 3);
    assert_eq!(process.text(&banned).await, "b".repeat(12));
    process.shut_down().await;
}

/// Of equal logits, the lowest token id is selected, whatever the order of the biases.
pub(crate) async fn ties_go_to_the_lower_token_id(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let tokens = letters(subject, "QMZ");
    let bias: Vec<(u32, f32)> = tokens.iter().map(|token| (*token, 1e30)).collect();
    let lowest = *tokens.iter().min().unwrap();
    assert_eq!(lowest, letters(subject, "M")[0]);
    let request = TestRequest::text("hello").max_tokens(6);
    let request = request.sampling(|sampling| sampling.logit_bias = bias);
    assert_eq!(process.text(&request).await, "MMMMMM");
    let drawn = request
        .seeded(1.0, 2)
        .sampling(|sampling| sampling.top_k = 1);
    assert_eq!(process.text(&drawn).await, "MMMMMM");
    process.shut_down().await;
}

pub(crate) async fn samples_follow_the_distribution(subject: &Subject) {
    const N: usize = 400;
    let mut process = TestProcess::tiny(subject).await;
    let tokens = letters(subject, "abcd");
    let request = TestRequest::text("hello").max_tokens(N).seeded(1.0, 11);
    let even = request.clone().sampling(|sampling| {
        sampling.logit_bias = tokens.iter().map(|token| (*token, HUGE)).collect();
    });
    let text = process.text(&even).await;
    assert_eq!(text.len(), N, "only the letters can be drawn");
    for letter in "abcd".chars() {
        assert_share(count(&text, letter), N, 0.25);
    }
    // A difference of one f32 step, divided by the same step: odds of e to 1.
    let odds = request.clone().sampling(|sampling| {
        sampling.temperature = ULP;
        sampling.logit_bias = vec![(tokens[0], HUGE + ULP), (tokens[1], HUGE)];
    });
    let text = process.text(&odds).await;
    let expected = 1.0 / (1.0 + (-1.0_f64).exp());
    assert_share(count(&text, 'a'), N, expected);
    assert_eq!(count(&text, 'a') + count(&text, 'b'), N);
    // Of four equally likely tokens, both filters keep two.
    let halves: [fn(&mut SamplingParams); 2] = [
        |sampling| sampling.top_p = 0.5,
        |sampling| sampling.top_k = 2,
    ];
    for half in halves {
        let text = process.text(&even.clone().sampling(half)).await;
        let drawn: Vec<char> = "abcd".chars().filter(|&c| count(&text, c) > 0).collect();
        assert_eq!(drawn.len(), 2, "{text}");
        assert_share(count(&text, drawn[0]), N, 0.5);
    }
    process.shut_down().await;
}

/// Before temperature, a difference of one f32 step decides; after it, it hardly matters.
pub(crate) async fn filters_apply_before_temperature(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let tokens = letters(subject, "ab");
    let even = TestRequest::text("hello")
        .max_tokens(400)
        .seeded(1e3 * ULP, 5);
    let even = even.sampling(|sampling| {
        sampling.logit_bias = vec![(tokens[0], HUGE + ULP), (tokens[1], HUGE)];
        // With temperature alone, every token of the vocabulary would be likely.
        sampling.top_k = 2;
    });
    let text = process.text(&even).await;
    assert_share(count(&text, 'a'), 400, 0.5);
    let filters: [fn(&mut SamplingParams); 2] = [
        |sampling| sampling.top_p = 0.99,
        |sampling| sampling.min_p = 0.01,
    ];
    for filter in filters {
        let text = process.text(&even.clone().sampling(filter)).await;
        assert_eq!(text, "a".repeat(400));
    }
    process.shut_down().await;
}

pub(crate) async fn penalties_apply_to_the_documented_tokens(subject: &Subject) {
    let mut process = TestProcess::tiny(subject).await;
    let [a, b] = letters(subject, "ab")[..] else {
        panic!("two tokens")
    };
    let request = |bias: [f32; 2]| {
        let request = TestRequest::text("a").params(|params| params.ignore_end_of_text = true);
        request.sampling(|sampling| sampling.logit_bias = vec![(a, bias[0]), (b, bias[1])])
    };
    // Repetition counts the prompt and divides: 4,000 becomes 1,000, then both are 500 or less.
    let repeated = request([4000.0, 2000.0]).max_tokens(2);
    let repeated = repeated.sampling(|sampling| sampling.repetition_penalty = 4.0);
    assert_eq!(process.text(&repeated).await, "ba");
    // Negative logits are multiplied, so they decrease too.
    let negative = request([-1000.0, -3000.0])
        .max_tokens(1)
        .sampling(|sampling| {
            sampling.repetition_penalty = 4.0;
            let others = (0..272).filter(|token| ![a, b].contains(token));
            sampling
                .logit_bias
                .extend(others.map(|token| (token, -1e6)));
        });
    assert_eq!(process.text(&negative).await, "b");
    // Presence and frequency penalties ignore the prompt.
    let fresh = request([HUGE, HUGE]).max_tokens(1).sampling(|sampling| {
        sampling.presence_penalty = 2.0;
        sampling.frequency_penalty = 2.0;
    });
    assert_eq!(process.text(&fresh).await, "a");
    // The frequency penalty grows with each use, so two tokens far above the others alternate.
    // Without it, or with the presence penalty, which is subtracted once, one of them always wins.
    let turns = request([1000.0, 1000.0]).max_tokens(160);
    let frequent = turns
        .clone()
        .sampling(|sampling| sampling.frequency_penalty = 2.0);
    let text = process.text(&frequent).await;
    let distance = count(&text, 'a').abs_diff(count(&text, 'b'));
    assert_eq!(count(&text, 'a') + count(&text, 'b'), 160);
    assert!(distance <= 16, "{distance} apart: {text}");
    // A negative penalty is a reward: the first token repeats forever.
    let rewarded = turns.sampling(|sampling| sampling.frequency_penalty = -2.0);
    let text = process.text(&rewarded).await;
    assert!(text.ends_with(&text[100..101].repeat(60)), "{text}");
    process.shut_down().await;
}
