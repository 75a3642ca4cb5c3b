//! The generation loop with a scripted decoder.

use std::cell::Cell;
use std::time::Instant;

use super::*;
use crate::constraint::{ConstraintCheck, Grammar};
use crate::event::{FinishReason, Section, TokenEvent};
use crate::test_support::Recorder;

/// Returns these results in order, and then reports a full context.
struct ScriptedDecoder<'a> {
    next: VecDeque<NextToken>,
    /// Scores every token, if the request asks for that.
    n_top: Option<u8>,
    last: u32,
    limits: &'a Cell<Vec<usize>>,
    fails: bool,
    n_finished: usize,
}

thread_local! {
    static N_TRIMS: Cell<usize> = const { Cell::new(0) };
}

impl Decode for ScriptedDecoder<'_> {
    fn n_cached(&self) -> usize {
        1
    }

    fn is_recurrent(&self) -> bool {
        false
    }

    fn add_checkpoint(&mut self) {}

    fn prefill_step(&mut self, _: &[u32], _: bool, _: &JobControl) -> Result<bool, EngineError> {
        match self.fails {
            true => Err(EngineError::backend("prefill", "the device is lost")),
            false => Ok(true),
        }
    }

    fn next(&mut self, n_left: usize, _: &JobControl) -> Result<NextToken, EngineError> {
        let mut limits = self.limits.take();
        limits.push(n_left);
        self.limits.set(limits);
        let next = self.next.pop_front().unwrap_or(NextToken::ContextFull);
        if let NextToken::Token(token) = next {
            self.last = token;
        }
        Ok(next)
    }

    /// The logit of each token is its id, so the log probability of the last one is nearly -0.46.
    fn take_scores(&mut self) -> Option<Scores> {
        let logits: Vec<f32> = (0..128_u8).map(f32::from).collect();
        Some(Scores::new(&logits, self.last, self.n_top?))
    }

    fn add_counts(&self, stats: &mut Stats) {
        stats.drafted_tokens = 3;
        stats.accepted_tokens = 2;
        stats.shifted_tokens = 1;
    }

    fn release_spare_memory(&mut self) {
        N_TRIMS.set(N_TRIMS.get() + 1);
    }

    fn finish(&mut self) {
        self.n_finished += 1;
    }
}

/// Tokens are ASCII codes. 0 ends the text; 1 and 2 are the two bytes of one character.
struct LetterDetokenizer;

impl Detokenize for LetterDetokenizer {
    fn is_end(&self, token: u32) -> bool {
        token == 0
    }

    fn push(&mut self, token: u32) -> Cow<'_, [u8]> {
        match token {
            1 => vec![0xc3].into(),
            2 => vec![0xa4].into(),
            letter => vec![letter as u8].into(),
        }
    }

    fn peek(&self, token: u32) -> Vec<u8> {
        Self.push(token).into_owned()
    }
}

struct Output {
    reason: FinishReason,
    stats: Stats,
    /// Each text with its number of generated tokens.
    texts: Vec<(String, usize)>,
    /// For each text, the tokens whose log probabilities it has.
    scored: Vec<Vec<u32>>,
    events: Vec<TokenEvent>,
    limits: Vec<usize>,
}

fn generation<'a>(
    tokens: &[NextToken],
    params: &GenerationParams,
    control: &JobControl,
    limits: &'a Cell<Vec<usize>>,
) -> Generation<ScriptedDecoder<'a>, LetterDetokenizer> {
    let decoder = ScriptedDecoder {
        next: tokens.iter().copied().collect(),
        n_top: params.logprobs,
        last: 0,
        limits,
        fails: false,
        n_finished: 0,
    };
    let prompt = PreparedPrompt {
        dropped_messages: 2,
        ..PreparedPrompt::new(vec![7; 6])
    };
    let job = Job {
        max_tokens: params.max_tokens.unwrap_or(100),
        prefill_chunk: 2,
        ..Job::new(prompt, params, control, Instant::now())
    };
    Generation::new(job, decoder, LetterDetokenizer)
}

fn run_job(tokens: &[NextToken], params: &GenerationParams, control: &JobControl) -> Output {
    let limits = Cell::default();
    let mut generation = generation(tokens, params, control, &limits);
    let mut recorder = Recorder::default();
    let (reason, stats) = loop {
        assert_eq!(generation.decoder().n_finished, 0);
        if let Some(end) = generation.step(&mut recorder).unwrap() {
            break end;
        }
    };
    assert_eq!(generation.into_decoder().n_finished, 1);
    let Recorder {
        tokens: returned,
        events,
    } = recorder;
    let drawn = tokens.iter().filter_map(|next| match next {
        NextToken::Token(token) => Some(*token),
        NextToken::Complete | NextToken::ContextFull | NextToken::Stopped => None,
    });
    let drawn: Vec<u32> = drawn.take(returned.len()).collect();
    assert_eq!(returned, drawn);
    let started = TokenEvent::Started {
        prompt_tokens: 6,
        cached_tokens: 1,
        dropped_messages: 2,
        unconstrained_tools: Vec::new(),
    };
    assert_eq!(events.first(), Some(&started));
    let texts = events.iter().filter_map(|event| match event {
        TokenEvent::Text {
            section: Section::Answer,
            text,
            generated_tokens,
            ..
        } => Some((text.clone(), *generated_tokens)),
        _ => None,
    });
    let scored = events.iter().filter_map(|event| match event {
        TokenEvent::Text { logprobs, .. } => {
            Some(logprobs.iter().map(|one| one.chosen.token).collect())
        }
        _ => None,
    });
    Output {
        reason,
        stats,
        texts: texts.collect(),
        scored: scored.collect(),
        events: events.clone(),
        limits: limits.take(),
    }
}

fn letters(text: &str) -> Vec<NextToken> {
    text.bytes()
        .map(|byte| NextToken::Token(byte.into()))
        .collect()
}

fn run_tokens(tokens: &[NextToken], params: &GenerationParams) -> Output {
    run_job(tokens, params, &JobControl::new())
}

#[test]
fn each_text_event_has_the_number_of_tokens_so_far() {
    let mut tokens = letters("ab");
    tokens.extend([1, 2, u32::from(b'c'), 0].map(NextToken::Token));
    let output = run_tokens(&tokens, &GenerationParams::default());
    let expected = [("a", 1), ("b", 2), ("\u{e4}", 4), ("c", 5)];
    let expected = expected.map(|(text, n)| (text.to_owned(), n));
    assert_eq!(output.texts, expected);
    assert_eq!(output.reason, FinishReason::Stop);
    assert_eq!(
        output.stats.generated_tokens, 5,
        "the end-of-text token does not count"
    );
    assert_eq!(
        (output.stats.prompt_tokens, output.stats.cached_tokens),
        (6, 1)
    );
    assert_eq!(
        (output.stats.drafted_tokens, output.stats.accepted_tokens),
        (3, 2)
    );
}

#[test]
fn text_held_back_until_the_end_counts_all_tokens() {
    let tokens = [NextToken::Token(u32::from(b'a')), NextToken::Token(1)];
    let output = run_tokens(&tokens, &GenerationParams::default());
    let expected = [("a".to_owned(), 1), ("\u{fffd}".to_owned(), 2)];
    assert_eq!(output.texts, expected);
    assert_eq!(output.reason, FinishReason::Length, "the context was full");
}

#[test]
fn a_response_ends_at_its_limit_and_the_decoder_knows_how_many_tokens_are_left() {
    let params = GenerationParams {
        max_tokens: Some(3),
        ..GenerationParams::default()
    };
    let output = run_tokens(&letters("abcdef"), &params);
    assert_eq!(output.reason, FinishReason::Length);
    assert_eq!(output.stats.generated_tokens, 3);
    assert_eq!(output.limits, [3, 2, 1]);
}

#[test]
fn a_stop_string_ends_a_response_and_ignored_end_of_text_tokens_do_not() {
    let params = GenerationParams {
        stop: vec!["cd".to_owned()],
        ignore_end_of_text: true,
        ..GenerationParams::default()
    };
    let mut tokens = letters("ab");
    tokens.push(NextToken::Token(0));
    tokens.extend(letters("cdef"));
    let output = run_tokens(&tokens, &params);
    assert_eq!(output.reason, FinishReason::Stop);
    assert_eq!(output.stats.generated_tokens, 5);
    let text: String = output.texts.into_iter().map(|(text, _)| text).collect();
    assert_eq!(text, "ab\0");
}

fn scored(text: &str, params: GenerationParams) -> Output {
    let params = GenerationParams {
        logprobs: Some(2),
        ..params
    };
    run_tokens(&letters(text), &params)
}

#[test]
fn log_probabilities_come_with_the_text_of_their_tokens() {
    let output = scored("ab", GenerationParams::default());
    assert_eq!(output.scored, [vec![97], vec![98]]);
    let Some(TokenEvent::Text { logprobs, .. }) = output.events.last() else {
        panic!("{:?}", output.events);
    };
    let of_b = &logprobs[0];
    assert_eq!((of_b.chosen.token, &*of_b.chosen.bytes), (98, &b"b"[..]));
    // 127 is the most likely token, and 98 is 29 below it.
    assert!((of_b.chosen.logprob - (-29.4587)).abs() < 1e-3, "{of_b:?}");
    let top: Vec<u32> = of_b.top.iter().map(|one| one.token).collect();
    assert_eq!(top, [127, 126]);
    assert!((of_b.top[0].logprob - (-0.4587)).abs() < 1e-3, "{of_b:?}");
    let without = run_tokens(&letters("ab"), &GenerationParams::default());
    assert!(without.scored.iter().all(Vec::is_empty));
}

#[test]
fn log_probabilities_wait_for_characters_and_stop_strings() {
    let halves = [1, 2, u32::from(b'c')].map(NextToken::Token);
    let params = GenerationParams {
        logprobs: Some(0),
        ..GenerationParams::default()
    };
    assert_eq!(run_tokens(&halves, &params).scored, [vec![1, 2], vec![99]]);
    let stop = |text: &str| GenerationParams {
        stop: vec!["never".to_owned(), text.to_owned()],
        ..GenerationParams::default()
    };
    // `b` may begin the stop string, and is text after all.
    let output = scored("abd", stop("bc"));
    assert_eq!(output.scored, [vec![97], vec![98, 100]]);
    assert_eq!(output.stats.matched_stop, None);
    let output = scored("abcd", stop("bc"));
    assert_eq!(output.scored, [vec![97]], "a stop string is not reported");
    assert_eq!(output.stats.matched_stop, Some(1));
    let output = scored("ab", stop("bc"));
    assert_eq!(
        output.scored,
        [vec![97], vec![98]],
        "held back until the end"
    );
}

#[test]
fn markers_and_layout_have_no_log_probabilities() {
    let output = scored("<think>\nab</think>\n\ncd", GenerationParams::default());
    let tokens = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
    assert_eq!(output.scored.concat(), tokens("abcd"));
    let texts: String = output.texts.into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, "cd");
}

#[test]
fn a_stopped_job_returns_its_reason_and_no_token() {
    let control = JobControl::new();
    control.shed();
    let output = run_job(&letters("abc"), &GenerationParams::default(), &control);
    assert_eq!(output.reason, FinishReason::Shed);
    assert_eq!((output.texts.len(), output.limits.len()), (0, 0));
}

#[test]
fn spare_memory_is_released_once_per_request() {
    let control = JobControl::new();
    control.request_trim();
    let before = N_TRIMS.get();
    run_job(&letters("abc"), &GenerationParams::default(), &control);
    assert_eq!(N_TRIMS.get(), before + 1);
}

/// Prompts are read in chunks and tokens one at a time, so other responses get their turn.
#[test]
fn each_step_is_a_chunk_of_the_prompt_or_a_token() {
    let limits = Cell::default();
    let (params, control) = (GenerationParams::default(), JobControl::new());
    let mut generation = generation(&letters("ab"), &params, &control, &limits);
    let mut n_events = Vec::new();
    loop {
        let mut recorder = Recorder::default();
        let end = generation.step(&mut recorder).unwrap();
        n_events.push(recorder.events.len());
        if let Some((reason, _)) = end {
            assert_eq!(reason, FinishReason::Length);
            break;
        }
    }
    // One of the 6 tokens is cached, and `Started` comes with the first chunk.
    assert_eq!(n_events, [2, 1, 1, 1, 1, 0]);
}

#[test]
fn a_failed_response_is_finished_too() {
    let limits = Cell::default();
    let (params, control) = (GenerationParams::default(), JobControl::new());
    let mut generation = generation(&[], &params, &control, &limits);
    generation.decoder_mut().fails = true;
    let result = generation.step(&mut Recorder::default());
    assert!(result.is_err(), "{result:?}");
    assert_eq!(generation.into_decoder().n_finished, 1);
}

#[test]
fn accepted_draft_tokens_count_once_they_are_returned() {
    let mut pending = PendingTokens::default();
    let counts = |pending: &PendingTokens| {
        let mut stats = Stats::default();
        pending.add_counts(&mut stats);
        (stats.drafted_tokens, stats.accepted_tokens)
    };
    // Two of three draft tokens were accepted, and another token was sampled after them.
    (1..=3).for_each(|token| pending.push(token));
    pending.record_draft(3, 2);
    let mut found = vec![(pending.pop(), counts(&pending))];
    while !pending.is_empty() {
        found.push((pending.pop(), counts(&pending)));
    }
    assert_eq!(
        found,
        [(Some(1), (3, 1)), (Some(2), (3, 2)), (Some(3), (3, 2))]
    );
    assert_eq!(pending.pop(), None);
    // The response ends inside text that a constraint forces, which is not of a draft.
    (4..=9).for_each(|token| pending.push(token));
    assert_eq!((pending.pop(), counts(&pending)), (Some(4), (3, 2)));
}

#[test]
fn no_token_needs_to_follow_an_accepted_draft() {
    let mut pending = PendingTokens::default();
    // The draft ends the response.
    (1..=2).for_each(|token| pending.push(token));
    pending.record_draft(2, 2);
    let mut stats = Stats::default();
    pending.add_counts(&mut stats);
    assert_eq!(stats.accepted_tokens, 0);
    (1..=2).for_each(|token| assert_eq!(pending.pop(), Some(token)));
    pending.add_counts(&mut stats);
    assert_eq!(stats.accepted_tokens, 2);
}

/// Returns a response whose prompt is read while its constraint is compiled, and what ends that.
fn waiting<'a>(
    control: &JobControl,
    limits: &'a Cell<Vec<usize>>,
    recorder: &mut Recorder,
) -> (
    Generation<ScriptedDecoder<'a>, LetterDetokenizer>,
    impl Fn(&Grammar) + use<>,
) {
    let (check, end) = ConstraintCheck::scripted();
    let params = GenerationParams::default();
    let mut generation = generation(&letters("ab"), &params, control, limits);
    generation.set_constraint(check);
    for _ in 0..3 {
        assert!(!generation.is_waiting(), "a part of the prompt is left");
        assert_eq!(generation.step(recorder), Ok(None));
    }
    for _ in 0..2 {
        assert!(generation.is_waiting());
        assert_eq!(generation.step(recorder), Ok(None));
    }
    assert!(recorder.events.is_empty());
    (generation, end)
}

#[test]
fn a_response_gives_its_turns_away_until_its_constraint_is_compiled() {
    let (limits, mut recorder) = (Cell::default(), Recorder::default());
    let (mut generation, end) = waiting(&JobControl::new(), &limits, &mut recorder);
    end(&Grammar::JsonObject);
    assert!(!generation.is_waiting());
    assert_eq!(generation.step(&mut recorder), Ok(None));
    assert_eq!(recorder.tokens, [97]);
    assert!(matches!(
        &*recorder.events,
        [
            TokenEvent::Started { .. },
            TokenEvent::Prefill { .. },
            TokenEvent::Text { .. }
        ]
    ));
    assert_eq!(limits.take(), [100], "the decoder was asked for one token");
}

#[test]
fn a_constraint_that_is_refused_after_the_prompt_is_an_error_before_the_first_event() {
    let (limits, mut recorder) = (Cell::default(), Recorder::default());
    let (mut generation, end) = waiting(&JobControl::new(), &limits, &mut recorder);
    end(&Grammar::Regex("(".to_owned()));
    assert!(!generation.is_waiting());
    let failed = generation.step(&mut recorder);
    assert!(matches!(failed, Err(EngineError::InvalidConstraint { .. })));
    assert!(recorder.events.is_empty());
    assert_eq!(generation.into_decoder().n_finished, 1);
}

#[test]
fn a_response_that_waits_for_its_constraint_can_be_stopped() {
    let (limits, mut recorder) = (Cell::default(), Recorder::default());
    let control = JobControl::new();
    let (mut generation, _end) = waiting(&control, &limits, &mut recorder);
    control.cancel();
    let ended = generation.step(&mut recorder).unwrap();
    assert_eq!(ended.unwrap().0, FinishReason::Canceled);
    assert!(matches!(
        &*recorder.events,
        [TokenEvent::Started { .. }, TokenEvent::Prefill { .. }]
    ));
    assert!(limits.take().is_empty());
}
