use std::io::Cursor;

use super::*;

/// A reader that returns one byte at a time.
struct Trickle(Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n_bytes = into.len().min(1);
        Read::read(&mut self.0, &mut into[..n_bytes])
    }
}

fn reader(bytes: Vec<u8>) -> FrameReader<Cursor<Vec<u8>>> {
    FrameReader::new(Cursor::new(bytes))
}

#[test]
fn messages_are_read_in_order_for_every_split_of_the_bytes() {
    let mut bytes = encode(&"one").unwrap();
    bytes.extend(encode(&"zwei \u{1f44d}").unwrap());
    let mut trickle = FrameReader::new(Trickle(Cursor::new(bytes.clone())));
    let mut whole = reader(bytes);
    for expected in ["one", "zwei \u{1f44d}"] {
        assert_eq!(trickle.read::<String>().unwrap().unwrap(), expected);
        assert_eq!(whole.read::<String>().unwrap().unwrap(), expected);
    }
    assert!(trickle.read::<String>().unwrap().is_none());
    assert!(whole.read::<String>().unwrap().is_none());
}

#[test]
fn a_frame_at_the_limit_is_accepted_and_a_longer_one_is_not() {
    let longest = "x".repeat(MAX_FRAME_BYTES - 2);
    let frame = encode(&longest).unwrap();
    assert_eq!(reader(frame).read::<String>().unwrap().unwrap(), longest);
    let error = encode(&(longest + "x")).unwrap_err();
    assert!(matches!(error, FrameError::TooLong { bytes } if bytes == MAX_FRAME_BYTES + 1));
}

#[test]
fn an_announced_length_over_the_limit_is_refused_before_the_bytes_arrive() {
    let header = (MAX_FRAME_BYTES as u32 + 1).to_le_bytes().to_vec();
    let error = reader(header).read::<String>().unwrap_err();
    assert!(matches!(error, FrameError::TooLong { .. }));
}

#[test]
fn an_announced_length_allocates_no_memory() {
    let mut reader = reader((MAX_FRAME_BYTES as u32).to_le_bytes().to_vec());
    assert!(matches!(
        reader.read::<String>(),
        Err(FrameError::Truncated)
    ));
    assert!(reader.unread.bytes.capacity() < CHUNK_BYTES);
}

#[test]
fn the_buffer_of_a_long_frame_is_freed() {
    let mut reader = reader(encode(&"x".repeat(10 << 20)).unwrap());
    assert_eq!(reader.read::<String>().unwrap().unwrap().len(), 10 << 20);
    assert_eq!(reader.unread.bytes.capacity(), 0);
}

#[test]
fn an_invalid_message_is_an_error_with_a_reason() {
    let error = reader(b"\x03\0\0\0abc".to_vec())
        .read::<String>()
        .unwrap_err();
    assert!(error.to_string().contains("is not valid"), "{error}");
    let error = reader(b"\x03\0\0\0ab".to_vec())
        .read::<String>()
        .unwrap_err();
    assert!(matches!(error, FrameError::Truncated));
}

#[tokio::test]
async fn a_canceled_read_loses_no_bytes() {
    let (mut parent_end, child_end) = tokio::io::duplex(64);
    let mut reader = FrameReader::new(child_end);
    let frame = encode(&"kept").unwrap();
    parent_end.write_all(&frame[..5]).await.unwrap();
    tokio::select! {
        biased;
        message = reader.read_async::<String>() => panic!("half a frame gave {message:?}"),
        () = std::future::ready(()) => {}
    }
    parent_end.write_all(&frame[5..]).await.unwrap();
    let message = reader.read_async::<String>().await.unwrap();
    assert_eq!(message.as_deref(), Some("kept"));
}

/// A message with vectors.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Vectors {
    Two {
        #[serde(with = "floats")]
        first: Vec<f32>,
        name: String,
        #[serde(with = "floats")]
        second: Vec<f32>,
    },
}

fn vectors() -> Vectors {
    Vectors::Two {
        first: (0..1000).map(|n| 1.0 / (n as f32 + 3.0)).collect(),
        name: "name".to_owned(),
        second: vec![f32::MIN, f32::MIN_POSITIVE, -0.0, f32::INFINITY],
    }
}

#[test]
fn vectors_are_bytes_after_the_json_and_keep_every_bit() {
    let frame = encode(&vectors()).unwrap();
    assert!(frame.len() < 4 * 1004 + 100, "{} bytes", frame.len());
    let mut reader = reader([frame.clone(), encode(&"text").unwrap(), frame].concat());
    assert_eq!(reader.read::<Vectors>().unwrap().unwrap(), vectors());
    assert_eq!(reader.read::<String>().unwrap().unwrap(), "text");
    assert_eq!(reader.read::<Vectors>().unwrap().unwrap(), vectors());
}

#[test]
fn vectors_outside_of_a_frame_are_json() {
    let Vectors::Two { name, .. } = vectors();
    let message = Vectors::Two {
        first: vec![0.5],
        name,
        second: Vec::new(),
    };
    let json = serde_json::to_value(&message).unwrap();
    assert_eq!(json["first"], serde_json::json!([0.5]));
    assert_eq!(serde_json::from_value::<Vectors>(json).unwrap(), message);
}

#[test]
fn a_frame_whose_vectors_or_json_are_cut_short_is_refused() {
    let frame = encode(&vectors()).unwrap();
    let body = &frame[HEADER_BYTES..];
    let json_bytes = u32::from_le_bytes(body[1..5].try_into().unwrap()) as usize;
    for body in [
        &body[..body.len() - 1],
        &body[..4],
        &body[..5 + json_bytes / 2],
    ] {
        let header = u32::try_from(body.len()).unwrap().to_le_bytes();
        let error = reader([&header[..], body].concat()).read::<Vectors>();
        assert!(matches!(error, Err(FrameError::Malformed { .. })));
    }
    // The bytes of a damaged frame do not reach the next one.
    let mut plain = reader(encode(&"text").unwrap());
    assert_eq!(plain.read::<String>().unwrap().unwrap(), "text");
}
