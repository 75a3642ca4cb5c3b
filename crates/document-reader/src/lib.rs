//! Reads the text of one document, in a process of its own: the document is on standard input, and
//! the text goes to standard output as JSON.
//!
//! The libraries of this crate parse untrusted files. `transom-documents`, which starts the process,
//! limits its time and memory, so a file can end or exhaust only this process.
//!
//! Rule: the content of a file decides how it is read, never its name.

mod formats;

use std::io::{self, Read, Write};
use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getppid, setrlimit};

use transom_documents::DocumentProblem;
use transom_documents::protocol::{MAX_CPU_SECONDS, MAX_FILE_BYTES, Reply};

/// How often the child process checks that its parent is alive.
const PARENT_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the program: reads standard input to its end and writes the reply to standard output.
pub fn main() -> ExitCode {
    // A core dump would write the document to the disk.
    limit(Resource::Core, 0, 0);
    // The first limit sends SIGXCPU, by which the parent knows the reason. The second one kills.
    limit(Resource::Cpu, MAX_CPU_SECONDS, MAX_CPU_SECONDS + 1);
    // The limit on CPU time also ends a process whose parent was gone before this call.
    end_with_parent();
    match write(&reply(io::stdin().lock())) {
        Ok(()) => ExitCode::SUCCESS,
        // The parent is gone.
        Err(_) => ExitCode::FAILURE,
    }
}

/// A limit that can't be set is only a protection less.
fn limit(resource: Resource, current: u64, maximum: u64) {
    let value = Rlimit {
        current: Some(current),
        maximum: Some(maximum),
    };
    let _ = setrlimit(resource, value);
}

/// Ends this process soon after its parent is gone, because only the parent limits its memory.
fn end_with_parent() {
    let parent = getppid();
    thread::spawn(move || {
        while getppid() == parent {
            thread::park_timeout(PARENT_INTERVAL);
        }
        process::exit(1);
    });
}

fn reply(document: impl Read) -> Reply {
    let mut bytes = Vec::new();
    // One byte more shows that the file is longer. The parent has looked, but the file may grow.
    let mut document = document.take(MAX_FILE_BYTES + 1);
    document
        .read_to_end(&mut bytes)
        .map_err(|error| DocumentProblem::CannotOpen {
            reason: error.to_string(),
        })?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(DocumentProblem::TooLarge {
            bytes: bytes.len() as u64,
            limit_bytes: MAX_FILE_BYTES,
        });
    }
    formats::extract(&bytes)
}

fn write(reply: &Reply) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&serde_json::to_vec(reply)?)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_is_read() {
        let problem = reply(io::repeat(b'a')).unwrap_err();
        assert_eq!(
            problem,
            DocumentProblem::TooLarge {
                bytes: MAX_FILE_BYTES + 1,
                limit_bytes: MAX_FILE_BYTES
            }
        );
    }
}
