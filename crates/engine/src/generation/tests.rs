//! The loop round a decoder that gives what it was told to.

use std::cell::Cell;
use std::collections::VecDeque;

use super::*;
use crate::event::Section;

/// Gives these in order, and then nothing but the end of the context.
struct Scripted<'a> {
    next: VecDeque<Next>,
    rooms: &'a Cell<Vec<usize>>,
    is_settled: &'a Cell<bool>,
}

impl Drop for Scripted<'_> {
    fn drop(&mut self) {
        self.is_settled.set(true);
    }
}

thread_local! {
    static N_TRIMS: Cell<usize> = const { Cell::new(0) };
}

impl Decode for Scripted<'_> {
    fn n_cached(&self) -> usize {
        1
    }

    fn prefill(
        &mut self,
        prompt: &[u32],
        chunk: usize,
        control: &JobControl,
        mut on_progress: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        let mut done = self.n_cached();
        while done < prompt.len() && !control.is_stopped() {
            done = prompt.len().min(done + chunk);
            on_progress(done);
        }
        Ok(())
    }

    fn next(&mut self, room: usize, _: &JobControl) -> Result<Next, EngineError> {
        let mut rooms = self.rooms.take();
        rooms.push(room);
        self.rooms.set(rooms);
        Ok(self.next.pop_front().unwrap_or(Next::Full))
    }

    fn counts(&self) -> Counts {
        Counts {
            drafted: 3,
            accepted: 2,
            shifted: 1,
        }
    }

    fn give_spare_memory_back() {
        N_TRIMS.set(N_TRIMS.get() + 1);
    }
}

/// Letters by their numbers; 0 ends the text, and 1 is the first half of a character whose second
/// half is 2.
struct Letters;

impl Spell for Letters {
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
}

struct Ran {
    reason: FinishReason,
    stats: Stats,
    /// Each text with the tokens that it told of.
    texts: Vec<(String, usize)>,
    rooms: Vec<usize>,
}

fn run_with(tokens: &[Next], params: &GenerationParams, control: &JobControl) -> Ran {
    let (rooms, is_settled) = (Cell::default(), Cell::default());
    let decoder = Scripted {
        next: tokens.iter().copied().collect(),
        rooms: &rooms,
        is_settled: &is_settled,
    };
    let prompt = PreparedPrompt {
        tokens: vec![7; 6],
        starts_in_reasoning: None,
        dropped_messages: 2,
        system_tokens: 0,
    };
    let job = Job {
        prompt: &prompt,
        params,
        max_tokens: params.max_tokens.unwrap_or(100),
        chunk: 2,
        began: Instant::now(),
    };
    let mut events = Vec::new();
    let mut handed_out = Vec::new();
    let mut sink = |event| events.push(event);
    let ran = run(job, decoder, Letters, control, &mut sink, &mut |token| {
        handed_out.push(token);
    });
    let (reason, stats) = ran.unwrap();
    assert!(is_settled.get(), "nothing runs any more");
    let drawn = tokens.iter().filter_map(|next| match next {
        Next::Token(token) => Some(*token),
        Next::Full | Next::Stopped => None,
    });
    let drawn: Vec<u32> = drawn.take(handed_out.len()).collect();
    assert_eq!(handed_out, drawn);
    let started = TokenEvent::Started {
        prompt_tokens: 6,
        cached_tokens: 1,
        dropped_messages: 2,
    };
    assert_eq!(events.first(), Some(&started));
    let texts = events.iter().filter_map(|event| match event {
        TokenEvent::Text {
            section: Section::Answer,
            text,
            generated_tokens,
        } => Some((text.clone(), *generated_tokens)),
        _ => None,
    });
    Ran {
        reason,
        stats,
        texts: texts.collect(),
        rooms: rooms.take(),
    }
}

fn letters(text: &str) -> Vec<Next> {
    text.bytes().map(|byte| Next::Token(byte.into())).collect()
}

fn ran(tokens: &[Next], params: &GenerationParams) -> Ran {
    run_with(tokens, params, &JobControl::new())
}

#[test]
fn each_text_tells_how_many_tokens_there_were_when_it_came() {
    let mut tokens = letters("ab");
    tokens.extend([1, 2, u32::from(b'c'), 0].map(Next::Token));
    let ran = ran(&tokens, &GenerationParams::default());
    let expected = [("a", 1), ("b", 2), ("\u{e4}", 4), ("c", 5)];
    let expected = expected.map(|(text, n)| (text.to_owned(), n));
    assert_eq!(ran.texts, expected);
    assert_eq!(ran.reason, FinishReason::Stop);
    assert_eq!(ran.stats.generated_tokens, 5, "the end is none of them");
    assert_eq!((ran.stats.prompt_tokens, ran.stats.cached_tokens), (6, 1));
    assert_eq!(
        (ran.stats.drafted_tokens, ran.stats.accepted_tokens),
        (3, 2)
    );
}

#[test]
fn what_is_held_back_at_the_end_tells_of_all_tokens() {
    let tokens = [Next::Token(u32::from(b'a')), Next::Token(1)];
    let ran = ran(&tokens, &GenerationParams::default());
    let expected = [("a".to_owned(), 1), ("\u{fffd}".to_owned(), 2)];
    assert_eq!(ran.texts, expected);
    assert_eq!(ran.reason, FinishReason::Length, "the context was full");
}

#[test]
fn an_answer_ends_at_its_limit_and_says_how_much_room_is_left() {
    let params = GenerationParams {
        max_tokens: Some(3),
        ..GenerationParams::default()
    };
    let ran = ran(&letters("abcdef"), &params);
    assert_eq!(ran.reason, FinishReason::Length);
    assert_eq!(ran.stats.generated_tokens, 3);
    assert_eq!(ran.rooms, [3, 2, 1]);
}

#[test]
fn a_stop_string_ends_it_and_an_end_of_text_only_where_it_counts() {
    let params = GenerationParams {
        stop: vec!["cd".to_owned()],
        ignore_end_of_text: true,
        ..GenerationParams::default()
    };
    let mut tokens = letters("ab");
    tokens.push(Next::Token(0));
    tokens.extend(letters("cdef"));
    let ran = ran(&tokens, &params);
    assert_eq!(ran.reason, FinishReason::Stop);
    assert_eq!(ran.stats.generated_tokens, 5);
    let text: String = ran.texts.into_iter().map(|(text, _)| text).collect();
    assert_eq!(text, "ab\0");
}

#[test]
fn a_job_that_was_stopped_says_why_and_gives_no_token() {
    let control = JobControl::new();
    control.shed();
    let ran = run_with(&letters("abc"), &GenerationParams::default(), &control);
    assert_eq!(ran.reason, FinishReason::Shed);
    assert_eq!((ran.texts.len(), ran.rooms.len()), (0, 0));
}

#[test]
fn spare_memory_goes_back_once_for_each_time_it_is_asked_for() {
    let control = JobControl::new();
    control.request_trim();
    let before = N_TRIMS.get();
    run_with(&letters("abc"), &GenerationParams::default(), &control);
    assert_eq!(N_TRIMS.get(), before + 1);
}
