//! The limits of the server: sizes, times and counts.

use std::time::Duration;

/// Largest body, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 32 << 20;

/// Largest request line with headers, in bytes.
pub(crate) const MAX_HEADER_BYTES: usize = 64 << 10;

/// Time for the headers of a request, also on a connection that is kept open.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a whole body.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Open connections. More wait until one of these is closed.
pub(crate) const MAX_CONNECTIONS: usize = 2048;

/// File descriptors that the process asks the system for. A Mac allows a program 256 by default.
pub(crate) const MAX_FILES: u64 = 4096;

/// Time for open connections to end after the server was told to stop.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Time that a streamed request waits for the engine to accept its prompt before the stream opens.
/// Until then an error still has its own status.
pub(crate) const OPENING_TIMEOUT: Duration = Duration::from_secs(10);

/// Time without an event after which a stream gets a heartbeat.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);

/// Frames of a stream that wait for a slow reader.
pub(crate) const MAX_UNREAD_FRAMES: usize = 64;

/// Time after which a reader that takes nothing is given up.
pub(crate) const READER_TIMEOUT: Duration = Duration::from_secs(30);
