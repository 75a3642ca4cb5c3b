use std::io::Cursor;

use super::*;

/// Hands out a byte at a time, as the worst socket would.
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
fn messages_come_back_in_order_however_they_are_cut() {
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
fn a_frame_of_the_limit_passes_and_one_byte_more_does_not() {
    let longest = "x".repeat(MAX_FRAME_BYTES - 2);
    let frame = encode(&longest).unwrap();
    assert_eq!(reader(frame).read::<String>().unwrap().unwrap(), longest);
    let error = encode(&(longest + "x")).unwrap_err();
    assert!(matches!(error, FrameError::TooLong { bytes } if bytes == MAX_FRAME_BYTES + 1));
}

#[test]
fn an_announced_length_over_the_limit_is_refused_before_its_bytes_come() {
    let header = (MAX_FRAME_BYTES as u32 + 1).to_le_bytes().to_vec();
    let error = reader(header).read::<String>().unwrap_err();
    assert!(matches!(error, FrameError::TooLong { .. }));
}

#[test]
fn an_announced_length_takes_no_memory_by_itself() {
    let mut reader = reader((MAX_FRAME_BYTES as u32).to_le_bytes().to_vec());
    assert!(matches!(
        reader.read::<String>(),
        Err(FrameError::Truncated)
    ));
    assert!(reader.unread.bytes.capacity() < CHUNK_BYTES);
}

#[test]
fn a_long_frame_gives_its_memory_back() {
    let mut reader = reader(encode(&"x".repeat(10 << 20)).unwrap());
    assert_eq!(reader.read::<String>().unwrap().unwrap().len(), 10 << 20);
    assert_eq!(reader.unread.bytes.capacity(), 0);
}

#[test]
fn garbage_is_an_error_with_a_reason() {
    let error = reader(b"\x03\0\0\0abc".to_vec())
        .read::<String>()
        .unwrap_err();
    assert!(error.to_string().contains("makes no sense"), "{error}");
    let error = reader(b"\x03\0\0\0ab".to_vec())
        .read::<String>()
        .unwrap_err();
    assert!(matches!(error, FrameError::Truncated));
}

#[tokio::test]
async fn an_abandoned_read_loses_nothing() {
    let (mut near, far) = tokio::io::duplex(64);
    let mut reader = FrameReader::new(far);
    let frame = encode(&"kept").unwrap();
    near.write_all(&frame[..5]).await.unwrap();
    tokio::select! {
        biased;
        message = reader.read_async::<String>() => panic!("half a frame gave {message:?}"),
        () = std::future::ready(()) => {}
    }
    near.write_all(&frame[5..]).await.unwrap();
    let message = reader.read_async::<String>().await.unwrap();
    assert_eq!(message.as_deref(), Some("kept"));
}
