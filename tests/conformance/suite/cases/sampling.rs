//! The sampling parameters mean the same in every engine.
//!
//! Engines round differently and models are not known here, so these cases use biases so large that
//! they swallow the model's own logits in the arithmetic of f32 and of f64: what remains is exact.

use transom_engine::SamplingParams;

use crate::ask::{Ask, tiny_tokens};
use crate::subject::Subject;
use crate::talk::Talk;

/// Swallows logits: the next f64 is 256 away, the next f32 [`NEXT`] away.
const HUGE: f32 = (1_u64 << 60) as f32;

/// From [`HUGE`] to the next f32.
const NEXT: f32 = (1_u64 << 37) as f32;

/// The tokens of `letters`, one each.
fn letters(subject: &Subject, letters: &str) -> Vec<u32> {
    let tokens = tiny_tokens(subject, letters);
    assert_eq!(tokens.len(), letters.len());
    tokens
}

fn count(text: &str, letter: char) -> usize {
    text.chars().filter(|found| *found == letter).count()
}

/// Within five standard deviations and more of a fair share: a wrong sampler is far outside.
fn assert_share(found: usize, n: usize, expected: f64) {
    let spread = 10.0 * (n as f64 * expected * (1.0 - expected)).sqrt();
    let distance = (found as f64 - n as f64 * expected).abs();
    assert!(
        distance <= spread.min(n as f64 / 8.0),
        "{found} of {n}, not {expected}"
    );
}

pub(crate) async fn filters_that_leave_one_token_are_greedy(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let greedy = talk.text(&Ask::text("hello")).await;
    let hot = Ask::text("hello").seeded(1.5, 7);
    let top_k = hot.clone().sampling(|sampling| sampling.top_k = 1);
    let top_p = hot.clone().sampling(|sampling| sampling.top_p = 1e-6);
    let min_p = hot.clone().sampling(|sampling| sampling.min_p = 1.0);
    for one in [top_k, top_p, min_p] {
        assert_eq!(talk.text(&one).await, greedy, "{:?}", one.0.params.sampling);
    }
    let cold = Ask::text("hello").seeded(1e-6, 7);
    assert_eq!(talk.text(&cold).await, greedy);
    assert_ne!(talk.text(&hot).await, greedy);
    talk.leave().await;
}

/// As cold, as strict and as biased as numbers allow: no arithmetic may overflow into another token.
pub(crate) async fn parameters_at_their_edges_give_the_likeliest_token(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let greedy = talk.text(&Ask::text("hello")).await;
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
        let ask = Ask::text("hello").seeded(1.0, u64::MAX).sampling(edge);
        assert_eq!(talk.text(&ask).await, greedy, "{:?}", ask.0.params.sampling);
    }
    let filters: [Change; 4] = [
        |_| {},
        |sampling| sampling.top_p = 0.95,
        |sampling| sampling.top_k = 5,
        |sampling| sampling.min_p = 0.5,
    ];
    for filter in filters {
        let ask = Ask::text("hello").seeded(1.0, 1).endless().max_tokens(8);
        let ask = ask.sampling(filter);
        let most = ask.clone().sampling(|sampling| {
            sampling.logit_bias = vec![(a, f32::MAX), (a, f32::MAX)];
        });
        assert_eq!(
            talk.text(&most).await,
            "aaaaaaaa",
            "{:?}",
            most.0.params.sampling
        );
        let all_but_one = ask.sampling(|sampling| {
            let others = (0..272).filter(|token| *token != a);
            sampling.logit_bias = others.map(|token| (token, -f32::MAX)).collect();
        });
        assert_eq!(talk.text(&all_but_one).await, "aaaaaaaa");
    }
    // More than there are.
    let ask = Ask::text("hello").seeded(1.0, 9);
    let all = ask.clone().sampling(|sampling| sampling.top_k = usize::MAX);
    assert_eq!(talk.text(&all).await, talk.text(&ask).await);
    // Everything is equally likely, so nothing is known; an answer comes all the same.
    let flat = ask.sampling(|sampling| sampling.temperature = f32::MAX);
    assert_eq!(
        talk.ask(&flat.endless().max_tokens(30))
            .await
            .stats()
            .generated_tokens,
        30
    );
    talk.leave().await;
}

pub(crate) async fn a_bias_bans_and_forces(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let [a, b] = letters(subject, "ab")[..] else {
        panic!("two tokens")
    };
    let biased = |bias: &[(u32, f32)]| {
        let ask = Ask::text("hello").max_tokens(12);
        let ask = ask.params(|params| params.ignore_end_of_text = true);
        ask.sampling(|sampling| sampling.logit_bias = bias.to_vec())
    };
    assert_eq!(talk.text(&biased(&[(a, 100.0)])).await, "a".repeat(12));
    let hot = biased(&[(b, 200.0)]).seeded(1.0, 3);
    assert_eq!(talk.text(&hot).await, "b".repeat(12));
    // An id that is given twice adds up, so `a` loses here.
    let twice = biased(&[(a, 100.0), (b, 150.0), (a, -60.0)]);
    assert_eq!(talk.text(&twice).await, "b".repeat(12));
    let banned = biased(&[(a, 200.0), (b, 100.0), (a, -1e9)]).seeded(2.0, 3);
    assert_eq!(talk.text(&banned).await, "b".repeat(12));
    talk.leave().await;
}

/// Equal logits: the lowest id, whichever was named first.
pub(crate) async fn equals_are_decided_by_the_lower_token(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let tokens = letters(subject, "QMZ");
    let bias: Vec<(u32, f32)> = tokens.iter().map(|token| (*token, 1e30)).collect();
    let lowest = *tokens.iter().min().unwrap();
    assert_eq!(lowest, letters(subject, "M")[0]);
    let ask = Ask::text("hello").max_tokens(6);
    let ask = ask.sampling(|sampling| sampling.logit_bias = bias);
    assert_eq!(talk.text(&ask).await, "MMMMMM");
    let drawn = ask.seeded(1.0, 2).sampling(|sampling| sampling.top_k = 1);
    assert_eq!(talk.text(&drawn).await, "MMMMMM");
    talk.leave().await;
}

pub(crate) async fn draws_follow_the_distribution(subject: &Subject) {
    const N: usize = 400;
    let mut talk = Talk::tiny(subject).await;
    let tokens = letters(subject, "abcd");
    let ask = Ask::text("hello").max_tokens(N).seeded(1.0, 11);
    let even = ask.clone().sampling(|sampling| {
        sampling.logit_bias = tokens.iter().map(|token| (*token, HUGE)).collect();
    });
    let text = talk.text(&even).await;
    assert_eq!(text.len(), N, "only the letters can be drawn");
    for letter in "abcd".chars() {
        assert_share(count(&text, letter), N, 0.25);
    }
    // One step of f32 apart, divided by as much: odds of e to 1.
    let odds = ask.clone().sampling(|sampling| {
        sampling.temperature = NEXT;
        sampling.logit_bias = vec![(tokens[0], HUGE + NEXT), (tokens[1], HUGE)];
    });
    let text = talk.text(&odds).await;
    let expected = 1.0 / (1.0 + (-1.0_f64).exp());
    assert_share(count(&text, 'a'), N, expected);
    assert_eq!(count(&text, 'a') + count(&text, 'b'), N);
    // Of four that are equally likely, half the mass is two of them, and the likeliest two are two.
    let halves: [fn(&mut SamplingParams); 2] = [
        |sampling| sampling.top_p = 0.5,
        |sampling| sampling.top_k = 2,
    ];
    for half in halves {
        let text = talk.text(&even.clone().sampling(half)).await;
        let drawn: Vec<char> = "abcd".chars().filter(|&c| count(&text, c) > 0).collect();
        assert_eq!(drawn.len(), 2, "{text}");
        assert_share(count(&text, drawn[0]), N, 0.5);
    }
    talk.leave().await;
}

/// Before temperature, one step of f32 is the whole probability; after it, hardly anything.
pub(crate) async fn filters_come_before_temperature(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let tokens = letters(subject, "ab");
    let even = Ask::text("hello").max_tokens(400).seeded(1e3 * NEXT, 5);
    let even = even.sampling(|sampling| {
        sampling.logit_bias = vec![(tokens[0], HUGE + NEXT), (tokens[1], HUGE)];
        // Left to temperature alone, every token of the vocabulary is likely.
        sampling.top_k = 2;
    });
    let text = talk.text(&even).await;
    assert_share(count(&text, 'a'), 400, 0.5);
    let filters: [fn(&mut SamplingParams); 2] = [
        |sampling| sampling.top_p = 0.99,
        |sampling| sampling.min_p = 0.01,
    ];
    for filter in filters {
        let text = talk.text(&even.clone().sampling(filter)).await;
        assert_eq!(text, "a".repeat(400));
    }
    talk.leave().await;
}

pub(crate) async fn penalties_act_on_what_they_are_documented_to_act_on(subject: &Subject) {
    let mut talk = Talk::tiny(subject).await;
    let [a, b] = letters(subject, "ab")[..] else {
        panic!("two tokens")
    };
    let ask = |bias: [f32; 2]| {
        let ask = Ask::text("a").params(|params| params.ignore_end_of_text = true);
        ask.sampling(|sampling| sampling.logit_bias = vec![(a, bias[0]), (b, bias[1])])
    };
    // Repetition counts the prompt and divides: 4,000 becomes 1,000, then both are 500 or less.
    let repeated = ask([4000.0, 2000.0]).max_tokens(2);
    let repeated = repeated.sampling(|sampling| sampling.repetition_penalty = 4.0);
    assert_eq!(talk.text(&repeated).await, "ba");
    // Negative logits are multiplied, so they fall as well.
    let negative = ask([-1000.0, -3000.0]).max_tokens(1).sampling(|sampling| {
        sampling.repetition_penalty = 4.0;
        let others = (0..272).filter(|token| ![a, b].contains(token));
        sampling
            .logit_bias
            .extend(others.map(|token| (token, -1e6)));
    });
    assert_eq!(talk.text(&negative).await, "b");
    // Presence and frequency leave the prompt alone.
    let fresh = ask([HUGE, HUGE]).max_tokens(1).sampling(|sampling| {
        sampling.presence_penalty = 2.0;
        sampling.frequency_penalty = 2.0;
    });
    assert_eq!(talk.text(&fresh).await, "a");
    // Frequency goes on subtracting, so that two tokens far above the others take turns; without
    // it, or with presence which subtracts once, one of them leads for good.
    let turns = ask([1000.0, 1000.0]).max_tokens(160);
    let frequent = turns
        .clone()
        .sampling(|sampling| sampling.frequency_penalty = 2.0);
    let text = talk.text(&frequent).await;
    let distance = count(&text, 'a').abs_diff(count(&text, 'b'));
    assert_eq!(count(&text, 'a') + count(&text, 'b'), 160);
    assert!(distance <= 16, "{distance} apart: {text}");
    // A negative penalty is a reward: the first token said is said for ever.
    let rewarded = turns.sampling(|sampling| sampling.frequency_penalty = -2.0);
    let text = talk.text(&rewarded).await;
    assert!(text.ends_with(&text[100..101].repeat(60)), "{text}");
    talk.leave().await;
}
