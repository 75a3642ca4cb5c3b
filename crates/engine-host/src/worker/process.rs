//! Workers that are processes: a program of ours under a hidden subcommand, this one or another.
//!
//! Rule: a child is in a process group of its own, so that Ctrl-C in a terminal reaches only the
//! parent, and the parent lets the child settle.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};
use tracing::level_filters::LevelFilter;
use transom_signals::Hardware;

use crate::child::{FILTER_VARIABLE, SUBCOMMAND};
use crate::error::WorkerEnd;
use crate::worker::attend::{Vessel, attend};
use crate::worker::{Patience, Worker, WorkerReport, Workers};

/// Libraries that start a thread for each core they see, the slow ones included, unless told.
const THREAD_VARIABLES: [&str; 2] = ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"];

/// Secrets of this process, and ways to the network, which a process that reads files of strangers
/// and never connects to anything has no use for.
const WITHHELD_VARIABLES: [&str; 10] = [
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Starts each worker as a process.
#[derive(Debug, Clone)]
pub struct ProcessWorkers {
    program: Result<PathBuf, String>,
    arguments: Vec<OsString>,
    /// It is not sure that the program is one of ours.
    is_doubted: bool,
    environment: Vec<(OsString, OsString)>,
    patience: Patience,
}

impl ProcessWorkers {
    /// Workers that run `program` with `arguments`; it must end up in [`crate::child::main`].
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self {
            program: Ok(program),
            arguments,
            is_doubted: false,
            environment: environment(),
            patience: Patience::default(),
        }
    }

    /// Workers that run this executable with [`SUBCOMMAND`]. If the system does not tell where it
    /// is, each start fails with its reason.
    pub fn this_executable() -> Self {
        let program = std::env::current_exe();
        Self {
            program: program.map_err(|error| format!("this program's own path: {error}")),
            ..Self::new(PathBuf::new(), vec![SUBCOMMAND.into()])
        }
    }

    /// Workers that run another program of ours, the one at `path`, with [`SUBCOMMAND`]; so a shell
    /// needs no engine in it. Where there is no program, or one that does not greet as ours does,
    /// each start fails with [`WorkerEnd::NotStarted`], which names the path.
    pub fn program(path: &Path) -> Self {
        Self {
            is_doubted: true,
            ..Self::new(path.to_owned(), vec![SUBCOMMAND.into()])
        }
    }

    /// As it is, but with other limits to waiting.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    fn spawn(&self) -> Result<(Process, UnixStream), String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let (near, far) = socket_pair().map_err(|error| format!("a socket pair: {error}"))?;
        let mut command = Command::new(program);
        for name in WITHHELD_VARIABLES {
            command.env_remove(name);
        }
        let child = command
            .args(&self.arguments)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::from(far))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let doubted = self.is_doubted.then(|| program.clone());
        Ok((Process { child, doubted }, near))
    }
}

impl Workers for ProcessWorkers {
    fn start(&self) -> Worker {
        let (worker, ends) = Worker::new();
        let workers = self.clone();
        tokio::spawn(async move {
            match workers.spawn() {
                Ok((process, stream)) => attend(process, stream, workers.patience, ends).await,
                Err(reason) => {
                    let end = WorkerEnd::NotStarted { reason };
                    // An owner that is gone needs no telling.
                    let _ = ends.reports.send(WorkerReport::Gone(end)).await;
                }
            }
        });
        worker
    }
}

/// What a child gets beside this process's own environment. The user's own settings stand.
fn environment() -> Vec<(OsString, OsString)> {
    let n_threads = Hardware::detect().n_performance_cores;
    let mut environment = settings(n_threads, LevelFilter::current());
    environment.retain(|(name, _)| std::env::var_os(name).is_none());
    environment
}

/// Threads for the performance cores only (D096), and the log that this process shows.
fn settings(n_threads: usize, level: LevelFilter) -> Vec<(OsString, OsString)> {
    let n_threads = n_threads.max(1).to_string();
    let threads = THREAD_VARIABLES.map(|name| (name.into(), n_threads.clone().into()));
    let log = (FILTER_VARIABLE.into(), filter(level).into());
    threads.into_iter().chain([log]).collect()
}

/// A child logs what its parent would show.
fn filter(level: LevelFilter) -> String {
    if level <= LevelFilter::WARN {
        "warn".to_owned()
    } else {
        format!("warn,transom={level}")
    }
}

fn socket_pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    near.set_nonblocking(true)?;
    Ok((UnixStream::from_std(near)?, far.into()))
}

/// A child process.
struct Process {
    child: Child,
    /// Its program, until a greeting says that it is ours.
    doubted: Option<PathBuf>,
}

impl Vessel for Process {
    type Stderr = ChildStderr;

    fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    async fn ended(&mut self) -> Result<(), String> {
        match self.child.wait().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(words(status)),
            Err(error) => Err(format!("its end could not be learnt: {error}")),
        }
    }

    fn doubted_program(&self) -> Option<&Path> {
        self.doubted.as_deref()
    }

    fn process_id(&self) -> u32 {
        // It is known until the process is reaped.
        self.child.id().unwrap_or_default()
    }

    fn kill(&mut self) {
        // Fails only on a child that has been reaped.
        let _ = self.child.start_kill();
    }
}

fn words(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => match signal_hook::low_level::signal_name(signal) {
            Some(name) => format!("killed by signal {signal} ({name})"),
            None => format!("killed by signal {signal}"),
        },
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "for no known reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_words() {
        assert_eq!(
            words(ExitStatus::from_raw(9)),
            "killed by signal 9 (SIGKILL)"
        );
        assert_eq!(words(ExitStatus::from_raw(3 << 8)), "exit code 3");
        assert_eq!(words(ExitStatus::from_raw(60)), "killed by signal 60");
    }

    /// D096
    #[test]
    fn a_child_computes_on_the_performance_cores_only() {
        let settings = settings(6, LevelFilter::WARN);
        for name in THREAD_VARIABLES {
            assert!(settings.contains(&(name.into(), "6".into())), "{name}");
        }
    }

    #[test]
    fn a_child_logs_what_its_parent_would_show() {
        assert_eq!(filter(LevelFilter::OFF), "warn");
        assert_eq!(filter(LevelFilter::WARN), "warn");
        assert_eq!(filter(LevelFilter::DEBUG), "warn,transom=debug");
    }
}
