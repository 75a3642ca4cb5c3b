//! The parent's side: starts the child process that reads one document, and stops it at its limits.
//!
//! Rule: the parent parses nothing of the document, and never waits longer than the time limit.

use std::env::consts::EXE_SUFFIX;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use transom_files::{file_name, visible};

use crate::protocol::{MAX_CPU_SECONDS, MAX_FILE_BYTES, MAX_TEXT_BYTES, Reply};
use crate::{Document, DocumentError, DocumentProblem};

/// Bytes of the longest reply: in JSON a control character takes six bytes.
const MAX_REPLY_BYTES: u64 = 6 * MAX_TEXT_BYTES + 4096;

/// How often the memory of the child process is read.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Time for a process that has closed its output to end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// What reading one document may take.
#[derive(Debug, Clone)]
pub struct ReadLimits {
    /// Time until the child process is stopped.
    pub timeout: Duration,
    /// Memory footprint at which the child process is stopped, in bytes. It is read every 50 ms, so
    /// the process may exceed this for a moment.
    pub memory_bytes: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(20),
            memory_bytes: 1 << 30,
        }
    }
}

/// Returns the path of the program that reads documents, which is in the folder of this program.
pub fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(format!("transom-document-reader{EXE_SUFFIX}"))
}

/// Reads the text of the document at `path` with `program` (see [`program`]). Blocks for at most 20
/// seconds.
///
/// # Errors
/// [`DocumentError`], with the reason and what to do.
pub fn read(program: &Path, path: &Path) -> Result<Document, DocumentError> {
    read_within(program, path, &ReadLimits::default())
}

/// Reads the text of the document at `path`, like [`read`], with other limits.
///
/// # Errors
/// [`DocumentError`], with the reason and what to do.
pub fn read_within(
    program: &Path,
    path: &Path,
    limits: &ReadLimits,
) -> Result<Document, DocumentError> {
    let shown = |name: &str| visible(name).into_owned();
    let extracted = open(path).and_then(|file| extract(program, file, limits));
    let extracted = extracted.map_err(|problem| DocumentError {
        file: shown(&path.to_string_lossy()),
        problem,
    })?;
    Ok(Document {
        name: shown(&file_name(path)),
        format: extracted.format,
        text: extracted.text,
        pages: extracted.pages,
    })
}

fn open(path: &Path) -> Result<File, DocumentProblem> {
    let problem = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => DocumentProblem::NotFound,
        _ => DocumentProblem::CannotOpen {
            reason: error.to_string(),
        },
    };
    let file = transom_files::open(path).map_err(problem)?;
    let bytes = file.metadata().map_err(problem)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(DocumentProblem::TooLarge {
            bytes,
            limit_bytes: MAX_FILE_BYTES,
        });
    }
    Ok(file)
}

fn extract(program: &Path, file: File, limits: &ReadLimits) -> Reply {
    let mut child = spawn(program, file).map_err(|error| DocumentProblem::NotStarted {
        reason: format!("{}: {error}", program.display()),
    })?;
    let replies = receive(&mut child);
    let reply = wait(child.id(), &replies, limits);
    // The reply is complete or not wanted. Fails only if the process has ended.
    let _ = child.kill();
    let (sender, ended) = mpsc::channel();
    // A process that waits for a disk ends late, and nobody should wait for it.
    thread::spawn(move || sender.send(child.wait()));
    serde_json::from_slice(&reply?).unwrap_or_else(|_| {
        let status = ended.recv_timeout(END_TIMEOUT).ok().and_then(Result::ok);
        Err(problem_of(status))
    })
}

/// Returns why a process ended without a reply.
fn problem_of(status: Option<ExitStatus>) -> DocumentProblem {
    let signal = status.and_then(|status| status.signal());
    if signal == Some(Signal::XCPU.as_raw()) {
        return DocumentProblem::TooSlow {
            limit_seconds: MAX_CPU_SECONDS,
        };
    }
    DocumentProblem::damaged("its reader stopped unexpectedly")
}

/// Starts the child process in a process group of its own, so Ctrl-C reaches only the parent.
fn spawn(program: &Path, file: File) -> io::Result<Child> {
    Command::new(program)
        .env_clear()
        .stdin(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Reads the output of the child process to its end on another thread.
fn receive(child: &mut Child) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let output = child.stdout.take();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is no complete reply.
        let _ = output.map(|output| output.take(MAX_REPLY_BYTES).read_to_end(&mut bytes));
        // Nobody receives after the time limit.
        let _ = sender.send(bytes);
    });
    receiver
}

/// Waits for the reply until the process with the id `process` exceeds a limit.
fn wait(
    process: u32,
    replies: &Receiver<Vec<u8>>,
    limits: &ReadLimits,
) -> Result<Vec<u8>, DocumentProblem> {
    let deadline = Instant::now() + limits.timeout;
    loop {
        match replies.recv_timeout(POLL_INTERVAL) {
            Ok(reply) => return Ok(reply),
            Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let footprint = transom_signals::footprint_bytes(process);
        if footprint.is_some_and(|bytes| bytes > limits.memory_bytes) {
            return Err(DocumentProblem::TooMuchMemory {
                limit_bytes: limits.memory_bytes,
            });
        }
        if Instant::now() >= deadline {
            return Err(DocumentProblem::TooSlow {
                limit_seconds: limits.timeout.as_secs(),
            });
        }
    }
}
