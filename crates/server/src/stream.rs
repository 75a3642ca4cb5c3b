//! Streamed responses: server-sent events, or lines of JSON.
//!
//! The [`Encoder`] of a protocol writes its frames; this file decides when. While a request waits or
//! its prompt is processed, the stream gets heartbeats, so that clients and proxies see that it lives.
//!
//! Rule: a reader that takes nothing holds neither memory nor the engine. Frames wait in a bounded
//! channel, and the request is canceled when the reader leaves, or takes nothing for 30 s.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::poll_fn;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::ApiError;
use crate::generation::{Event, Generation};
use crate::limits::{HEARTBEAT, MAX_UNREAD_FRAMES, OPENING_TIMEOUT, READER_TIMEOUT};

/// Content type of server-sent events.
pub(crate) const SSE: &str = "text/event-stream; charset=utf-8";

/// Content type of lines of JSON.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Writes the stream of one request in the form of a protocol.
pub(crate) trait Encoder: Send + 'static {
    /// [`SSE`] or [`NDJSON`].
    const CONTENT_TYPE: &'static str;

    /// Writes what comes first, when the stream opens.
    fn open(&mut self, generation: &Generation, out: &mut Frames);

    /// Writes an event. Progress before the first text usually writes nothing; it reaches
    /// [`Encoder::heartbeat`].
    fn event(&mut self, event: Event, generation: &Generation, out: &mut Frames);

    /// Writes a sign of life after every 5 s without a frame. `beat` counts from 1 since the last
    /// frame. The default writes nothing.
    fn heartbeat(&mut self, progress: &Progress, beat: u32, out: &mut Frames) {
        let _ = (progress, beat, out);
    }

    /// Writes what comes last, after all choices.
    fn close(&mut self, generation: &Generation, out: &mut Frames);

    /// Writes an error after the stream was opened. [`Encoder::close`] does not follow.
    fn fail(&mut self, error: &ApiError, out: &mut Frames);
}

/// What the request is doing, for heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It waits behind this number of requests.
    Queued(usize),
    /// The model is being loaded.
    Loading,
    /// These tokens of the prompt, of all, were processed.
    Prefill(usize, usize),
    /// Tokens are generated.
    Generating,
}

/// The bytes of frames that are sent together.
#[derive(Debug, Default)]
pub(crate) struct Frames(String);

impl Frames {
    /// Adds `data: …`.
    pub(crate) fn data(&mut self, data: &Value) {
        self.text(&data.to_string());
    }

    /// Adds `data: …` with this text, which has no line break.
    pub(crate) fn text(&mut self, data: &str) {
        self.push(&["data: ", data, "\n\n"]);
    }

    /// Adds `event: …` and `data: …`.
    pub(crate) fn event(&mut self, name: &str, data: &Value) {
        self.push(&["event: ", name, "\ndata: ", &data.to_string(), "\n\n"]);
    }

    /// Adds a comment, which readers of server-sent events skip.
    pub(crate) fn comment(&mut self, text: &str) {
        self.push(&[": ", text, "\n\n"]);
    }

    /// Adds a line of JSON.
    pub(crate) fn line(&mut self, value: &Value) {
        self.push(&[&value.to_string(), "\n"]);
    }

    /// Returns all frames so far, and starts anew.
    pub(crate) fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.0))
    }

    fn push(&mut self, parts: &[&str]) {
        self.0.extend(parts.iter().copied());
    }
}

impl Progress {
    /// Returns the progress as a comment: `queued 2`, `prefill 1024/8192`.
    pub(crate) fn comment(self) -> String {
        match self {
            Self::Queued(position) => format!("queued {position}"),
            Self::Loading => "loading".to_owned(),
            Self::Prefill(done, total) => format!("prefill {done}/{total}"),
            Self::Generating => "generating".to_owned(),
        }
    }

    fn after(self, event: &Event) -> Self {
        match event {
            Event::Queued { position } => Self::Queued(*position),
            Event::Loading => Self::Loading,
            Event::Started { .. } => Self::Prefill(0, 0),
            Event::Prefill { done, total } => Self::Prefill(*done, *total),
            Event::Text { .. } | Event::ToolCall { .. } | Event::Finished { .. } => {
                Self::Generating
            }
        }
    }
}

/// Waits a moment for the engine to accept the prompt, then opens the stream. It is written by a task
/// of its own, which ends when the reader leaves.
///
/// # Errors
/// The request failed before the stream was opened.
pub(crate) async fn respond<E: Encoder>(
    mut generation: Generation,
    encoder: E,
) -> Result<Response, ApiError> {
    generation.open(OPENING_TIMEOUT).await?;
    let (frames, receiver) = mpsc::channel(MAX_UNREAD_FRAMES);
    tokio::spawn(async move {
        // An error means that the reader left, so nobody needs to know.
        let _ = write(generation, encoder, &frames).await;
    });
    Ok(response(E::CONTENT_TYPE, receiver))
}

/// Returns a response whose body is the frames of a channel.
pub(crate) fn response(content_type: &'static str, mut frames: mpsc::Receiver<Bytes>) -> Response {
    let content_type = [(header::CONTENT_TYPE, content_type)];
    // Proxies must not collect the frames.
    let buffering = [("x-accel-buffering", "no")];
    let frames = poll_fn(move |context| {
        let frame = frames.poll_recv(context);
        frame.map(|bytes| bytes.map(Ok::<_, Infallible>))
    });
    (content_type, buffering, Body::from_stream(frames)).into_response()
}

/// The reader of a stream left.
#[derive(Debug)]
struct ReaderLeft;

async fn write<E: Encoder>(
    mut generation: Generation,
    mut encoder: E,
    frames: &mpsc::Sender<Bytes>,
) -> Result<(), ReaderLeft> {
    let mut progress = Progress::Loading;
    let mut beat = 0;
    let mut out = Frames::default();
    encoder.open(&generation, &mut out);
    send(frames, &mut out).await?;
    let mut last_frame = Instant::now();
    loop {
        let next_beat = last_frame + HEARTBEAT * (beat + 1);
        let next = tokio::select! {
            biased;
            () = frames.closed() => return Err(ReaderLeft),
            next = generation.next() => next,
            () = sleep_until(next_beat) => {
                beat += 1;
                encoder.heartbeat(&progress, beat, &mut out);
                send(frames, &mut out).await?;
                continue;
            }
        };
        match next {
            Ok(Some(event)) => {
                progress = progress.after(&event);
                encoder.event(event, &generation, &mut out);
            }
            Ok(None) => {
                encoder.close(&generation, &mut out);
                return send(frames, &mut out).await;
            }
            Err(error) => {
                encoder.fail(&error, &mut out);
                return send(frames, &mut out).await;
            }
        }
        if !out.0.is_empty() {
            send(frames, &mut out).await?;
            (last_frame, beat) = (Instant::now(), 0);
        }
    }
}

/// Sends the frames, if there are any, when the reader has room for them.
async fn send(frames: &mpsc::Sender<Bytes>, out: &mut Frames) -> Result<(), ReaderLeft> {
    if out.0.is_empty() {
        return Ok(());
    }
    match timeout(READER_TIMEOUT, frames.send(out.take())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(ReaderLeft),
    }
}
