use super::*;
use crate::generation::{Choice, End};
use crate::json::Fields;
use crate::routes::anthropic::request::MessageRequest;
use std::time::Duration;
use transom_engine::{FinishReason, Stats};

fn form(display: &str) -> MessageForm {
    let body = json!({
        "model": "tiny",
        "max_tokens": 9,
        "stop_sequences": ["a", "END"],
        "thinking": { "type": "adaptive", "display": display },
        "messages": [{ "role": "user", "content": "Hi" }],
    });
    let body = Fields::parse(body.to_string().as_bytes()).unwrap();
    MessageForm::new("tiny", &MessageRequest::read(body).unwrap())
}

fn end(reason: FinishReason, matched_stop: Option<usize>) -> End {
    End {
        reason,
        stats: Stats {
            prompt_tokens: 10,
            cached_tokens: 7,
            generated_tokens: 4,
            matched_stop,
            ..Stats::default()
        },
        reasoning_tokens: 0,
        has_called: false,
        wait: Duration::ZERO,
        load: Duration::ZERO,
    }
}

/// Returns the data of all events of a stream with these texts, in which the names are the types.
fn events(display: &str, texts: &[(Section, &str)], end: End) -> Vec<Value> {
    let mut stream = MessageStream::new(form(display), "req_1".to_owned());
    let mut out = Frames::default();
    let started = Event::Started {
        prompt_tokens: 10,
        cached_tokens: 7,
        dropped_messages: 0,
    };
    stream.write(started, &mut out);
    for (section, text) in texts {
        let event = Event::Text {
            choice: 0,
            section: *section,
            text: (*text).to_owned(),
            logprobs: Vec::new(),
        };
        stream.write(event, &mut out);
    }
    stream.write(Event::Finished { choice: 0, end }, &mut out);
    let bytes = out.take();
    let frames = std::str::from_utf8(&bytes)
        .unwrap()
        .split_terminator("\n\n");
    frames
        .map(|frame| {
            let (event, data) = frame.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(event, format!("event: {}", data["type"].as_str().unwrap()));
            data
        })
        .collect()
}

/// Builds the blocks from events, as clients do.
fn blocks(events: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    for event in events {
        if event["type"] == "content_block_start" {
            assert_eq!(event["index"], blocks.len());
            blocks.push(event["content_block"].clone());
        }
        if event["type"] == "content_block_delta" {
            assert_eq!(event["index"], blocks.len() - 1);
            let delta = event["delta"].as_object().unwrap();
            let (name, added) = delta.iter().find(|(name, _)| *name != "type").unwrap();
            let block = blocks.last_mut().unwrap();
            let before = block[name].as_str().unwrap();
            block[name] = format!("{before}{}", added.as_str().unwrap()).into();
        }
    }
    blocks
}

#[test]
fn the_blocks_of_a_stream_are_those_of_the_whole_message() {
    use Section::{Answer, Reasoning};
    for texts in [
        &[][..],
        &[(Answer, "Hello")],
        &[(Answer, "Hel"), (Answer, ""), (Answer, "lo")],
        &[(Reasoning, "h"), (Reasoning, "m"), (Answer, "Hello")],
        &[(Reasoning, "hm")],
    ] {
        for display in ["summarized", "omitted"] {
            let ended = end(FinishReason::Stop, None);
            let of = |wanted: Section| {
                let texts = texts.iter().filter(|(section, _)| *section == wanted);
                texts.map(|(_, text)| *text).collect::<String>()
            };
            let whole = form(display).whole(&Choice {
                calls: Vec::new(),
                text: of(Answer),
                reasoning: of(Reasoning),
                logprobs: Vec::new(),
                end: ended,
            });
            let mut expected = whole["content"].as_array().unwrap().clone();
            let events = events(display, texts, ended);
            let mut streamed = blocks(&events);
            for block in expected.iter_mut().chain(&mut streamed) {
                // Every signature is another one.
                if let Some(signature) = block.get_mut("signature") {
                    assert!(signature.as_str().unwrap().starts_with("sig_"));
                    *signature = Value::Null;
                }
            }
            assert_eq!(streamed, expected, "{texts:?}");
            let last = events.last().unwrap();
            assert_eq!(last["delta"]["stop_reason"], whole["stop_reason"]);
            assert_eq!(last["usage"], whole["usage"]);
        }
    }
}

#[test]
fn events_have_the_order_of_the_protocol() {
    let texts = [(Section::Reasoning, "hm"), (Section::Answer, "Hello")];
    let events = events("summarized", &texts, end(FinishReason::Stop, None));
    let types: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
    ];
    assert_eq!(types, expected);
    let usage = &events[0]["message"]["usage"];
    assert_eq!(usage["input_tokens"], 3);
    assert_eq!(usage["cache_read_input_tokens"], 7);
}

#[test]
fn a_message_says_why_it_ended() {
    for (reason, matched_stop, expected, sequence) in [
        (FinishReason::Stop, None, "end_turn", Value::Null),
        (FinishReason::Stop, Some(1), "stop_sequence", json!("END")),
        (FinishReason::Length, None, "max_tokens", Value::Null),
    ] {
        let events = events("summarized", &[], end(reason, matched_stop));
        let delta = &events.last().unwrap()["delta"];
        assert_eq!(delta["stop_reason"], expected);
        assert_eq!(delta["stop_sequence"], sequence);
    }
}

#[test]
fn heartbeats_begin_the_message_and_ping_every_ten_seconds() {
    let mut stream = MessageStream::new(form("summarized"), "req_1".to_owned());
    let mut out = Frames::default();
    for beat in 1..=4 {
        stream.heartbeat(&Progress::Queued(2), beat, &mut out);
    }
    let bytes = out.take();
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(text.starts_with("event: message_start\n"), "{text}");
    assert_eq!(text.matches("event: message_start").count(), 1);
    assert_eq!(text.matches("event: ping").count(), 2);
    assert_eq!(text.matches(": queued 2").count(), 2);
}

#[test]
fn an_error_repeats_the_id_of_the_request() {
    let mut stream = MessageStream::new(form("summarized"), "req_1".to_owned());
    let mut out = Frames::default();
    stream.fail(&ApiError::overloaded("busy", None), &mut out);
    let bytes = out.take();
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(text.starts_with("event: error\n"), "{text}");
    assert!(
        text.contains("overloaded_error") && text.contains("req_1"),
        "{text}"
    );
}
