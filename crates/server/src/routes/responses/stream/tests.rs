use std::time::Duration;

use proptest::prelude::*;
use serde_json::Map;
use transom_engine::{FinishReason, Stats};

use super::*;
use crate::generation::End;

fn text(section: Section, text: &str) -> Event {
    Event::Text {
        choice: 0,
        section,
        text: text.to_owned(),
        logprobs: Vec::new(),
    }
}

fn finished(reason: FinishReason) -> Event {
    let stats = Stats {
        prompt_tokens: 3,
        cached_tokens: 2,
        generated_tokens: 4,
        ..Stats::default()
    };
    let end = End {
        reason,
        stats,
        reasoning_tokens: 1,
        has_called: false,
        wait: Duration::ZERO,
        load: Duration::ZERO,
    };
    Event::Finished { choice: 0, end }
}

fn stream() -> ResponsesStream {
    ResponsesStream::new(ResponseObject::new("tiny", Map::new()))
}

/// Returns the events of a stream, after checking that each one has its number and its name.
fn read(out: &mut Frames) -> Vec<Value> {
    let frames = out.take();
    let frames = std::str::from_utf8(&frames).unwrap();
    let frames = frames.split_terminator("\n\n").enumerate();
    let read = frames.map(|(index, frame)| {
        let (name, data) = frame.split_once('\n').unwrap();
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name, format!("event: {}", event["type"].as_str().unwrap()));
        assert_eq!(event["sequence_number"], index);
        event
    });
    read.collect()
}

fn written(events: &[Event]) -> Vec<Value> {
    let (mut stream, mut out) = (stream(), Frames::default());
    stream.begin(&mut out);
    for event in events {
        stream.add(event, &mut out);
    }
    stream.end(&mut out);
    read(&mut out)
}

fn names(events: &[Value]) -> Vec<&str> {
    let names = events.iter().map(|event| event["type"].as_str().unwrap());
    names
        .map(|name| name.strip_prefix("response.").unwrap())
        .collect()
}

#[test]
fn everything_that_is_opened_is_closed_in_order() {
    use Section::{Answer, Reasoning};
    let item = |kind: &'static str, n_texts: usize| {
        let delta = match kind {
            "output_text" => "output_text.delta",
            _ => "reasoning_text.delta",
        };
        let done = match kind {
            "output_text" => "output_text.done",
            _ => "reasoning_text.done",
        };
        let mut names = vec!["output_item.added", "content_part.added"];
        names.extend(vec![delta; n_texts]);
        names.extend([done, "content_part.done", "output_item.done"]);
        names
    };
    for (events, items, end) in [
        (
            vec![
                text(Answer, "a"),
                text(Answer, "b"),
                finished(FinishReason::Stop),
            ],
            vec![item("output_text", 2)],
            "completed",
        ),
        (
            vec![
                text(Reasoning, "r"),
                text(Answer, "a"),
                finished(FinishReason::Stop),
            ],
            vec![item("reasoning_text", 1), item("output_text", 1)],
            "completed",
        ),
        (
            vec![text(Answer, "a"), finished(FinishReason::Length)],
            vec![item("output_text", 1)],
            "incomplete",
        ),
        (
            vec![text(Reasoning, "r"), finished(FinishReason::Length)],
            vec![item("reasoning_text", 1)],
            "incomplete",
        ),
        (
            vec![text(Reasoning, "r"), finished(FinishReason::Stop)],
            vec![item("reasoning_text", 1), item("output_text", 0)],
            "completed",
        ),
        (
            vec![finished(FinishReason::Stop)],
            vec![item("output_text", 0)],
            "completed",
        ),
    ] {
        let mut expected = vec!["created", "in_progress"];
        expected.extend(items.concat());
        expected.push(end);
        assert_eq!(names(&written(&events)), expected);
    }
}

#[test]
fn the_end_has_the_items_and_the_usage() {
    let events = written(&[
        text(Section::Reasoning, "r"),
        text(Section::Answer, "a"),
        finished(FinishReason::Length),
    ]);
    let response = &events.last().unwrap()["response"];
    assert_eq!(response["status"], "incomplete");
    assert_eq!(
        response["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    let output = response["output"].as_array().unwrap();
    let statuses: Vec<_> = output.iter().map(|item| &item["status"]).collect();
    assert_eq!(statuses, ["completed", "incomplete"]);
    let expected = json!({
        "input_tokens": 3,
        "input_tokens_details": { "cached_tokens": 2 },
        "output_tokens": 4,
        "output_tokens_details": { "reasoning_tokens": 1 },
        "total_tokens": 7,
    });
    assert_eq!(response["usage"], expected);
    let done = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done");
    let done: Vec<_> = done.map(|event| event["item"].clone()).collect();
    assert_eq!(&done, output);
    let created = &events[0]["response"];
    assert_eq!(
        (&created["usage"], &created["output"]),
        (&Value::Null, &json!([]))
    );
    assert_eq!(created["id"], response["id"]);
}

#[test]
fn an_error_is_the_last_event() {
    let (mut stream, mut out) = (stream(), Frames::default());
    stream.begin(&mut out);
    stream.add(&text(Section::Answer, "a"), &mut out);
    stream.fail(&ApiError::overloaded("too hot", None), &mut out);
    let events = read(&mut out);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    let response = &last["response"];
    assert_eq!(response["status"], "failed");
    let error = json!({ "code": "rate_limit_exceeded", "message": "too hot" });
    assert_eq!(response["error"], error);
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!(response["output"][0]["content"][0]["text"], "a");
    let mut stream = self::stream();
    let too_long = ApiError::bad_request("too long").with_code("context_length_exceeded");
    stream.fail(&too_long, &mut out);
    let events = read(&mut out);
    assert_eq!(
        events[0]["response"]["error"]["code"],
        "context_length_exceeded"
    );
}

#[test]
fn a_heartbeat_is_numbered_like_every_event() {
    let (mut stream, mut out) = (stream(), Frames::default());
    stream.begin(&mut out);
    for beat in 1..=2 {
        stream.heartbeat(&Progress::Queued(2), beat, &mut out);
    }
    let frames = out.take();
    let frames = std::str::from_utf8(&frames).unwrap();
    assert!(frames.ends_with(": queued 2\n\n: queued 2\n\n"), "{frames}");
    stream.heartbeat(&Progress::Queued(2), 3, &mut out);
    let frames = out.take();
    let frames = std::str::from_utf8(&frames).unwrap();
    assert!(frames.starts_with("event: response.in_progress\n"));
    assert!(frames.contains("\"sequence_number\":2"), "{frames}");
}

proptest! {
    #[test]
    fn the_deltas_are_the_whole_text_however_it_is_split(
        texts in prop::collection::vec((any::<bool>(), "\\PC{1,5}"), 0..12),
        is_cut in any::<bool>(),
    ) {
        let section = |is_reasoning| match is_reasoning {
            true => Section::Reasoning,
            false => Section::Answer,
        };
        let mut events: Vec<Event> = texts
            .iter()
            .map(|(is_reasoning, part)| text(section(*is_reasoning), part))
            .collect();
        events.push(finished(match is_cut {
            true => FinishReason::Length,
            false => FinishReason::Stop,
        }));
        let written = written(&events);
        let output = written.last().unwrap()["response"]["output"].as_array().unwrap();
        let mut whole = [String::new(), String::new()];
        for (index, item) in output.iter().enumerate() {
            let of_item = written.iter().filter(|event| event["output_index"] == index);
            let deltas: String = of_item.filter_map(|event| event["delta"].as_str()).collect();
            let content = item["content"][0]["text"].as_str().unwrap();
            prop_assert_eq!(&deltas, content);
            whole[usize::from(item["type"] == "reasoning")].push_str(content);
        }
        for (is_reasoning, whole) in [false, true].into_iter().zip(whole) {
            let parts = texts.iter().filter(|(of, _)| *of == is_reasoning);
            let parts: String = parts.map(|(_, part)| part.as_str()).collect();
            prop_assert_eq!(parts, whole);
        }
    }
}
