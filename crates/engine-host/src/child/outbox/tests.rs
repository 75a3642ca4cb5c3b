use proptest::prelude::*;
use transom_engine::{LoadProgress, Section, TokenEvent};

use super::*;
use crate::wire::JobId;

fn event(job: u64, event: TokenEvent) -> Report {
    Report::Event {
        job: JobId(job),
        event,
    }
}

fn text(job: u64, section: Section, text: &str) -> Report {
    counted(job, section, text, 0)
}

fn counted(job: u64, section: Section, text: &str, generated_tokens: usize) -> Report {
    let text = TokenEvent::Text {
        section,
        text: text.to_owned(),
        generated_tokens,
        logprobs: Vec::new(),
    };
    event(job, text)
}

fn prefill(job: u64, done: usize) -> Report {
    event(job, TokenEvent::Prefill { done, total: 100 })
}

fn progress(done_bytes: u64) -> Report {
    Report::LoadProgress {
        progress: LoadProgress {
            done_bytes,
            total_bytes: 100,
        },
    }
}

fn queue(reports: impl IntoIterator<Item = Report>) -> Vec<Report> {
    let mut queue = Queue::default();
    for report in reports {
        queue.push(report);
    }
    std::iter::from_fn(|| queue.pop()).collect()
}

#[test]
fn texts_of_one_section_are_joined_and_no_others() {
    use Section::{Answer, Reasoning};
    let queued = queue([
        text(1, Reasoning, "a"),
        text(1, Reasoning, "b"),
        text(1, Answer, "c"),
        text(1, Answer, "d"),
        text(2, Answer, "e"),
    ]);
    let expected = [
        text(1, Reasoning, "ab"),
        text(1, Answer, "cd"),
        text(2, Answer, "e"),
    ];
    assert_eq!(queued, expected);
}

/// Responses that are generated in turns do not fill the queue.
#[test]
fn texts_of_jobs_that_take_turns_are_joined() {
    let answer = |job, letter| text(job, Section::Answer, letter);
    let turns = [("a", "d"), ("b", "e"), ("c", "f")];
    let turns = turns.map(|(one, other)| [answer(1, one), answer(2, other)]);
    let queued = queue(turns.concat());
    assert_eq!(queued, [answer(1, "abc"), answer(2, "def")]);
    // Nothing passes the end of a job.
    let trimmed = Report::Trimmed {
        bytes: 1,
        memory: Default::default(),
    };
    let queued = queue([answer(1, "a"), trimmed.clone(), answer(1, "b")]);
    assert_eq!(queued, [answer(1, "a"), trimmed, answer(1, "b")]);
}

/// A slow reader can still compute the speed of the model.
#[test]
fn a_joined_text_has_the_latest_count_of_tokens() {
    let queued = queue([
        counted(1, Section::Answer, "a", 3),
        counted(1, Section::Answer, "b", 5),
    ]);
    assert_eq!(queued, [counted(1, Section::Answer, "ab", 5)]);
}

#[test]
fn only_the_latest_progress_is_queued() {
    let queued = queue([progress(1), progress(2), prefill(1, 1), prefill(1, 2)]);
    assert_eq!(queued, [progress(2), prefill(1, 2)]);
    let queued = queue([prefill(1, 9), prefill(2, 1)]);
    assert_eq!(queued, [prefill(1, 9), prefill(2, 1)]);
}

#[test]
fn the_latest_pong_comes_first() {
    let pong = |nonce| Report::Pong {
        nonce,
        silent_seconds: 0.0,
    };
    let queued = queue([progress(1), pong(1), progress(2), pong(2)]);
    assert_eq!(queued, [pong(2), progress(2)]);
}

#[test]
fn a_huge_text_is_split_between_characters_into_reports_that_fit_a_frame() {
    let huge = "\u{1f44d}\u{1}".repeat(1 << 20);
    let parts = queue([text(1, Section::Answer, &huge)]);
    let mut joined = String::new();
    for part in &parts {
        crate::frame::encode(part).unwrap();
        let Report::Event {
            event: TokenEvent::Text { text, .. },
            ..
        } = part
        else {
            panic!("{part:?}");
        };
        assert!(text.len() <= MAX_TEXT_BYTES);
        joined.push_str(text);
    }
    assert!(joined == huge);
}

#[test]
fn an_abandoned_outbox_drops_all_reports() {
    let outbox = Outbox::default();
    outbox.push(progress(1));
    outbox.abandon();
    outbox.push(progress(2));
    outbox.close();
    assert_eq!(outbox.take(), None);
}

/// Undoes joins: returns each character with its job and section, and every other report, but only
/// the last of consecutive progress. Events between two other reports are sorted by their job.
fn normalized(reports: &[Report]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let is_event = |report: &Report| matches!(report, Report::Event { .. });
    for reports in reports.chunk_by(|a, b| is_event(a) && is_event(b)) {
        let mut events: Vec<(u64, String)> = Vec::new();
        for report in reports {
            match report {
                Report::Event {
                    job,
                    event: TokenEvent::Text { section, text, .. },
                } => events.extend(
                    text.chars()
                        .map(|c| (job.0, format!("{job:?} {section:?} {c}"))),
                ),
                Report::Event { job, .. } => events.push((job.0, format!("{report:?}"))),
                other => events.push((0, format!("{other:?}"))),
            }
        }
        events.sort_by_key(|(job, _)| *job);
        for (_, line) in events {
            let start = |line: &str| line.split("done").next().map(str::to_owned);
            let is_progress = line.contains("rogress") || line.contains("Prefill");
            if is_progress && lines.last().is_some_and(|last| start(last) == start(&line)) {
                lines.pop();
            }
            lines.push(line);
        }
    }
    lines
}

fn any_report() -> impl Strategy<Value = Report> {
    let section = prop_oneof![Just(Section::Reasoning), Just(Section::Answer)];
    prop_oneof![
        4 => (1..3u64, section, "[a-c\u{e4}\u{1f44d}]{1,4}").prop_map(|(job, s, t)| text(job, s, &t)),
        1 => (1..3u64, 0..100usize).prop_map(|(job, done)| prefill(job, done)),
        1 => (0..100u64).prop_map(progress),
        1 => (0..9u64).prop_map(|bytes| Report::Trimmed { bytes, memory: Default::default() }),
    ]
}

proptest! {
    /// A slow reader gets the same text and the same other reports, in the same order.
    #[test]
    fn a_slow_reader_gets_the_same_as_a_fast_one(
        steps in prop::collection::vec((any_report(), 0..3usize), 0..60)
    ) {
        let mut queue = Queue::default();
        let mut taken = Vec::new();
        for (report, n_takes) in &steps {
            queue.push(report.clone());
            taken.extend((0..*n_takes).filter_map(|_| queue.pop()));
        }
        taken.extend(std::iter::from_fn(|| queue.pop()));
        let pushed: Vec<Report> = steps.into_iter().map(|(report, _)| report).collect();
        prop_assert_eq!(normalized(&taken), normalized(&pushed));
    }
}
