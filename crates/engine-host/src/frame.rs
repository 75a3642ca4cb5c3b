//! Frames: a 4-byte little-endian length and that many bytes of JSON.
//!
//! If a message has vectors ([`floats`]), a zero byte and the 4-byte length of the JSON precede the
//! JSON, and the values of the vectors follow it. JSON never begins with a zero byte.
//!
//! The child reads and writes frames blocking, the parent async; the socket between two instances
//! of Transom uses them too. Rule: a length over the limit of the reader is an error, and memory is
//! allocated as bytes arrive and not for the announced length.

pub mod floats;

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest frame that is accepted, in bytes: more than a prompt of any real context length.
pub const MAX_FRAME_BYTES: usize = 64 << 20;

const HEADER_BYTES: usize = 4;

/// The first byte of a message with vectors.
const HAS_VECTORS: u8 = 0;

/// Bytes that are read from the socket at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// An error while writing or reading a frame. The connection cannot be used after it: the start of
/// the next frame is unknown, or the reader is gone.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The message is longer than the limit.
    #[error("a message of {bytes} bytes is longer than allowed")]
    TooLong {
        /// Length of the message.
        bytes: usize,
    },
    /// The connection ended inside a frame.
    #[error("the connection ended inside a message")]
    Truncated,
    /// The message is not valid JSON or not of the expected type.
    #[error("a message is not valid: {reason}")]
    Malformed {
        /// The error of the parser.
        reason: String,
    },
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

/// Returns the frame of `message`.
///
/// # Errors
/// [`FrameError::TooLong`], and [`FrameError::Malformed`] for values that JSON cannot represent.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEADER_BYTES];
    let (written, vectors) = floats::collect(|| serde_json::to_writer(&mut frame, message));
    written.map_err(malformed)?;
    if !vectors.is_empty() {
        let bytes = frame.len() - HEADER_BYTES;
        let json_bytes = u32::try_from(bytes).map_err(|_| FrameError::TooLong { bytes })?;
        let before = [HAS_VECTORS].into_iter().chain(json_bytes.to_le_bytes());
        drop(frame.splice(HEADER_BYTES..HEADER_BYTES, before));
        frame.extend(vectors);
    }
    let bytes = frame.len() - HEADER_BYTES;
    let length = u32::try_from(bytes).ok();
    let length = length.filter(|_| bytes <= MAX_FRAME_BYTES);
    let length = length.ok_or(FrameError::TooLong { bytes })?;
    frame[..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Writes `message` as one frame, blocking.
///
/// # Errors
/// The errors of [`encode`], and [`FrameError::Io`].
pub fn write<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), FrameError> {
    to.write_all(&encode(message)?)?;
    Ok(())
}

/// Writes `message` as one frame, async. Not cancel-safe: part of the frame may have been written.
///
/// # Errors
/// The errors of [`write()`].
pub async fn write_async<T: Serialize>(
    to: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), FrameError> {
    to.write_all(&encode(message)?).await?;
    Ok(())
}

/// Reads frames: blocking from a [`Read`], async from an [`AsyncRead`].
#[derive(Debug)]
pub struct FrameReader<R> {
    from: R,
    max_bytes: usize,
    unread: Unread,
    chunk: Box<[u8]>,
}

impl<R> FrameReader<R> {
    /// Creates a reader of `from`, whose next byte must be the first of a frame.
    pub fn new(from: R) -> Self {
        Self {
            from,
            max_bytes: MAX_FRAME_BYTES,
            unread: Unread::default(),
            chunk: vec![0; CHUNK_BYTES].into(),
        }
    }

    /// Accepts messages of at most `max_bytes` bytes from now on, instead of [`MAX_FRAME_BYTES`].
    pub fn set_limit(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }
}

impl<R: Read> FrameReader<R> {
    /// Returns the next message; `None` when the connection has ended after a complete message.
    ///
    /// # Errors
    /// Any [`FrameError`]. Do not read again after an error.
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        loop {
            if let Some(message) = self.unread.next_message(self.max_bytes)? {
                return Ok(Some(message));
            }
            match self.from.read(&mut self.chunk) {
                Ok(0) => return self.unread.at_end().map(|()| None),
                Ok(n_bytes) => self.unread.push(&self.chunk[..n_bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Returns the next message like [`FrameReader::read`], but async. Cancel-safe: the part of a
    /// frame that was read is kept.
    ///
    /// # Errors
    /// Any [`FrameError`]. Do not read again after an error.
    pub async fn read_async<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        loop {
            if let Some(message) = self.unread.next_message(self.max_bytes)? {
                return Ok(Some(message));
            }
            match self.from.read(&mut self.chunk).await? {
                0 => return self.unread.at_end().map(|()| None),
                n_bytes => self.unread.push(&self.chunk[..n_bytes]),
            }
        }
    }
}

/// Bytes that have arrived; those from `start` on were not parsed yet.
#[derive(Debug, Default)]
struct Unread {
    bytes: Vec<u8>,
    start: usize,
}

impl Unread {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(chunk);
    }

    fn next_message<T: DeserializeOwned>(
        &mut self,
        max_bytes: usize,
    ) -> Result<Option<T>, FrameError> {
        let unread = &self.bytes[self.start..];
        let Some((header, body)) = unread.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let bytes = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        if bytes > max_bytes {
            return Err(FrameError::TooLong { bytes });
        }
        let Some(body) = body.get(..bytes) else {
            return Ok(None);
        };
        let message = parse(body)?;
        self.start += HEADER_BYTES + bytes;
        // The buffer of a long frame must not stay for as long as the connection.
        if self.start == self.bytes.len() && self.bytes.capacity() > 2 * CHUNK_BYTES {
            *self = Self::default();
        }
        Ok(Some(message))
    }

    /// Checks that the connection did not end inside a frame.
    fn at_end(&self) -> Result<(), FrameError> {
        if self.start == self.bytes.len() {
            Ok(())
        } else {
            Err(FrameError::Truncated)
        }
    }
}

/// Parses the message of a frame.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    let Some((&HAS_VECTORS, rest)) = body.split_first() else {
        return serde_json::from_slice(body).map_err(malformed);
    };
    let parts = rest.split_first_chunk::<HEADER_BYTES>();
    let parts = parts.and_then(|(json_bytes, rest)| {
        rest.split_at_checked(usize::try_from(u32::from_le_bytes(*json_bytes)).ok()?)
    });
    let (json, vectors) = parts.ok_or_else(|| malformed("its JSON is cut short"))?;
    floats::supply(vectors, || serde_json::from_slice(json)).map_err(malformed)
}

fn malformed(reason: impl ToString) -> FrameError {
    FrameError::Malformed {
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests;
