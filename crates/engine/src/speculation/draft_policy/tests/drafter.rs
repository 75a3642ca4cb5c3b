//! The guarantee with a drafter, whatever it costs, and the speedup with a good one.

use super::*;

/// A drafter, with costs in plain steps.
#[derive(Debug, Clone, Copy)]
struct DrafterCosts {
    /// Of each draft token.
    token: f64,
    /// Of each token that it reads.
    read: f64,
}

/// Like [`run`], with a drafter instead of matches. The prefill of `n_prompt` tokens, which the
/// drafter has to read as well, takes `prefill` plain steps. The times include it.
fn run_with_drafter(
    policy: &mut DraftPolicy,
    n_tokens: usize,
    (n_prompt, prefill): (usize, f64),
    (machine, costs): (Machine, DrafterCosts),
    correct: impl Fn(usize) -> bool,
) -> (f64, f64) {
    let plain_seconds = 0.02;
    let duration = |steps: f64| Duration::from_secs_f64(steps * plain_seconds);
    policy.start();
    policy.record_prefill(duration(prefill));
    let (mut took, mut worst) = (prefill, 0.0_f64);
    let (mut n, mut n_unread) = (0, n_prompt);
    while n < n_tokens {
        let max_tokens = n_tokens - n - 1;
        while n_unread > 8 {
            let n_read = policy.n_read(n_unread - 1, max_tokens);
            assert!(n_read < n_unread);
            if n_read == 0 {
                break;
            }
            let read = costs.read * n_read as f64;
            policy.record_read(n_read, duration(read));
            took += read;
            n_unread -= n_read;
        }
        let choice = policy.choose_drafter(0.0, max_tokens);
        let n_drafted = choice.map_or(0, |choice| choice.n_drafted);
        let n_drafted = if n_unread > 8 { 0 } else { n_drafted };
        let step = machine.cost(n_drafted) + costs.token * n_drafted as f64;
        let mut n_new = 1;
        while n_new <= n_drafted {
            let is_correct = correct(n + n_new);
            policy.record_drafter_outcome(is_correct);
            if !is_correct {
                break;
            }
            n_new += 1;
        }
        match n_drafted {
            0 => policy.record_step(0, 1, duration(step)),
            _ => policy.record_drafter_step(n_drafted, n_new, duration(step)),
        }
        n_unread = if n_drafted == 0 { n_unread + 1 } else { 1 };
        took += step;
        n += n_new;
        if n >= GUARANTEED_TOKENS {
            worst = worst.max(took / (prefill + n as f64));
        }
    }
    (worst, took / (prefill + n_tokens as f64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Reading and drafting are on one budget, whatever they cost and whether they help.
    #[test]
    fn no_response_with_a_drafter_takes_more_than_3_percent_longer(
        machine in machine(),
        token in 0.0..1.0_f64,
        read in 0.0..0.06_f64,
        n_prompts in prop::collection::vec(1..6000_usize, 1..5),
        prefill in 0.0..0.2_f64,
        chance in 0..=100_u64,
        seed in 0..1000_u64,
        n_tokens in 128..1500_usize,
    ) {
        let mut policy = DraftPolicy::new(&STEP_WIDTHS);
        policy.set_drafter_widths(&[2, 3, 4, 5]);
        for n_prompt in n_prompts {
            let of_prompt = (n_prompt, prefill * n_prompt as f64);
            let costs = DrafterCosts { token, read };
            let correct = |n: usize| noise(seed + n as u64) < chance;
            let (worst, _) =
                run_with_drafter(&mut policy, n_tokens, of_prompt, (machine, costs), correct);
            prop_assert!(worst <= 1.03, "{worst} of plain on {machine:?} with {costs:?}");
        }
    }
}

/// The costs of a small model beside one of twenty times its size.
const SMALL_DRAFTER: DrafterCosts = DrafterCosts {
    token: 0.08,
    read: 0.003,
};

#[test]
fn a_good_drafter_makes_responses_faster_from_the_first_on() {
    let mut policy = DraftPolicy::new(&STEP_WIDTHS);
    policy.set_drafter_widths(&[2, 3, 4, 5]);
    let costs = (Machine::Linear(0.1), SMALL_DRAFTER);
    let is_correct = |n: usize| noise(n as u64) < 75;
    let (_, first) = run_with_drafter(&mut policy, 400, (300, 15.0), costs, is_correct);
    assert!(first < 0.8, "{first}");
    // It reads a long prompt in parts.
    let (_, long) = run_with_drafter(&mut policy, 400, (2000, 100.0), costs, is_correct);
    assert!(long < 0.95, "{long}");
}

#[test]
fn a_drafter_that_is_always_wrong_is_soon_left_alone() {
    let mut policy = DraftPolicy::new(&STEP_WIDTHS);
    policy.set_drafter_widths(&[2, 3, 4, 5]);
    let costs = (Machine::Linear(0.1), SMALL_DRAFTER);
    for _ in 0..3 {
        run_with_drafter(&mut policy, 400, (300, 15.0), costs, |_| false);
    }
    let (_, end) = run_with_drafter(&mut policy, 400, (300, 15.0), costs, |_| false);
    assert!(end < 1.02, "{end}");
}

#[test]
fn a_text_that_is_too_long_to_read_is_not_read_on_the_budget_of_lookups() {
    let mut policy = DraftPolicy::new(&STEP_WIDTHS);
    policy.set_drafter_widths(&[2]);
    let costs = (Machine::Linear(0.1), SMALL_DRAFTER);
    run_with_drafter(&mut policy, 400, (300, 15.0), costs, |_| true);
    policy.start();
    for _ in 0..3 {
        policy.record_step(0, 1, Duration::from_millis(20));
    }
    assert!(policy.n_read(200, 100) > 0);
    assert_eq!(policy.n_read(100_000, 100), 0);
    // A prefill that took long pays for a part.
    policy.record_prefill(Duration::from_secs(20));
    policy.record_step(0, 1, Duration::from_millis(20));
    assert!(policy.n_read(100_000, 100) > 200);
}
