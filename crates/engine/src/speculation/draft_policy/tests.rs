//! The guarantee on adversarial machines and texts, and the speedup where one is possible.

mod drafter;

use proptest::prelude::*;

use super::*;

const STEP_WIDTHS: [usize; 4] = [2, 4, 8, 16];

/// The cost of a step by its number of rows, in plain steps. A step costs at most as much as two
/// steps of half as many rows.
#[derive(Debug, Clone, Copy)]
enum Machine {
    /// The cost of each further row.
    Linear(f64),
    /// The cost of four rows together; each remaining row costs a step: matrix kernels of
    /// llama.cpp on x86.
    Fours(f64),
    /// The extra cost of a step with a draft of any length.
    Fixed(f64),
}

impl Machine {
    fn cost(self, n_drafted: usize) -> f64 {
        let n_rows = n_drafted as f64 + 1.0;
        match (self, n_drafted) {
            (_, 0) => 1.0,
            (Self::Linear(slope), n) => 1.0 + slope * n as f64,
            (Self::Fours(of_four), n) => (n_rows / 4.0).floor() * of_four + ((n + 1) % 4) as f64,
            (Self::Fixed(more), _) => (1.0 + more).min(n_rows),
        }
    }
}

/// Runs a response of `n_tokens`. `matches(i)` returns the length of the match before token `i`, and
/// `correct(i, is_drafted)` whether the token that followed the match is correct. Returns the time
/// relative to plain steps: the maximum from the 128th token on, and at the end.
fn run(
    policy: &mut DraftPolicy,
    n_tokens: usize,
    mut seconds: impl FnMut(usize, usize) -> f64,
    mut matches: impl FnMut(usize) -> Option<usize>,
    mut correct: impl FnMut(usize, bool) -> bool,
) -> (f64, f64) {
    policy.start();
    let (mut took, mut plain, mut worst) = (0.0, 0.0, 0.0_f64);
    let mut n = 0;
    while n < n_tokens {
        let found = matches(n);
        let max_tokens = n_tokens - n - 1;
        let n_drafted = found.map_or(0, |length| policy.n_draft(length, max_tokens));
        assert!(n_drafted <= max_tokens);
        let step = seconds(n, n_drafted);
        let n_new = verify(policy, n, found, n_drafted, &mut correct);
        for i in n..n + n_new {
            plain += seconds(i, 0);
        }
        n += n_new;
        took += step;
        policy.record_step(n_drafted, n_new, Duration::from_secs_f64(step));
        if n >= GUARANTEED_TOKENS {
            worst = worst.max(took / plain);
        }
    }
    (worst, took / plain)
}

/// Like [`run`], on an engine that queues steps ahead: `seconds` are those of the device, and
/// preparing a step takes `preparation` of a plain step of the device. Compares with an engine that
/// always queues ahead.
fn run_pipelined(
    policy: &mut DraftPolicy,
    n_tokens: usize,
    preparation: f64,
    mut seconds: impl FnMut(usize, usize) -> f64,
    mut matches: impl FnMut(usize) -> Option<usize>,
    mut correct: impl FnMut(usize, bool) -> bool,
) -> (f64, f64) {
    policy.start();
    let (mut took, mut plain, mut worst) = (0.0, 0.0, 0.0_f64);
    let mut n = 0;
    let mut is_queued = false;
    while n < n_tokens {
        let found = matches(n);
        let max_tokens = n_tokens - n - 1;
        let device = seconds(n, 0);
        let prepare = preparation * device;
        let pipelined = device.max(prepare);
        let n_drafted = match found {
            Some(length) if !is_queued => policy.n_draft(length, max_tokens),
            _ => 0,
        };
        // The next token is not known yet.
        let after_next = max_tokens.saturating_sub(1);
        let waits =
            is_queued && found.is_some_and(|length| policy.expects_draft(length, after_next));
        let n_new = verify(policy, n, found, n_drafted, &mut correct);
        for i in n..n + n_new {
            plain += pipelined * seconds(i, 0) / device;
        }
        if n_drafted > 0 {
            let step = prepare + seconds(n, n_drafted);
            policy.record_step(n_drafted, n_new, Duration::from_secs_f64(step));
            took += step;
        } else if !is_queued {
            let step = prepare + pipelined;
            if n > 0 {
                policy.record_unqueued_step(Duration::from_secs_f64(step));
            } else {
                // The queue of a new response is always empty.
                plain += prepare;
            }
            took += step;
            is_queued = true;
        } else if waits {
            took += device;
            is_queued = false;
        } else {
            policy.record_step(0, 1, Duration::from_secs_f64(pipelined));
            took += pipelined;
        }
        n += n_new;
        if n >= GUARANTEED_TOKENS {
            worst = worst.max(took / plain);
        }
    }
    (worst, took / plain)
}

/// Verifies a draft of `n_drafted` tokens from token `n` on, and returns the number of new tokens.
fn verify(
    policy: &mut DraftPolicy,
    n: usize,
    found: Option<usize>,
    n_drafted: usize,
    mut correct: impl FnMut(usize, bool) -> bool,
) -> usize {
    let mut n_new = 0;
    loop {
        let length = found.map(|length| length + n_new);
        let is_correct = length.is_some() && correct(n + n_new, n_drafted > 0);
        if let Some(length) = length {
            policy.record_outcome(length, is_correct);
        }
        n_new += 1;
        if !is_correct || n_new > n_drafted {
            return n_new;
        }
    }
}

fn machine() -> impl Strategy<Value = Machine> {
    prop_oneof![
        (0.0..=1.0).prop_map(Machine::Linear),
        (1.0..=4.0).prop_map(Machine::Fours),
        (0.0..=15.0).prop_map(Machine::Fixed),
    ]
}

/// Whether draft tokens are correct, for a section of the text.
#[derive(Debug, Clone, Copy)]
enum Text {
    /// Correct with this probability in percent.
    Chance(u64),
    /// Correct until they are drafted.
    Adversarial,
    /// Every n-th one is wrong.
    Every(usize),
    /// No matches.
    Nothing,
}

impl Text {
    /// Returns the length of the match before token `n`: one of `lengths`.
    fn match_length(self, n: usize, lengths: (usize, usize)) -> Option<usize> {
        match self {
            Self::Nothing => None,
            _ if n.is_multiple_of(3) => Some(lengths.0),
            _ => Some(lengths.1),
        }
    }

    /// Returns true if token `n` is the one that followed the match. `random` is from 0 to 99.
    fn is_correct(self, n: usize, is_drafted: bool, random: u64) -> bool {
        match self {
            Self::Chance(chance) => random < chance,
            Self::Adversarial => !is_drafted,
            Self::Every(every) => !n.is_multiple_of(every),
            Self::Nothing => false,
        }
    }
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        (0..=100_u64).prop_map(Text::Chance),
        Just(Text::Adversarial),
        (1..20_usize).prop_map(Text::Every),
        Just(Text::Nothing),
    ]
}

/// Returns reproducible pseudorandom numbers from 0 to 99.
fn noise(seed: u64) -> u64 {
    let mixed = (seed ^ 0x5DEE_CE66).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) % 100
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Never below 0.97x of plain decoding, for any costs and any drafts.
    #[test]
    fn no_response_of_128_tokens_takes_more_than_3_percent_longer(
        machine in machine(),
        texts in prop::collection::vec(text(), 1..6),
        n_section in 20..300_usize,
        lengths in (3..40_usize, 3..40_usize),
        plain_seconds in 0.0005..0.5_f64,
        // How much the machine slows down over a thousand tokens.
        drift in -0.2..0.4_f64,
        seed in 0..1000_u64,
        n_responses in 1..4_usize,
        n_tokens in 128..1500_usize,
    ) {
        let mut policy = DraftPolicy::new(&STEP_WIDTHS);
        for i in 0..n_responses as u64 {
            let at = |n: usize| texts[n / n_section % texts.len()];
            let seconds = |n: usize, n_drafted| {
                let drifted = 1.0 + drift * n as f64 / 1000.0;
                plain_seconds * drifted * machine.cost(n_drafted)
            };
            let matches = |n| at(n).match_length(n, lengths);
            let correct = |n, is_drafted| {
                at(n).is_correct(n, is_drafted, noise(seed + i + n as u64))
            };
            let (worst, _) = run(&mut policy, n_tokens, seconds, matches, correct);
            prop_assert!(worst <= 1.03, "{worst} of plain on {machine:?} in {texts:?}");
        }
    }

    /// The same on an engine that queues steps ahead, however long it takes to prepare a step.
    #[test]
    fn no_response_of_a_pipelined_engine_takes_more_than_3_percent_longer(
        machine in machine(),
        preparation in 0.0..2.0_f64,
        texts in prop::collection::vec(text(), 1..6),
        n_section in 20..300_usize,
        lengths in (3..40_usize, 3..40_usize),
        drift in -0.2..0.4_f64,
        seed in 0..1000_u64,
        n_responses in 1..4_usize,
        n_tokens in 128..1500_usize,
    ) {
        let mut policy = DraftPolicy::pipelined(&STEP_WIDTHS);
        for i in 0..n_responses as u64 {
            let at = |n: usize| texts[n / n_section % texts.len()];
            let seconds = |n: usize, n_drafted| {
                0.02 * (1.0 + drift * n as f64 / 1000.0) * machine.cost(n_drafted)
            };
            let matches = |n| at(n).match_length(n, lengths);
            let correct = |n, is_drafted| {
                at(n).is_correct(n, is_drafted, noise(seed + i + n as u64))
            };
            let (worst, _) =
                run_pipelined(&mut policy, n_tokens, preparation, seconds, matches, correct);
            prop_assert!(worst <= 1.03, "{worst} of plain on {machine:?} in {texts:?}");
        }
    }

    /// Times on a machine that runs other programs.
    #[test]
    fn noisy_times_cost_little_more(
        machine in machine(),
        text in text(),
        seed in 0..1000_u64,
    ) {
        let mut policy = DraftPolicy::new(&STEP_WIDTHS);
        let seconds = |n: usize, n_drafted: usize| {
            let noise = noise(seed + (n * 16 + n_drafted) as u64) as f64;
            0.02 * machine.cost(n_drafted) * (0.95 + noise / 1000.0)
        };
        let correct = |n, is_drafted| text.is_correct(n, is_drafted, noise(seed + 7 * n as u64));
        let (worst, _) = run(&mut policy, 600, seconds, |_| Some(6), correct);
        prop_assert!(worst <= 1.04, "{worst} of plain on {machine:?} in {text:?}");
    }

    /// A text that copies all but every twentieth token, in the first response.
    #[test]
    fn copying_is_at_least_1_5_times_as_fast_if_steps_are_bound_by_memory(
        of_eight in 1.3..2.5_f64,
        wrong_every in 20..60_usize,
        is_in_fours in any::<bool>(),
        n_tokens in 128..600_usize,
    ) {
        let machine = if is_in_fours {
            Machine::Fours(of_eight / 2.0)
        } else {
            Machine::Linear((of_eight - 1.0) / 7.0)
        };
        let mut policy = DraftPolicy::new(&STEP_WIDTHS);
        let seconds = |_, n_drafted| 0.04 * machine.cost(n_drafted);
        // After a wrong draft token it takes three tokens to match again.
        let matches = |n: usize| (n % wrong_every >= 3).then(|| n % wrong_every);
        let correct = |n: usize, _| !n.is_multiple_of(wrong_every);
        let (_, first) = run(&mut policy, n_tokens, seconds, matches, correct);
        prop_assert!(first <= 1.0 / 1.5, "{first} of plain on {machine:?}");
        let (_, second) = run(&mut policy, n_tokens, seconds, matches, correct);
        prop_assert!(second <= first + 0.05, "{second} after {first}");
    }
}

proptest! {
    /// A text that copies all but every twentieth token, in the first response.
    #[test]
    fn copying_is_at_least_1_4_times_as_fast_on_a_pipelined_engine(
        of_eight in 1.3..2.5_f64,
        preparation in 0.0..0.2_f64,
        wrong_every in 20..60_usize,
        n_tokens in 128..600_usize,
    ) {
        let machine = Machine::Linear((of_eight - 1.0) / 7.0);
        let mut policy = DraftPolicy::pipelined(&[2, 4, 8]);
        let seconds = |_, n_drafted| 0.04 * machine.cost(n_drafted);
        let matches = |n: usize| (n % wrong_every >= 3).then(|| n % wrong_every);
        let correct = |n: usize, _| !n.is_multiple_of(wrong_every);
        let (_, end) =
            run_pipelined(&mut policy, n_tokens, preparation, seconds, matches, correct);
        prop_assert!(end <= 1.0 / 1.4, "{end} of plain on {machine:?}");
    }
}

#[test]
fn a_device_without_step_widths_never_drafts() {
    let mut policy = DraftPolicy::pipelined(&[]);
    let seconds = |_, _| 0.01;
    let (worst, _) = run_pipelined(&mut policy, 400, 0.5, seconds, |_| Some(30), |_, _| true);
    assert!(worst < 1.000_001, "{worst}");
}

/// The step over two tokens costs almost nothing more, but the empty queue costs a whole step.
#[test]
fn the_queue_stays_full_if_emptying_it_costs_more_than_drafts_save() {
    let mut policy = DraftPolicy::pipelined(&[2]);
    let seconds = |_, n_drafted: usize| 0.01 * Machine::Linear(0.05).cost(n_drafted);
    let is_correct = |n: usize, _| noise(n as u64) < 60;
    for _ in 0..3 {
        run_pipelined(&mut policy, 400, 1.0, seconds, |_| Some(6), is_correct);
    }
    let (worst, _) = run_pipelined(&mut policy, 400, 1.0, seconds, |_| Some(6), is_correct);
    assert!(worst < 1.000_001, "{worst}");
}

#[test]
fn a_first_step_that_compiles_kernels_does_not_end_a_width() {
    let mut policy = DraftPolicy::new(&STEP_WIDTHS);
    let mut seen = [false; 16];
    let seconds = |_, n_drafted: usize| {
        let is_first = !std::mem::replace(&mut seen[n_drafted], true);
        0.01 * Machine::Linear(0.1).cost(n_drafted) + if is_first { 0.5 } else { 0.0 }
    };
    run(&mut policy, 600, seconds, |_| Some(20), |n, _| n % 30 != 0);
    let seconds = |_, n_drafted| 0.01 * Machine::Linear(0.1).cost(n_drafted);
    let (_, end) = run(&mut policy, 400, seconds, |_| Some(20), |n, _| n % 30 != 0);
    assert!(end < 0.6, "{end}");
}

#[test]
fn drafting_stops_if_each_row_costs_a_step() {
    let mut policy = DraftPolicy::new(&STEP_WIDTHS);
    let seconds = |_, n_drafted| 0.01 * Machine::Linear(1.0).cost(n_drafted);
    for _ in 0..3 {
        run(&mut policy, 200, seconds, |_| Some(20), |n, _| n % 30 != 0);
    }
    let (worst, _) = run(&mut policy, 400, seconds, |_| Some(20), |n, _| n % 30 != 0);
    assert!(worst < 1.000_001, "{worst}");
}

#[test]
fn accidental_matches_are_not_drafted() {
    let mut policy = DraftPolicy::new(&STEP_WIDTHS);
    let seconds = |_, n_drafted| 0.01 * Machine::Linear(0.1).cost(n_drafted);
    let is_correct = |n: usize, _| noise(n as u64) < 5;
    run(&mut policy, 200, seconds, |_| Some(3), is_correct);
    let (worst, _) = run(&mut policy, 400, seconds, |_| Some(3), is_correct);
    assert!(worst < 1.01, "{worst}");
}

#[test]
fn a_slow_first_step_of_a_length_is_forgiven() {
    let mut policy = DraftPolicy::new(&STEP_WIDTHS);
    let mut seen = [false; 16];
    let seconds = |_, n_drafted: usize| {
        let is_first = !std::mem::replace(&mut seen[n_drafted], true);
        0.01 * Machine::Linear(0.1).cost(n_drafted) + if is_first { 0.03 } else { 0.0 }
    };
    let (_, end) = run(&mut policy, 400, seconds, |_| Some(20), |n, _| n % 30 != 0);
    assert!(end < 0.6, "{end}");
}
