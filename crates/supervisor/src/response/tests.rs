//! Tests of response streams with readers of any speed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use proptest::prelude::*;
use transom_engine::Section;

use super::*;

/// Returns the writer and the reader of a request, and whether it was canceled.
fn stream() -> (ResponseWriter, Response, Arc<AtomicBool>) {
    let is_canceled = Arc::<AtomicBool>::default();
    let flag = is_canceled.clone();
    let cancel = move || flag.store(true, Ordering::Relaxed);
    let (writer, response) = channel(RequestId(7), cancel, None);
    (writer, response, is_canceled)
}

fn token(event: TokenEvent) -> ResponseEvent {
    ResponseEvent::Token { event }
}

fn text(section: Section, text: &str) -> ResponseEvent {
    token(TokenEvent::Text {
        section,
        text: text.to_owned(),
        generated_tokens: 0,
        logprobs: Vec::new(),
    })
}

fn prefill(done: usize) -> ResponseEvent {
    token(TokenEvent::Prefill { done, total: 9 })
}

fn queued(position: usize) -> ResponseEvent {
    let blocked_by = None;
    ResponseEvent::Queued {
        position,
        blocked_by,
    }
}

fn ended() -> ResponseEvent {
    ResponseEvent::Ended {
        outcome: Outcome::Finished {
            reason: FinishReason::Stop,
            stats: Stats::default(),
        },
    }
}

async fn rest(response: &mut Response) -> Vec<ResponseEvent> {
    let mut events = Vec::new();
    while let Some(event) = response.next().await {
        events.push(event);
    }
    events
}

#[tokio::test]
async fn a_slow_reader_gets_joined_text_and_the_latest_progress() {
    let (writer, mut response, _) = stream();
    for event in [
        queued(3),
        queued(2),
        ResponseEvent::Loading { progress: None },
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
        ResponseEvent::Loading { progress: None },
        prefill(9),
        text(Section::Reasoning, "Hmm."),
        text(Section::Answer, "Paris"),
        ended(),
    ];
    assert_eq!(rest(&mut response).await, expected);
    assert_eq!(response.next().await, None);
}

#[tokio::test]
async fn a_dropped_next_future_loses_no_event() {
    let (writer, mut response, _) = stream();
    {
        let mut wait = std::pin::pin!(response.next());
        let poll = std::future::poll_fn(|context| Poll::Ready(wait.as_mut().poll(context)));
        assert_eq!(poll.await, Poll::Pending);
        writer.write(queued(1));
    }
    assert_eq!(response.next().await, Some(queued(1)));
}

#[tokio::test]
async fn dropping_a_response_cancels_it_unless_its_end_was_read() {
    let (_writer, response, is_canceled) = stream();
    drop(response);
    assert!(is_canceled.load(Ordering::Relaxed));

    let (writer, mut response, is_canceled) = stream();
    writer.write(ended());
    rest(&mut response).await;
    drop(response);
    assert!(!is_canceled.load(Ordering::Relaxed));
}

#[tokio::test]
async fn dropping_the_writer_ends_the_request() {
    let (writer, mut response, _) = stream();
    writer.write(text(Section::Answer, "Par"));
    drop(writer);
    let events = rest(&mut response).await;
    assert_eq!(events[0], text(Section::Answer, "Par"));
    let ResponseEvent::Ended {
        outcome: Outcome::Failed { error },
    } = &events[1]
    else {
        panic!("{events:?}");
    };
    assert!(
        matches!(error, RequestError::InstanceGone { .. }),
        "{error:?}"
    );
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn no_event_follows_the_end() {
    let (writer, mut response, _) = stream();
    writer.write(ended());
    writer.write(text(Section::Answer, "late"));
    writer.fail(RequestError::Quitting);
    assert_eq!(rest(&mut response).await, [ended()]);
}

#[tokio::test]
async fn events_without_a_reader_are_dropped() {
    let (writer, response, _) = stream();
    let stream = response.stream.clone();
    writer.write(text(Section::Answer, "Paris"));
    drop(response);
    writer.write(text(Section::Answer, "Paris"));
    assert!(stream.state.lock().unread.is_empty());
}

/// An action of the writer or the reader.
#[derive(Debug, Clone)]
enum Action {
    Write(ResponseEvent),
    Read,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let section = prop_oneof![Just(Section::Reasoning), Just(Section::Answer)];
    let action = prop_oneof![
        3 => (section, "[a-zé]{1,3}").prop_map(|(section, words)| Action::Write(text(section, &words))),
        1 => (0..9_usize).prop_map(|done| Action::Write(prefill(done))),
        2 => Just(Action::Read),
    ];
    prop::collection::vec(action, 0..60)
}

/// Joins all events, as for a reader that reads only at the end.
fn joined(events: &[ResponseEvent]) -> Vec<ResponseEvent> {
    let mut state = State::default();
    for event in events {
        state.push(event.clone());
    }
    state.unread.into()
}

proptest! {
    /// A slow reader loses no text, and the end occurs once, as the last event.
    #[test]
    fn the_text_does_not_depend_on_the_speed_of_the_reader(actions in actions()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (writer, mut response, _) = stream();
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Write(event) => {
                    written.push(event.clone());
                    writer.write(event);
                }
                Action::Read if !response.stream.state.lock().unread.is_empty() => {
                    read.extend(runtime.block_on(response.next()));
                }
                Action::Read => {}
            }
            let n_unread = response.stream.state.lock().unread.len();
            prop_assert!(n_unread + read.len() <= written.len());
        }
        written.push(ended());
        writer.write(ended());
        drop(writer);
        read.extend(runtime.block_on(rest(&mut response)));
        prop_assert_eq!(text_of(&read), text_of(&written));
        prop_assert_eq!(joined(&read), joined(&written));
        prop_assert_eq!(read.iter().filter(|event| **event == ended()).count(), 1);
        prop_assert_eq!(read.last(), Some(&ended()));
    }
}

/// Returns the text of each section.
fn text_of(events: &[ResponseEvent]) -> [String; 2] {
    let of = |wanted: Section| {
        let texts = events.iter().filter_map(|event| match event {
            ResponseEvent::Token {
                event: TokenEvent::Text { section, text, .. },
            } if *section == wanted => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    };
    [of(Section::Reasoning), of(Section::Answer)]
}
