//! Child processes with faults, and what their owner learns of them.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/test_worker.rs"]
mod test_worker;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use transom_engine::{EngineError, FinishReason, Trim};
use transom_engine_host::frame::MAX_FRAME_BYTES;
use transom_engine_host::wire::{Command, JobId, PROTOCOL, Report};
use transom_engine_host::{ProcessWorkers, Timeouts, WorkerEnd, frame};

use test_worker::{TestWorker, workers};

const PROGRAM: &str = env!("CARGO_BIN_EXE_engine-host-test");

fn short_timeouts() -> Timeouts {
    Timeouts {
        ping_interval: Duration::from_millis(100),
        message: Duration::from_secs(2),
        heartbeat: Duration::from_secs(2),
        ..Timeouts::default()
    }
}

async fn end_of(mode: &str) -> WorkerEnd {
    TestWorker::start(&workers(mode)).end().await
}

fn died(end: WorkerEnd) -> (String, String) {
    match end {
        WorkerEnd::Died { how, stderr_tail } => (how, stderr_tail),
        other => panic!("{other:?}"),
    }
}

fn protocol_reason(end: WorkerEnd) -> String {
    match end {
        WorkerEnd::Protocol { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Stops the response, after which some modes exit, and returns the end and the text.
async fn end_of_stopped(mut worker: TestWorker) -> (WorkerEnd, String) {
    worker.send(Command::Stop {
        job: Some(JobId(1)),
        reason: FinishReason::Canceled,
    });
    (worker.end().await, worker.text())
}

/// Starts a worker and waits for the first text of a response.
async fn generating(workers: &ProcessWorkers) -> TestWorker {
    let mut worker = TestWorker::start(workers);
    worker.load().await;
    worker.send(engine::generate(1, "hello"));
    worker
        .until(|report| matches!(report, Report::Event { event, .. } if engine::is_text(event)))
        .await;
    worker
}

#[tokio::test]
async fn a_missing_program_is_not_started() {
    let workers = ProcessWorkers::new("no/such/program".into(), Vec::new());
    match TestWorker::start(&workers).end().await {
        WorkerEnd::NotStarted { reason } => assert!(reason.contains("no/such/program")),
        other => panic!("{other:?}"),
    }
}

/// Returns the reason why workers of the program at `path` do not start.
async fn start_error(path: &Path) -> String {
    let workers = ProcessWorkers::program(path).with_timeouts(short_timeouts());
    match TestWorker::start(&workers).end().await {
        WorkerEnd::NotStarted { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Writes a script to a new folder, which is removed when the first value is dropped.
fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transom");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    (folder, path)
}

#[tokio::test]
async fn another_program_of_ours_is_started_with_the_subcommand() {
    let (_folder, path) = script(&format!(
        "test \"$*\" = engine-host && exec '{PROGRAM}' answer"
    ));
    let mut worker = TestWorker::start(&ProcessWorkers::program(&path));
    worker.load().await;
    worker.send(engine::generate(1, "hello"));
    worker.job_end().await.unwrap();
    assert_eq!(worker.shut_down().await, WorkerEnd::Requested);
}

#[tokio::test]
async fn the_error_names_a_program_that_is_not_ours_and_what_it_did() {
    let no_program = Path::new("no/such/program");
    assert!(start_error(no_program).await.contains("no/such/program"));
    let cases = [
        ("exit 0", "it ended (exit code 0)"),
        ("echo not me >&2; exit 7", "it ended (exit code 7: not me)"),
        ("echo hello there, who are you >&0", "longer"),
    ];
    for (text, expected) in cases {
        let (_folder, path) = script(text);
        let reason = start_error(&path).await;
        assert!(reason.starts_with(&path.display().to_string()), "{reason}");
        assert!(reason.contains(expected), "{reason}");
    }
}

/// After its hello, the program is ours, and its faults are reported as such.
#[tokio::test]
async fn a_program_of_ours_that_exits_after_its_hello_has_died() {
    let (_folder, path) = script(&format!("exec '{PROGRAM}' exit-3"));
    let worker = generating(&ProcessWorkers::program(&path)).await;
    let (end, _) = end_of_stopped(worker).await;
    assert_eq!(died(end).0, "exit code 3");
}

#[tokio::test]
async fn an_exit_is_reported_with_its_code_and_last_output() {
    let (how, _) = died(end_of("exit-at-once").await);
    assert_eq!(how, "exit code 3");
    let (end, _) = end_of_stopped(generating(&workers("exit-3")).await).await;
    let (how, stderr_tail) = died(end);
    assert_eq!(how, "exit code 3");
    assert_eq!(stderr_tail, "ERROR something broke");
}

#[tokio::test]
async fn an_abort_during_a_response_is_reported_after_its_text() {
    let (end, text) = end_of_stopped(generating(&workers("abort")).await).await;
    assert_eq!(died(end).0, "killed by signal 6 (SIGABRT)");
    assert_eq!(text, "hello");
}

#[tokio::test]
async fn after_a_panic_all_jobs_fail_and_the_model_can_be_unloaded() {
    let mut worker = generating(&workers("panic")).await;
    let broken = worker.until(|report| matches!(report, Report::Broken { .. }));
    let broken = format!("{:?}", broken.await);
    assert!(!broken.contains("out of luck"), "{broken}");
    let error = worker.job_end().await.unwrap_err();
    assert!(error.to_string().contains("out of luck"), "{error}");
    worker.send(engine::generate(2, "again"));
    let error = worker.job_end().await.unwrap_err();
    assert!(error.to_string().contains("the engine failed"), "{error}");
    worker.send(Command::Trim {
        trim: Trim::Everything,
    });
    worker.unload().await;
    assert_eq!(worker.shut_down().await, WorkerEnd::Requested);
}

#[tokio::test]
async fn after_a_backend_error_the_model_is_broken() {
    let mut worker = generating(&workers("backend-error")).await;
    let error = worker.job_end().await.unwrap_err();
    assert_eq!(error.to_string(), "decoding: the device is lost");
    let broken = Report::Broken {
        error: error.clone(),
    };
    assert!(worker.reports.contains(&broken), "{:?}", worker.reports);
    worker.send(engine::generate(2, "again"));
    assert_eq!(worker.job_end().await, Err(error));
    assert_eq!(worker.shut_down().await, WorkerEnd::Requested);
}

/// The engine checks for a stop within the step, so the child does not count as hung.
#[tokio::test]
async fn a_step_longer_than_the_heartbeat_timeout_is_not_killed() {
    assert!(engine::SLOW_STEP > short_timeouts().heartbeat);
    let mut worker = generating(&workers("slow-step").with_timeouts(short_timeouts())).await;
    assert_eq!(worker.job_end().await.unwrap().reason, FinishReason::Stop);
}

#[tokio::test]
async fn panics_in_load_and_unload_become_errors() {
    let mut worker = TestWorker::start(&workers("panic-in-load"));
    worker.send(engine::load());
    let report = worker.until(|report| matches!(report, Report::LoadFailed { .. }));
    assert!(format!("{:?}", report.await).contains("no weights"));
    assert_eq!(worker.shut_down().await, WorkerEnd::Requested);

    let mut worker = TestWorker::start(&workers("panic-in-unload"));
    worker.load().await;
    worker.unload().await;
    assert_eq!(worker.shut_down().await, WorkerEnd::Requested);
}

#[tokio::test]
async fn a_child_that_prints_a_lot_is_not_blocked() {
    let mut worker = generating(&workers("prints-a-lot")).await;
    worker.job_end().await.unwrap();
    assert_eq!(worker.text(), "hello");
    assert_eq!(worker.shut_down().await, WorkerEnd::Requested);
}

#[tokio::test]
async fn another_protocol_version_means_that_the_program_was_replaced() {
    let reason = protocol_reason(end_of("other-version").await);
    assert!(reason.contains("replaced"), "{reason}");
}

#[tokio::test]
async fn an_invalid_message_from_a_child_ends_it_with_a_reason() {
    let reason = protocol_reason(end_of("garbage").await);
    assert!(reason.contains("is not valid"), "{reason}");
    let reason = protocol_reason(end_of("too-long").await);
    assert!(reason.contains("longer"), "{reason}");
}

/// Starts a child and returns it with the parent's end of its socket.
fn raw_child(mode: &str) -> (Child, UnixStream) {
    let (parent_end, child_end) = UnixStream::pair().unwrap();
    let child = Program::new(PROGRAM)
        .arg(mode)
        .stdin(Stdio::from(OwnedFd::from(child_end)))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, parent_end)
}

/// Returns the exit code and the standard error of a child.
fn outcome(mut child: Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    (child.wait().unwrap().code(), stderr)
}

#[test]
fn an_invalid_message_to_a_child_ends_it_with_a_reason() {
    let hello = frame::encode(&Command::Hello { protocol: PROTOCOL }).unwrap();
    let too_long = (MAX_FRAME_BYTES as u32 + 1).to_le_bytes();
    let cases: [(&[u8], &str); 3] = [
        (b"\x03\0\0\0abc", "is not valid"),
        (&too_long, "longer"),
        (b"\xff\0", "inside a message"),
    ];
    for (garbage, expected) in cases {
        for first in [&[][..], &hello] {
            let (child, mut stream) = raw_child("answer");
            stream.write_all(first).unwrap();
            stream.write_all(garbage).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let (code, stderr) = outcome(child);
            assert_eq!(code, Some(4), "{stderr}");
            assert!(stderr.contains(expected), "{stderr}");
        }
    }
}

#[test]
fn the_hidden_subcommand_explains_itself_to_a_person() {
    let output = Program::new(PROGRAM).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("own use"), "{stderr}");
}

#[tokio::test]
async fn a_child_whose_engine_hangs_is_killed() {
    let workers = workers("hang-in-decode").with_timeouts(short_timeouts());
    let mut worker = generating(&workers).await;
    let end = worker.end().await;
    assert!(matches!(end, WorkerEnd::Unresponsive { .. }), "{end:?}");
}

#[tokio::test]
async fn a_kill_ends_a_hung_child_at_once() {
    let mut worker = generating(&workers("hang-in-decode")).await;
    worker.worker.kill.kill();
    assert_eq!(worker.end().await, WorkerEnd::Requested);
}

#[tokio::test]
async fn a_hung_child_exits_on_request_within_a_second() {
    let worker = generating(&workers("hang-in-decode")).await;
    let requested = Instant::now();
    assert_eq!(worker.shut_down().await, WorkerEnd::Requested);
    assert!(
        requested.elapsed() < Duration::from_secs(1),
        "{:?}",
        requested.elapsed()
    );
}

#[tokio::test]
async fn a_prompt_that_is_too_long_for_a_frame_fails_only_its_job() {
    let mut worker = TestWorker::start(&workers("answer"));
    worker.load().await;
    worker.send(engine::generate(1, &"x".repeat(MAX_FRAME_BYTES)));
    let error = worker.job_end().await.unwrap_err();
    assert!(error.to_string().contains("longer"), "{error}");
    worker.send(engine::generate(2, &"x".repeat(MAX_FRAME_BYTES / 2)));
    assert_eq!(worker.job_end().await.unwrap().reason, FinishReason::Stop);
}

#[tokio::test]
async fn a_parameter_that_json_cannot_represent_fails_only_its_job() {
    let mut worker = TestWorker::start(&workers("answer"));
    worker.load().await;
    let mut request = engine::request("hello");
    request.params.sampling.temperature = f32::NAN;
    worker.send(Command::Generate {
        job: JobId(1),
        request: Box::new(request),
    });
    let error = worker.job_end().await.unwrap_err();
    assert!(
        matches!(error, EngineError::InvalidParameter { .. }),
        "{error}"
    );
    worker.send(engine::generate(2, "hello"));
    worker.job_end().await.unwrap();
}

#[tokio::test]
async fn a_huge_response_arrives_complete() {
    const N_BYTES: usize = 100_000_000;
    let mut worker = TestWorker::start(&workers(&format!("huge:{N_BYTES}")));
    worker.load().await;
    worker.send(engine::generate(1, "hello"));
    worker.job_end().await.unwrap();
    let text = worker.text();
    assert_eq!(text.len(), N_BYTES);
    assert!(text.ends_with("0123456789"));
}

#[tokio::test]
async fn a_lagging_reader_gets_joined_texts_without_loss() {
    let mut worker = TestWorker::start(&workers("flat:200000"));
    worker.load().await;
    worker.send(engine::generate(1, "hello"));
    worker.job_end().await.unwrap();
    let expected: String = (0..200_000).map(|n| format!("{n} ")).collect();
    assert!(worker.text() == expected);
    assert!(
        worker.reports.len() < 100_000,
        "{} reports",
        worker.reports.len()
    );
}

#[cfg(target_os = "linux")]
mod on_linux {
    use std::io::{BufRead, BufReader};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

    use super::*;

    fn pid(id: u32) -> Pid {
        Pid::from_raw(id.try_into().unwrap()).unwrap()
    }

    /// Returns true if the process ends within `time`. It need not be a child of this process.
    fn ends_within(process: &OwnedFd, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            let mut watched = [PollFd::new(process, PollFlags::IN)];
            let left = deadline.saturating_duration_since(Instant::now());
            match poll(&mut watched, Some(&Timespec::try_from(left).unwrap())) {
                // A child of another test may have ended.
                Err(rustix::io::Errno::INTR) => {}
                result => return result.unwrap() == 1,
            }
        }
    }

    #[tokio::test]
    async fn a_suspended_child_is_killed() {
        let workers = workers("endless").with_timeouts(short_timeouts());
        let mut worker = TestWorker::start(&workers);
        let id = worker.measure().await;
        worker.load().await;
        worker.send(engine::generate(1, "hello"));
        kill_process(pid(id), Signal::STOP).unwrap();
        let end = worker.end().await;
        assert!(matches!(end, WorkerEnd::Unresponsive { .. }), "{end:?}");
    }

    /// Starts a parent whose child generates a response; also returns the process id of the child.
    fn intermediate_parent(variables: &[(&str, &str)]) -> (Child, u32) {
        let mut intermediate_parent = Program::new(PROGRAM)
            .arg("parent")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(intermediate_parent.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        (intermediate_parent, line.trim().parse().unwrap())
    }

    #[test]
    fn a_child_has_no_tokens_proxies_or_core_dumps() {
        let variables = [
            ("HF_TOKEN", "hf_secret"),
            ("HUGGING_FACE_HUB_TOKEN", "hf_secret"),
            ("HTTPS_PROXY", "http://me:secret@proxy"),
            ("http_proxy", "http://me:secret@proxy"),
            ("HARMLESS", "is there"),
        ];
        let (mut intermediate_parent, id) = intermediate_parent(&variables);
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
        intermediate_parent.kill().unwrap();
        intermediate_parent.wait().unwrap();
        let environment = String::from_utf8_lossy(&environment);
        assert!(environment.contains("is there"), "{environment}");
        assert!(!environment.contains("secret"), "{environment}");
        let core = limits.lines().find(|line| line.starts_with("Max core"));
        let core: Vec<_> = core.unwrap().split_whitespace().collect();
        assert_eq!(core[4..6], ["0", "0"], "{limits}");
    }

    /// Even if its engine hangs.
    #[test]
    fn a_child_exits_within_a_second_after_its_parent_was_killed() {
        let (mut intermediate_parent, id) = intermediate_parent(&[]);
        let child = pidfd_open(pid(id), PidfdFlags::empty()).unwrap();
        assert!(!ends_within(&child, Duration::ZERO));
        intermediate_parent.kill().unwrap();
        assert!(ends_within(&child, Duration::from_secs(1)));
        intermediate_parent.wait().unwrap();
    }

    #[tokio::test]
    async fn a_dropped_worker_is_killed() {
        let mut worker = TestWorker::start(&workers("hang-in-decode"));
        let child = pidfd_open(pid(worker.measure().await), PidfdFlags::empty()).unwrap();
        drop(worker);
        let ended =
            tokio::task::spawn_blocking(move || ends_within(&child, Duration::from_secs(1)));
        assert!(ended.await.unwrap());
    }

    /// A child with a loaded model does not run while it is idle.
    #[tokio::test]
    async fn an_idle_child_is_not_woken() {
        let mut worker = TestWorker::start(&workers("answer"));
        let id = worker.measure().await;
        worker.load().await;
        worker.send(engine::generate(1, "hello"));
        worker.job_end().await.unwrap();
        let child = pidfd_open(pid(id), PidfdFlags::empty()).unwrap();
        let idle = |time| {
            let child = child.try_clone().unwrap();
            tokio::task::spawn_blocking(move || ends_within(&child, time))
        };
        // The threads become idle shortly after the last report.
        assert!(!idle(Duration::from_millis(300)).await.unwrap());
        let before = n_switches(id);
        assert!(!idle(Duration::from_millis(1500)).await.unwrap());
        assert_eq!(n_switches(id), before);
    }

    /// Returns how often the threads of a process went to sleep.
    fn n_switches(id: u32) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
        let of_thread = |thread: std::fs::DirEntry| {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        threads.map(|thread| of_thread(thread.unwrap())).sum()
    }
}
