//! Workers that are child processes: this program or another one of ours, with a hidden subcommand.
//!
//! Rule: a child has its own process group, so Ctrl-C in a terminal reaches only the parent, which
//! lets the child finish.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};
use tracing::level_filters::LevelFilter;
use transom_signals::Hardware;

use crate::child::{FILTER_VARIABLE, SUBCOMMAND};
use crate::worker::task::ChildHandle;
use crate::worker::{self, Timeouts, Worker, Workers};

/// Variables that limit the threads of libraries, which otherwise start one for each core, slow
/// ones included.
const THREAD_VARIABLES: [&str; 2] = ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"];

/// Secrets and proxy settings of this process. The child reads untrusted files and never uses the
/// network, so it does not get them.
const REMOVED_VARIABLES: [&str; 10] = [
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

/// Starts each worker as a child process.
#[derive(Debug, Clone)]
pub struct ProcessWorkers {
    program: Result<PathBuf, String>,
    arguments: Vec<OsString>,
    /// The program may not be one of ours.
    is_unverified: bool,
    environment: Vec<(OsString, OsString)>,
    timeouts: Timeouts,
}

impl ProcessWorkers {
    /// Creates workers that run `program` with `arguments`; it must call [`crate::child::main`].
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self {
            program: Ok(program),
            arguments,
            is_unverified: false,
            environment: environment(),
            timeouts: Timeouts::default(),
        }
    }

    /// Creates workers that run this executable with [`SUBCOMMAND`]. If the path of the executable
    /// is unknown, each start fails with the reason.
    pub fn this_executable() -> Self {
        let program = std::env::current_exe();
        Self {
            program: program
                .map_err(|error| format!("can't find the path of this program: {error}")),
            ..Self::new(PathBuf::new(), vec![SUBCOMMAND.into()])
        }
    }

    /// Creates workers that run another program of ours, at `path`, with [`SUBCOMMAND`], so a shell
    /// need not link an engine. If there is no program, or it ends before its hello, each start
    /// fails with [`crate::WorkerEnd::NotStarted`], which names the path.
    pub fn program(path: &Path) -> Self {
        Self {
            is_unverified: true,
            ..Self::new(path.to_owned(), vec![SUBCOMMAND.into()])
        }
    }

    /// Returns these workers with other timeouts.
    #[must_use]
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    fn spawn(&self) -> Result<(Process, UnixStream), String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let (parent_end, child_end) = worker::socket_pair()
            .map_err(|error| format!("can't create a socket pair: {error}"))?;
        let mut command = Command::new(program);
        for name in REMOVED_VARIABLES {
            command.env_remove(name);
        }
        let child = command
            .args(&self.arguments)
            .envs(self.environment.iter().cloned())
            .stdin(OwnedFd::from(child_end))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let unverified = self.is_unverified.then(|| program.clone());
        Ok((Process { child, unverified }, parent_end))
    }
}

impl Workers for ProcessWorkers {
    fn start(&self) -> Worker {
        let (worker, channels) = Worker::new();
        let workers = self.clone();
        tokio::spawn(async move {
            worker::run(workers.spawn(), workers.timeouts, channels).await;
        });
        worker
    }
}

/// Returns the variables that a child gets in addition to the environment of this process.
/// Variables that the user has set stay.
fn environment() -> Vec<(OsString, OsString)> {
    let n_threads = Hardware::detect().n_performance_cores;
    let mut environment = child_variables(n_threads, LevelFilter::current());
    environment.retain(|(name, _)| std::env::var_os(name).is_none());
    environment
}

/// Returns variables for as many threads as there are performance cores, and for the log
/// level of this process.
fn child_variables(n_threads: usize, level: LevelFilter) -> Vec<(OsString, OsString)> {
    let n_threads = n_threads.max(1).to_string();
    let threads = THREAD_VARIABLES.map(|name| (name.into(), n_threads.clone().into()));
    let log = (FILTER_VARIABLE.into(), log_filter(level).into());
    threads.into_iter().chain([log]).collect()
}

/// Returns the log filter of a child, which logs what this process would show.
fn log_filter(level: LevelFilter) -> String {
    if level <= LevelFilter::WARN {
        "warn".to_owned()
    } else {
        format!("warn,transom={level}")
    }
}

struct Process {
    child: Child,
    /// The path of the program if it may not be one of ours.
    unverified: Option<PathBuf>,
}

impl ChildHandle for Process {
    type Stderr = ChildStderr;

    fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    async fn wait(&mut self) -> Result<(), String> {
        match self.child.wait().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(describe_exit(status)),
            Err(error) => Err(format!("its exit status is unknown: {error}")),
        }
    }

    fn unverified_program(&self) -> Option<&Path> {
        self.unverified.as_deref()
    }

    fn process_id(&self) -> u32 {
        // The id is known until the process is reaped.
        self.child.id().unwrap_or_default()
    }

    fn kill(&mut self) {
        // Fails only after the child was reaped.
        let _ = self.child.start_kill();
    }
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => match signal_hook::low_level::signal_name(signal) {
            Some(name) => format!("killed by signal {signal} ({name})"),
            None => format!("killed by signal {signal}"),
        },
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_is_described() {
        assert_eq!(
            describe_exit(ExitStatus::from_raw(9)),
            "killed by signal 9 (SIGKILL)"
        );
        assert_eq!(describe_exit(ExitStatus::from_raw(3 << 8)), "exit code 3");
        assert_eq!(
            describe_exit(ExitStatus::from_raw(60)),
            "killed by signal 60"
        );
    }

    #[test]
    fn a_child_uses_as_many_threads_as_there_are_performance_cores() {
        let variables = child_variables(6, LevelFilter::WARN);
        for name in THREAD_VARIABLES {
            assert!(variables.contains(&(name.into(), "6".into())), "{name}");
        }
    }

    #[test]
    fn a_child_has_the_log_level_of_its_parent() {
        assert_eq!(log_filter(LevelFilter::OFF), "warn");
        assert_eq!(log_filter(LevelFilter::WARN), "warn");
        assert_eq!(log_filter(LevelFilter::DEBUG), "warn,transom=debug");
    }
}
