//! Real children that misbehave, and what their owner is told.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/talk.rs"]
mod talk;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use transom_engine::{EngineError, FinishReason, Trim};
use transom_engine_host::wire::{Command, JobId, MAX_FRAME_BYTES, PROTOCOL, Report};
use transom_engine_host::{Patience, ProcessWorkers, WorkerEnd, frame};

use talk::{Talk, workers};

const PROGRAM: &str = env!("CARGO_BIN_EXE_engine-host-test");

fn hurried() -> Patience {
    Patience {
        ping_every: Duration::from_millis(100),
        unheard: Duration::from_secs(2),
        silent: Duration::from_secs(2),
        ..Patience::default()
    }
}

async fn end_of(mode: &str) -> WorkerEnd {
    Talk::start(&workers(mode)).end().await
}

fn died(end: WorkerEnd) -> (String, String) {
    match end {
        WorkerEnd::Died { how, last_words } => (how, last_words),
        other => panic!("{other:?}"),
    }
}

fn protocol_reason(end: WorkerEnd) -> String {
    match end {
        WorkerEnd::Protocol { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Stops the answer, which is what some modes die of.
async fn end_of_stopped(mut talk: Talk) -> (WorkerEnd, String) {
    talk.send(Command::Stop {
        job: Some(JobId(1)),
        reason: FinishReason::Canceled,
    });
    (talk.end().await, talk.text())
}

/// The child in mid-answer: its first word was heard.
async fn answering(workers: &ProcessWorkers) -> Talk {
    let mut talk = Talk::start(workers);
    talk.load().await;
    talk.send(engine::generate(1, "hello"));
    talk.until(|report| matches!(report, Report::Event { event, .. } if engine::is_text(event)))
        .await;
    talk
}

#[tokio::test]
async fn a_program_that_is_not_there_was_not_started() {
    let workers = ProcessWorkers::new("no/such/program".into(), Vec::new());
    match Talk::start(&workers).end().await {
        WorkerEnd::NotStarted { reason } => assert!(reason.contains("no/such/program")),
        other => panic!("{other:?}"),
    }
}

/// Why workers of the program at `path` do not start.
async fn not_started(path: &Path) -> String {
    let workers = ProcessWorkers::program(path).with_patience(hurried());
    match Talk::start(&workers).end().await {
        WorkerEnd::NotStarted { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// A script in a folder of its own, which is removed with the first of the pair.
fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transom");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    (folder, path)
}

#[tokio::test]
async fn another_program_of_ours_is_told_to_be_the_child() {
    let (_folder, path) = script(&format!(
        "test \"$*\" = engine-host && exec '{PROGRAM}' answer"
    ));
    let mut talk = Talk::start(&ProcessWorkers::program(&path));
    talk.load().await;
    talk.send(engine::generate(1, "hello"));
    talk.job_end().await.unwrap();
    assert_eq!(talk.leave().await, WorkerEnd::AsTold);
}

#[tokio::test]
async fn a_program_that_is_none_of_ours_is_named_with_what_it_did() {
    let no_program = Path::new("no/such/program");
    assert!(not_started(no_program).await.contains("no/such/program"));
    let cases = [
        ("exit 0", "it ended (exit code 0)"),
        ("echo not me >&2; exit 7", "it ended (exit code 7: not me)"),
        ("echo hello there, who are you >&0", "longer"),
    ];
    for (text, expected) in cases {
        let (_folder, path) = script(text);
        let reason = not_started(&path).await;
        assert!(reason.starts_with(&path.display().to_string()), "{reason}");
        assert!(reason.contains(expected), "{reason}");
    }
}

/// Once it has greeted it is ours, and its faults are told as such.
#[tokio::test]
async fn a_program_of_ours_that_dies_later_died() {
    let (_folder, path) = script(&format!("exec '{PROGRAM}' exit-3"));
    let talk = answering(&ProcessWorkers::program(&path)).await;
    let (end, _) = end_of_stopped(talk).await;
    assert_eq!(died(end).0, "exit code 3");
}

#[tokio::test]
async fn an_exit_is_told_with_its_code_and_last_words() {
    let (how, _) = died(end_of("exit-at-once").await);
    assert_eq!(how, "exit code 3");
    let (end, _) = end_of_stopped(answering(&workers("exit-3")).await).await;
    let (how, last_words) = died(end);
    assert_eq!(how, "exit code 3");
    assert_eq!(last_words, "ERROR something broke");
}

#[tokio::test]
async fn an_abort_in_mid_answer_is_told_after_what_was_said() {
    let (end, text) = end_of_stopped(answering(&workers("abort")).await).await;
    assert_eq!(died(end).0, "killed by signal 6 (SIGABRT)");
    assert_eq!(text, "hello");
}

#[tokio::test]
async fn a_panicking_engine_fails_one_answer_and_then_only_unloads() {
    let mut talk = answering(&workers("panic")).await;
    let broken = talk.until(|report| matches!(report, Report::Broken { .. }));
    let broken = format!("{:?}", broken.await);
    assert!(!broken.contains("out of luck"), "{broken}");
    let error = talk.job_end().await.unwrap_err();
    assert!(error.to_string().contains("out of luck"), "{error}");
    talk.send(engine::generate(2, "again"));
    let error = talk.job_end().await.unwrap_err();
    assert!(error.to_string().contains("the engine failed"), "{error}");
    talk.send(Command::Trim {
        trim: Trim::Everything,
    });
    talk.send(engine::UNLOAD);
    talk.until(|report| matches!(report, Report::Unloaded { .. }))
        .await;
    assert_eq!(talk.leave().await, WorkerEnd::AsTold);
}

#[tokio::test]
async fn a_backend_that_fails_breaks_its_model() {
    let mut talk = answering(&workers("backend-error")).await;
    let error = talk.job_end().await.unwrap_err();
    assert_eq!(error.to_string(), "decoding: the device is lost");
    let broken = Report::Broken {
        error: error.clone(),
    };
    assert!(talk.heard.contains(&broken), "{:?}", talk.heard);
    talk.send(engine::generate(2, "again"));
    assert_eq!(talk.job_end().await, Err(error));
    assert_eq!(talk.leave().await, WorkerEnd::AsTold);
}

/// Its engine looks for a stop within the step, so it is not taken for a hung one.
#[tokio::test]
async fn a_step_longer_than_the_watchdog_waits_is_not_given_up() {
    assert!(engine::SLOW_STEP > hurried().silent);
    let mut talk = answering(&workers("slow-step").with_patience(hurried())).await;
    assert_eq!(talk.job_end().await.unwrap().reason, FinishReason::Stop);
}

#[tokio::test]
async fn panics_in_load_and_unload_are_answers_too() {
    let mut talk = Talk::start(&workers("panic-in-load"));
    talk.send(engine::load());
    let report = talk.until(|report| matches!(report, Report::LoadFailed { .. }));
    assert!(format!("{:?}", report.await).contains("no weights"));
    assert_eq!(talk.leave().await, WorkerEnd::AsTold);

    let mut talk = Talk::start(&workers("panic-in-unload"));
    talk.load().await;
    talk.send(engine::UNLOAD);
    talk.until(|report| matches!(report, Report::Unloaded { .. }))
        .await;
    assert_eq!(talk.leave().await, WorkerEnd::AsTold);
}

#[tokio::test]
async fn a_chattering_child_is_heard_and_does_not_stand_still() {
    let mut talk = answering(&workers("chatter")).await;
    talk.job_end().await.unwrap();
    assert_eq!(talk.text(), "hello");
    assert_eq!(talk.leave().await, WorkerEnd::AsTold);
}

#[tokio::test]
async fn another_version_says_that_the_program_was_replaced() {
    let reason = protocol_reason(end_of("other-version").await);
    assert!(reason.contains("replaced"), "{reason}");
}

#[tokio::test]
async fn garbage_from_a_child_ends_it_with_a_reason() {
    let reason = protocol_reason(end_of("garbage").await);
    assert!(reason.contains("makes no sense"), "{reason}");
    let reason = protocol_reason(end_of("too-long").await);
    assert!(reason.contains("longer"), "{reason}");
}

/// A child with a socket that the test itself speaks over.
fn raw_child(mode: &str) -> (Child, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    let child = Program::new(PROGRAM)
        .arg(mode)
        .stdin(Stdio::from(OwnedFd::from(far)))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, near)
}

/// Its exit code and what it said on standard error.
fn outcome(mut child: Child) -> (Option<i32>, String) {
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    (child.wait().unwrap().code(), said)
}

#[test]
fn garbage_to_a_child_ends_it_with_a_reason() {
    let hello = frame::encode(&Command::Hello { protocol: PROTOCOL }).unwrap();
    let too_long = (MAX_FRAME_BYTES as u32 + 1).to_le_bytes();
    let cases: [(&[u8], &str); 3] = [
        (b"\x03\0\0\0abc", "makes no sense"),
        (&too_long, "longer"),
        (b"\xff\0", "inside a message"),
    ];
    for (garbage, expected) in cases {
        for greeting in [&[][..], &hello] {
            let (child, mut stream) = raw_child("answer");
            stream.write_all(greeting).unwrap();
            stream.write_all(garbage).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let (code, said) = outcome(child);
            assert_eq!(code, Some(4), "{said}");
            assert!(said.contains(expected), "{said}");
        }
    }
}

#[test]
fn the_hidden_command_by_hand_says_what_it_is_for() {
    let output = Program::new(PROGRAM).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("own use"), "{said}");
}

#[tokio::test]
async fn a_child_whose_engine_is_stuck_is_given_up() {
    let workers = workers("hang-in-decode").with_patience(hurried());
    let mut talk = answering(&workers).await;
    let end = talk.end().await;
    assert!(matches!(end, WorkerEnd::Unresponsive { .. }), "{end:?}");
}

#[tokio::test]
async fn a_kill_ends_a_stuck_child_at_once() {
    let mut talk = answering(&workers("hang-in-decode")).await;
    talk.worker.kill.kill();
    assert_eq!(talk.end().await, WorkerEnd::AsTold);
}

#[tokio::test]
async fn a_stuck_child_that_is_told_to_end_does_so_within_a_second() {
    let talk = answering(&workers("hang-in-decode")).await;
    let told = Instant::now();
    assert_eq!(talk.leave().await, WorkerEnd::AsTold);
    assert!(
        told.elapsed() < Duration::from_secs(1),
        "{:?}",
        told.elapsed()
    );
}

#[tokio::test]
async fn a_prompt_too_long_for_a_frame_fails_alone() {
    let mut talk = Talk::start(&workers("answer"));
    talk.load().await;
    talk.send(engine::generate(1, &"x".repeat(MAX_FRAME_BYTES)));
    let error = talk.job_end().await.unwrap_err();
    assert!(error.to_string().contains("longer"), "{error}");
    talk.send(engine::generate(2, &"x".repeat(MAX_FRAME_BYTES / 2)));
    assert_eq!(talk.job_end().await.unwrap().reason, FinishReason::Stop);
}

#[tokio::test]
async fn a_parameter_that_json_cannot_carry_fails_alone() {
    let mut talk = Talk::start(&workers("answer"));
    talk.load().await;
    let mut request = engine::request("hello");
    request.params.sampling.temperature = f32::NAN;
    talk.send(Command::Generate {
        job: JobId(1),
        request: Box::new(request),
    });
    let error = talk.job_end().await.unwrap_err();
    assert!(
        matches!(error, EngineError::InvalidParameter { .. }),
        "{error}"
    );
    talk.send(engine::generate(2, "hello"));
    talk.job_end().await.unwrap();
}

#[tokio::test]
async fn a_huge_answer_arrives_whole() {
    const N_BYTES: usize = 100_000_000;
    let mut talk = Talk::start(&workers(&format!("huge:{N_BYTES}")));
    talk.load().await;
    talk.send(engine::generate(1, "hello"));
    talk.job_end().await.unwrap();
    let text = talk.text();
    assert_eq!(text.len(), N_BYTES);
    assert!(text.ends_with("0123456789"));
}

#[tokio::test]
async fn a_reader_that_lags_gets_joined_texts_and_loses_nothing() {
    let mut talk = Talk::start(&workers("flat:200000"));
    talk.load().await;
    talk.send(engine::generate(1, "hello"));
    talk.job_end().await.unwrap();
    let expected: String = (0..200_000).map(|n| format!("{n} ")).collect();
    assert!(talk.text() == expected);
    assert!(talk.heard.len() < 100_000, "{} reports", talk.heard.len());
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

    /// Whether the process ends within `time`; it need not be this one's child.
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
    async fn a_stopped_child_is_given_up() {
        let workers = workers("endless").with_patience(hurried());
        let mut talk = Talk::start(&workers);
        let id = talk.measure().await;
        talk.load().await;
        talk.send(engine::generate(1, "hello"));
        kill_process(pid(id), Signal::STOP).unwrap();
        let end = talk.end().await;
        assert!(matches!(end, WorkerEnd::Unresponsive { .. }), "{end:?}");
    }

    /// A parent whose child is in an answer, and the child's id.
    fn middle(variables: &[(&str, &str)]) -> (Child, u32) {
        let mut middle = Program::new(PROGRAM)
            .arg("middle")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(middle.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        (middle, line.trim().parse().unwrap())
    }

    #[test]
    fn a_child_has_no_secrets_no_proxies_and_dumps_no_core() {
        let variables = [
            ("HF_TOKEN", "hf_secret"),
            ("HUGGING_FACE_HUB_TOKEN", "hf_secret"),
            ("HTTPS_PROXY", "http://me:secret@proxy"),
            ("http_proxy", "http://me:secret@proxy"),
            ("HARMLESS", "is there"),
        ];
        let (mut middle, id) = middle(&variables);
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
        middle.kill().unwrap();
        middle.wait().unwrap();
        let environment = String::from_utf8_lossy(&environment);
        assert!(environment.contains("is there"), "{environment}");
        assert!(!environment.contains("secret"), "{environment}");
        let core = limits.lines().find(|line| line.starts_with("Max core"));
        let core: Vec<_> = core.unwrap().split_whitespace().collect();
        assert_eq!(core[4..6], ["0", "0"], "{limits}");
    }

    /// Even with its engine stuck.
    #[test]
    fn a_child_whose_parent_was_killed_is_gone_within_a_second() {
        let (mut middle, id) = middle(&[]);
        let child = pidfd_open(pid(id), PidfdFlags::empty()).unwrap();
        assert!(!ends_within(&child, Duration::ZERO));
        middle.kill().unwrap();
        assert!(ends_within(&child, Duration::from_secs(1)));
        middle.wait().unwrap();
    }

    #[tokio::test]
    async fn a_worker_that_is_dropped_whole_is_killed() {
        let mut talk = Talk::start(&workers("hang-in-decode"));
        let child = pidfd_open(pid(talk.measure().await), PidfdFlags::empty()).unwrap();
        drop(talk);
        let ended =
            tokio::task::spawn_blocking(move || ends_within(&child, Duration::from_secs(1)));
        assert!(ended.await.unwrap());
    }

    /// An idle child with a model neither runs nor is asked anything.
    #[tokio::test]
    async fn an_idle_child_is_not_woken() {
        let mut talk = Talk::start(&workers("answer"));
        let id = talk.measure().await;
        talk.load().await;
        talk.send(engine::generate(1, "hello"));
        talk.job_end().await.unwrap();
        let child = pidfd_open(pid(id), PidfdFlags::empty()).unwrap();
        let idle = |time| {
            let child = child.try_clone().unwrap();
            tokio::task::spawn_blocking(move || ends_within(&child, time))
        };
        // Its threads go to rest after the last report.
        assert!(!idle(Duration::from_millis(300)).await.unwrap());
        let before = n_switches(id);
        assert!(!idle(Duration::from_millis(1500)).await.unwrap());
        assert_eq!(n_switches(id), before);
    }

    /// How often the process's threads went to sleep.
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
