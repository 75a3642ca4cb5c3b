//! Responses of a scripted model with and without drafts.

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::sampling::{Sampler, SamplingParams};

const N_TOKENS: usize = 12;

const STEP_WIDTHS: [usize; 4] = [2, 4, 8, 16];

/// Returns logits that depend on the last two tokens. They repeat, so drafts are often correct;
/// `spread` is how confident the model is.
fn logits(tokens: &[u32], spread: f32) -> Vec<f32> {
    let seed = tokens.iter().rev().take(2).fold(7_u32, |seed, token| {
        seed.wrapping_mul(31).wrapping_add(*token + 1)
    });
    (0..N_TOKENS as u32)
        .map(|id| {
            let mixed = (seed ^ (id * 0x9E37)).wrapping_mul(0x85EB_CA6B);
            ((mixed ^ (mixed >> 13)).wrapping_mul(0xC2B2_AE35) >> 8) as f32 / (1 << 24) as f32
                * spread
        })
        .collect()
}

struct Response {
    tokens: Vec<u32>,
    n_steps: usize,
    n_drafted: usize,
    n_accepted: usize,
}

/// Runs the loop of an engine. `max_draft` limits the draft length; 0 is plain decoding.
fn generate(
    speculation: &mut Speculation,
    params: &SamplingParams,
    prompt: &[u32],
    n_tokens: usize,
    (spread, max_draft): (f32, usize),
) -> Response {
    let mut sampler = Sampler::new(params.clone(), prompt).unwrap();
    speculation.start(prompt);
    let mut tokens = prompt.to_vec();
    let mut response = Response {
        tokens: Vec::new(),
        n_steps: 0,
        n_drafted: 0,
        n_accepted: 0,
    };
    while tokens.len() < prompt.len() + n_tokens {
        let max_tokens = (prompt.len() + n_tokens - tokens.len() - 1).min(max_draft);
        loop {
            let n_read = speculation.read(max_tokens);
            if n_read == 0 {
                break;
            }
            speculation.record_read(n_read, Duration::from_micros(20 * n_read as u64));
        }
        let drafted = speculation.draft(max_tokens).to_vec();
        assert!(drafted.len() <= max_tokens);
        let before = tokens.clone();
        let n_accepted = verify(&drafted, |i| {
            // As a step computes them: after the draft so far.
            let logits = logits(&[&*before, &drafted[..i]].concat(), spread);
            let token = sampler.draw(&logits).unwrap();
            sampler.accept(token);
            speculation.accept(token);
            tokens.push(token);
            Ok::<_, Infallible>(Some(token))
        })
        .unwrap();
        response.n_steps += 1;
        response.n_drafted += drafted.len();
        response.n_accepted += n_accepted;
        let milliseconds = 10 + drafted.len() as u64;
        speculation.record_step(Duration::from_millis(milliseconds));
    }
    assert_eq!(speculation.lookup.tokens(), tokens);
    response.tokens = tokens.split_off(prompt.len());
    response
}

/// Proposes the likeliest token of the scripted model, or always the same.
#[derive(Debug)]
struct ScriptedDrafter {
    spread: Option<f32>,
    /// Everything that was read, drafts included.
    cached: Vec<u32>,
}

impl ScriptedDrafter {
    fn boxed(spread: Option<f32>) -> Box<dyn Drafter> {
        let cached = Vec::new();
        Box::new(Self { spread, cached })
    }

    fn n_cached(&self, tokens: &[u32]) -> usize {
        let shared = crate::generation::common_prefix_len(&self.cached, tokens);
        shared.min(tokens.len() - 1)
    }
}

impl Drafter for ScriptedDrafter {
    fn n_unread(&self, tokens: &[u32]) -> Option<usize> {
        Some(tokens.len() - self.n_cached(tokens))
    }

    fn read(&mut self, tokens: &[u32], n: usize) -> usize {
        let n_cached = self.n_cached(tokens);
        assert!(n_cached + n < tokens.len(), "the last token is not read");
        self.cached = tokens[..n_cached + n].to_vec();
        n
    }

    fn propose(&mut self, tokens: &[u32], n: usize, draft: &mut Vec<u32>) {
        assert!(tokens.len() - self.n_cached(tokens) <= MAX_UNREAD);
        self.cached = tokens.to_vec();
        for _ in 0..n {
            let likeliest = self.spread.map_or(0, |spread| {
                let logits = logits(&self.cached, spread);
                let best = (0..N_TOKENS).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
                best.expect("there are tokens") as u32
            });
            draft.push(likeliest);
            self.cached.push(likeliest);
        }
        // The last draft token was not processed.
        self.cached.pop();
    }

    fn release(&mut self) -> u64 {
        let n_bytes = self.kv_cache_bytes();
        self.cached.clear();
        n_bytes
    }

    fn kv_cache_bytes(&self) -> u64 {
        self.cached.len() as u64
    }
}

fn params(temperature: f32) -> SamplingParams {
    SamplingParams {
        temperature,
        top_p: 0.95,
        seed: Some(11),
        ..SamplingParams::default()
    }
}

#[test]
fn a_greedy_response_is_the_same_and_takes_fewer_steps() {
    let prompt: Vec<u32> = (0..N_TOKENS as u32).collect();
    let run = |max_draft| {
        generate(
            &mut Speculation::new(&STEP_WIDTHS),
            &params(0.0),
            &prompt,
            300,
            (4.0, max_draft),
        )
    };
    let (plain, speculative) = (run(0), run(100));
    assert_eq!(speculative.tokens, plain.tokens);
    assert_eq!((plain.n_steps, plain.n_drafted), (300, 0));
    assert!(speculative.n_steps < 150, "{} steps", speculative.n_steps);
    assert_eq!(speculative.n_steps + speculative.n_accepted, 300);
}

#[test]
fn a_drafter_works_without_lookups_and_never_changes_a_response() {
    let run = |drafter: Option<Box<dyn Drafter>>| {
        let mut speculation = Speculation::new(&[]);
        if let Some(drafter) = drafter {
            speculation = speculation.with_drafter(drafter, 5);
        }
        let responses = [[3, 4], [5, 9], [7, 1]]
            .map(|prompt| generate(&mut speculation, &params(1.0), &prompt, 60, (20.0, 100)));
        responses.map(|response| (response.tokens, response.n_accepted))
    };
    let plain = run(None);
    let drafted = run(Some(ScriptedDrafter::boxed(Some(20.0))));
    let useless = run(Some(ScriptedDrafter::boxed(None)));
    let sum = |responses: &[(Vec<u32>, usize); 3]| responses.iter().map(|(_, n)| n).sum::<usize>();
    for i in 0..3 {
        assert_eq!(drafted[i].0, plain[i].0);
        assert_eq!(useless[i].0, plain[i].0);
    }
    assert_eq!(sum(&plain), 0);
    assert!(sum(&drafted) > 40, "{drafted:?}");
}

#[test]
fn a_released_drafter_reads_the_text_again() {
    let drafter = ScriptedDrafter::boxed(Some(20.0));
    let mut speculation = Speculation::new(&[]).with_drafter(drafter, 5);
    let prompt: Vec<u32> = (0..200).map(|i| i * i % N_TOKENS as u32).collect();
    generate(&mut speculation, &params(1.0), &prompt, 100, (20.0, 100));
    let n_cached = speculation.drafter().map(Drafter::kv_cache_bytes);
    assert!(n_cached > Some(200), "{n_cached:?}");
    assert_eq!(Some(speculation.release_drafter()), n_cached);
    let again = generate(&mut speculation, &params(1.0), &prompt, 100, (20.0, 100));
    assert!(again.n_accepted > 20, "{}", again.n_accepted);
    let n_cached = speculation.drafter().map(Drafter::kv_cache_bytes);
    assert!(n_cached > Some(200), "{n_cached:?}");
}

proptest! {
    /// A seed gives the same response with and without drafts, also with penalties.
    #[test]
    fn drafts_do_not_change_the_response_of_a_seed(
        seed in any::<u64>(),
        temperature in 0.1..1.5_f32,
        penalties in (0.8..1.3_f32, 0.0..1.0_f32),
        prompt in prop::collection::vec(0..N_TOKENS as u32, 1..100),
        spread in 0.5..20.0_f32,
        n_tokens in 1..150_usize,
        has_drafter in any::<bool>(),
    ) {
        let params = SamplingParams {
            seed: Some(seed),
            repetition_penalty: penalties.0,
            frequency_penalty: penalties.1,
            ..params(temperature)
        };
        let mut speculation = Speculation::new(&STEP_WIDTHS);
        if has_drafter {
            speculation = speculation.with_drafter(ScriptedDrafter::boxed(Some(spread)), 5);
        }
        let plain = generate(&mut speculation, &params, &prompt, n_tokens, (spread, 0));
        // What was learned from a response changes only the drafts of the next.
        for _ in 0..2 {
            let speculative = generate(&mut speculation, &params, &prompt, n_tokens, (spread, 100));
            prop_assert_eq!(&speculative.tokens, &plain.tokens);
        }
    }
}

/// Leviathan et al. 2023 for a deterministic draft: responses follow the model's own distribution,
/// however good or bad the drafts are.
#[test]
fn responses_with_drafts_follow_the_models_own_distribution() {
    check_distribution(Speculation::new(&STEP_WIDTHS));
    let drafter = ScriptedDrafter::boxed(Some(6.0));
    check_distribution(Speculation::new(&[]).with_drafter(drafter, 5));
}

fn check_distribution(mut speculation: Speculation) {
    let spread = 6.0;
    let prompt = [3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4];
    let mut n_pairs = vec![[0_u32; N_TOKENS]; N_TOKENS];
    let (mut n_drafted, mut n_accepted) = (0, 0);
    for seed in 0..40 {
        let params = SamplingParams {
            seed: Some(seed),
            top_p: 1.0,
            ..params(0.7)
        };
        let response = generate(&mut speculation, &params, &prompt, 500, (spread, 100));
        n_drafted += response.n_drafted;
        n_accepted += response.n_accepted;
        // Counts what follows each pair of tokens that ends in 5.
        for three in response.tokens.windows(3).filter(|three| three[1] == 5) {
            n_pairs[three[0] as usize][three[2] as usize] += 1;
        }
    }
    assert!(
        n_accepted > 1000 && n_drafted > n_accepted + 1000,
        "{n_accepted} of {n_drafted} draft tokens were accepted"
    );
    let (mut statistic, mut n_degrees) = (0.0_f64, 0.0_f64);
    for (first, counts) in n_pairs.iter().enumerate() {
        let n: u32 = counts.iter().sum();
        let expected = params(0.7);
        let expected = SamplingParams {
            top_p: 1.0,
            ..expected
        }
        .distribution(&logits(&[first as u32, 5], spread), &[], &[]);
        for (&count, p) in counts.iter().zip(expected) {
            let expected = p * f64::from(n);
            if expected >= 5.0 {
                statistic += (f64::from(count) - expected).powi(2) / expected;
                n_degrees += 1.0;
            }
        }
    }
    assert!(n_degrees > 20.0, "too few counts");
    // Five standard deviations above the mean of chi-square.
    let bound = n_degrees + 5.0 * (2.0 * n_degrees).sqrt();
    assert!(statistic < bound, "{statistic} over {n_degrees}");
}

#[test]
fn verification_stops_after_the_first_wrong_draft_token_and_draws_each_token_once() {
    let check = |drawn: &[u32], expected: usize, n_draws: usize| {
        let mut n = 0;
        let n_accepted = verify(&[7, 8, 9], |i| {
            assert_eq!(i, n);
            n += 1;
            Ok::<_, Infallible>(drawn.get(i).copied())
        });
        assert_eq!((n_accepted, n), (Ok(expected), n_draws));
    };
    check(&[7, 8, 9, 1], 3, 4);
    check(&[7, 8, 1], 2, 3);
    check(&[1, 8, 9], 0, 1);
    // The response ends.
    check(&[7, 8], 2, 3);
    assert_eq!(
        verify(&[7], |_| Err("the device is gone")),
        Err("the device is gone")
    );
}

#[test]
fn an_engine_that_queues_ahead_waits_only_for_tokens_of_a_repeated_text() {
    let mut speculation = Speculation::pipelined(&STEP_WIDTHS);
    let prompt: Vec<u32> = (1..=30).chain(1..=5).collect();
    speculation.start(&prompt);
    assert!(!speculation.expects_draft(8), "no step was timed");
    for token in 6..=12 {
        speculation.accept(token);
        speculation.record_step(Duration::from_millis(10));
    }
    assert!(speculation.expects_draft(8));
    assert!(!speculation.expects_draft(0), "the response ends");
    speculation.accept(99);
    assert!(!speculation.expects_draft(8), "nothing repeats");
}

#[test]
fn after_a_context_shift_the_remaining_tokens_are_still_found() {
    let mut speculation = Speculation::new(&STEP_WIDTHS);
    let tokens: Vec<u32> = (0..100).collect();
    speculation.start(&tokens);
    speculation.remove(10..60);
    assert_eq!(speculation.lookup.tokens().len(), 50);
    for token in 70..76 {
        speculation.accept(token);
    }
    let next = speculation
        .current
        .map(|current| speculation.lookup.tokens()[current.next]);
    assert_eq!(next, Some(76));
}
