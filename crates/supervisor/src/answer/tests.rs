//! The stream of an ask: what a reader gets, whatever its pace.

use std::task::Poll;

use proptest::prelude::*;
use transom_engine::Section;

use super::*;

fn stream() -> (AnswerWriter, Answer, mpsc::UnboundedReceiver<Request>) {
    let (requests, receiver) = mpsc::unbounded_channel();
    let (writer, answer) = channel(AskId(7), requests, None);
    (writer, answer, receiver)
}

fn token(event: TokenEvent) -> AnswerEvent {
    AnswerEvent::Token { event }
}

fn text(section: Section, text: &str) -> AnswerEvent {
    token(TokenEvent::Text {
        section,
        text: text.to_owned(),
        generated_tokens: 0,
    })
}

fn prefill(done: usize) -> AnswerEvent {
    token(TokenEvent::Prefill { done, total: 9 })
}

fn queued(position: usize) -> AnswerEvent {
    let held = None;
    AnswerEvent::Queued { position, held }
}

fn ended() -> AnswerEvent {
    AnswerEvent::Ended {
        outcome: Outcome::Finished {
            reason: FinishReason::Stop,
            stats: Stats::default(),
        },
    }
}

async fn rest(answer: &mut Answer) -> Vec<AnswerEvent> {
    let mut events = Vec::new();
    while let Some(event) = answer.next().await {
        events.push(event);
    }
    events
}

#[tokio::test]
async fn a_reader_that_lags_gets_joined_text_and_the_latest_progress() {
    let (writer, mut answer, _requests) = stream();
    for event in [
        queued(3),
        queued(2),
        AnswerEvent::Loading { progress: None },
        prefill(3),
        prefill(9),
        text(Section::Reasoning, "Hm"),
        text(Section::Reasoning, "m."),
        text(Section::Answer, "Pa"),
        text(Section::Answer, "ris"),
        ended(),
    ] {
        writer.write(event);
    }
    let expected = [
        AnswerEvent::Loading { progress: None },
        prefill(9),
        text(Section::Reasoning, "Hmm."),
        text(Section::Answer, "Paris"),
        ended(),
    ];
    assert_eq!(rest(&mut answer).await, expected);
    assert_eq!(answer.next().await, None);
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_nothing() {
    let (writer, mut answer, _requests) = stream();
    {
        let mut wait = std::pin::pin!(answer.next());
        let poll = std::future::poll_fn(|context| Poll::Ready(wait.as_mut().poll(context)));
        assert_eq!(poll.await, Poll::Pending);
        writer.write(queued(1));
    }
    assert_eq!(answer.next().await, Some(queued(1)));
}

#[tokio::test]
async fn a_reader_that_goes_away_cancels_and_one_that_read_the_end_does_not() {
    let (_writer, answer, mut requests) = stream();
    drop(answer);
    assert!(matches!(requests.try_recv(), Ok(Request::Cancel(AskId(7)))));

    let (writer, mut answer, mut requests) = stream();
    writer.write(ended());
    rest(&mut answer).await;
    drop(answer);
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn a_writer_that_goes_away_ends_the_ask() {
    let (writer, mut answer, _requests) = stream();
    writer.write(text(Section::Answer, "Par"));
    drop(writer);
    let events = rest(&mut answer).await;
    assert_eq!(events[0], text(Section::Answer, "Par"));
    let AnswerEvent::Ended {
        outcome: Outcome::Failed { error },
    } = &events[1]
    else {
        panic!("{events:?}");
    };
    assert!(matches!(error, AskError::InstanceGone { .. }), "{error:?}");
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn nothing_follows_the_end() {
    let (writer, mut answer, _requests) = stream();
    writer.write(ended());
    writer.write(text(Section::Answer, "late"));
    writer.fail(AskError::Quitting);
    assert_eq!(rest(&mut answer).await, [ended()]);
}

#[tokio::test]
async fn what_nobody_reads_is_not_kept() {
    let (writer, answer, _requests) = stream();
    let stream = answer.stream.clone();
    writer.write(text(Section::Answer, "Paris"));
    drop(answer);
    writer.write(text(Section::Answer, "Paris"));
    assert!(stream.state().unread.is_empty());
}

/// A step of a history: the writer's or the reader's turn.
#[derive(Debug, Clone)]
enum Turn {
    Write(AnswerEvent),
    Read,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let section = prop_oneof![Just(Section::Reasoning), Just(Section::Answer)];
    let turn = prop_oneof![
        3 => (section, "[a-zé]{1,3}").prop_map(|(section, said)| Turn::Write(text(section, &said))),
        1 => (0..9_usize).prop_map(|done| Turn::Write(prefill(done))),
        2 => Just(Turn::Read),
    ];
    prop::collection::vec(turn, 0..60)
}

/// What a reader has at the end: the text by runs of a section, and the last progress between.
fn gist(events: &[AnswerEvent]) -> Vec<AnswerEvent> {
    let mut state = State::default();
    for event in events {
        state.push(event.clone());
    }
    state.unread.into()
}

proptest! {
    /// D092: a slow reader loses no text, and the end comes once and last.
    #[test]
    fn the_text_is_the_same_whatever_the_readers_pace(turns in turns()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (writer, mut answer, _requests) = stream();
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for turn in turns {
            match turn {
                Turn::Write(event) => {
                    written.push(event.clone());
                    writer.write(event);
                }
                Turn::Read if !answer.stream.state().unread.is_empty() => {
                    read.extend(runtime.block_on(answer.next()));
                }
                Turn::Read => {}
            }
            let n_unread = answer.stream.state().unread.len();
            prop_assert!(n_unread + read.len() <= written.len());
        }
        written.push(ended());
        writer.write(ended());
        drop(writer);
        read.extend(runtime.block_on(rest(&mut answer)));
        prop_assert_eq!(text_of(&read), text_of(&written));
        prop_assert_eq!(gist(&read), gist(&written));
        prop_assert_eq!(read.iter().filter(|event| **event == ended()).count(), 1);
        prop_assert_eq!(read.last(), Some(&ended()));
    }
}

/// The text of each section, without what came between.
fn text_of(events: &[AnswerEvent]) -> [String; 2] {
    let of = |wanted: Section| {
        let texts = events.iter().filter_map(|event| match event {
            AnswerEvent::Token {
                event: TokenEvent::Text { section, text, .. },
            } if *section == wanted => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    };
    [of(Section::Reasoning), of(Section::Answer)]
}
