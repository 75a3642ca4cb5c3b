//! The child's loop, frame by frame, with the engine's thread held at chosen points.
//!
//! Rule: nothing here waits for a time. A ping that is answered proves that the reader's thread has
//! obeyed everything sent before it.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/engine.rs"]
mod engine;

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use transom_engine::{Engine, EngineError, FinishReason, TokenEvent, Trim};
use transom_engine_host::child;
use transom_engine_host::frame::{self, FrameReader};
use transom_engine_host::wire::{Command, JobId, JobSummary, PROTOCOL, Report};
use transom_engine_host::{ThreadWorkers, WorkerEnd, WorkerReport, Workers};

use engine::Scripted;

/// A child on a thread, and the parent's end of its socket.
struct Served {
    stream: UnixStream,
    frames: FrameReader<UnixStream>,
    thread: JoinHandle<()>,
}

impl Served {
    fn start(engine: Scripted) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let engines: [Box<dyn Engine>; 1] = [Box::new(engine)];
            child::serve(far, &engines, || {}).unwrap();
        });
        let mut served = Self {
            frames: FrameReader::new(near.try_clone().unwrap()),
            stream: near,
            thread,
        };
        served.send(&Command::Hello { protocol: PROTOCOL });
        assert_eq!(served.next(), Report::Hello { protocol: PROTOCOL });
        served
    }

    fn loaded(engine: Scripted) -> Self {
        let mut served = Self::start(engine);
        served.send(&engine::load());
        served.until(|report| matches!(report, Report::Loaded { .. }));
        served
    }

    fn send(&mut self, command: &Command) {
        frame::write(&mut self.stream, command).unwrap();
    }

    /// The next report, but for those that come unasked.
    fn next(&mut self) -> Report {
        loop {
            match self.frames.read().unwrap().expect("a report") {
                Report::Footprint { .. } | Report::MemoryNotice => {}
                report => return report,
            }
        }
    }

    /// All reports up to the first that `is_it`, which is the last.
    fn until(&mut self, is_it: impl Fn(&Report) -> bool) -> Vec<Report> {
        let mut reports = vec![self.next()];
        while !reports.last().is_some_and(&is_it) {
            reports.push(self.next());
        }
        reports
    }

    /// Returns once everything sent so far was obeyed or queued; what was said meanwhile.
    fn obeyed(&mut self) -> Vec<Report> {
        self.send(&Command::Ping { nonce: 7 });
        let mut reports = self.until(|report| matches!(report, Report::Pong { nonce: 7, .. }));
        reports.pop();
        reports
    }

    fn leave(self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        self.thread.join().unwrap();
    }
}

/// Holds the engine's thread after each event that `holds`, until it is let go.
fn gate(
    mode: &str,
    holds: impl Fn(&TokenEvent) -> bool + Send + Sync + 'static,
) -> (Scripted, Receiver<()>, Sender<()>) {
    let (reached, is_reached) = channel();
    let (let_go, may_go) = channel();
    let may_go = Mutex::new(may_go);
    let engine = Scripted::hooked(mode, move |event| {
        if event.is_some_and(&holds) {
            // The test may be over.
            let _ = reached.send(());
            let _ = may_go.lock().unwrap().recv();
        }
    });
    (engine, is_reached, let_go)
}

fn stop(job: u64, reason: FinishReason) -> Command {
    Command::Stop {
        job: Some(JobId(job)),
        reason,
    }
}

fn summary(reports: &[Report]) -> JobSummary {
    match reports.last() {
        Some(Report::JobEnded { result, .. }) => result.clone().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn is_job_end(report: &Report) -> bool {
    matches!(report, Report::JobEnded { .. })
}

/// The answer ends with the token that was being computed.
#[test]
fn a_cancel_takes_effect_within_one_token() {
    let (engine, is_reached, let_go) = gate("endless", engine::is_text);
    let mut served = Served::loaded(engine);
    served.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    served.send(&stop(1, FinishReason::Canceled));
    served.obeyed();
    drop(let_go);
    let summary = summary(&served.until(is_job_end));
    assert_eq!(summary.reason, FinishReason::Canceled);
    assert_eq!(summary.stats.generated_tokens, 1);
    served.leave();
}

#[test]
fn a_shed_takes_effect_within_one_prefill_chunk() {
    let is_prefill = |event: &TokenEvent| matches!(event, TokenEvent::Prefill { .. });
    let (engine, is_reached, let_go) = gate("endless", is_prefill);
    let mut served = Served::loaded(engine);
    served.send(&engine::generate(1, &"x".repeat(160)));
    is_reached.recv().unwrap();
    served.send(&stop(1, FinishReason::Shed));
    served.obeyed();
    drop(let_go);
    let summary = summary(&served.until(is_job_end));
    assert_eq!(summary.reason, FinishReason::Shed);
    assert_eq!(summary.stats.generated_tokens, 0);
    assert!(
        is_reached.try_recv().is_err(),
        "a second chunk was computed"
    );
    served.leave();
}

#[test]
fn a_stop_of_an_ended_job_is_harmless() {
    let mut served = Served::loaded(Scripted::new("answer"));
    served.send(&engine::generate(1, "hello"));
    served.until(is_job_end);
    served.send(&stop(1, FinishReason::Canceled));
    served.send(&engine::generate(2, "hello"));
    let summary = summary(&served.until(is_job_end));
    assert_eq!(summary.reason, FinishReason::Stop);
    assert_eq!(summary.stats.generated_tokens, 2);
    served.leave();
}

#[test]
fn a_job_that_is_stopped_before_it_begins_ends_with_its_reason_and_nothing_done() {
    let (engine, is_reached, let_go) = gate("answer", engine::is_text);
    let mut served = Served::loaded(engine);
    served.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    served.send(&engine::generate(2, "hello"));
    served.send(&stop(2, FinishReason::Shed));
    served.obeyed();
    drop(let_go);
    assert_eq!(
        summary(&served.until(is_job_end)).reason,
        FinishReason::Stop
    );
    let reports = served.until(is_job_end);
    assert_eq!(reports.len(), 1);
    assert_eq!(summary(&reports).reason, FinishReason::Shed);
    assert_eq!(summary(&reports).stats, Default::default());
    served.leave();
}

/// Nothing is freed before the running job has settled.
#[test]
fn an_unload_in_mid_answer_settles_before_the_model_is_dropped() {
    let (log, entries) = channel();
    let (reached, is_reached) = channel();
    let (let_go, may_go) = channel::<()>();
    let may_go = Mutex::new(may_go);
    let engine = Scripted::hooked("endless", move |event| {
        let entry = match event {
            Some(TokenEvent::Finished { .. }) => "finished",
            Some(_) => "event",
            None => "dropped",
        };
        log.send(entry).unwrap();
        if event.is_some_and(engine::is_text) {
            reached.send(()).unwrap();
            let _ = may_go.lock().unwrap().recv();
        }
    });
    let mut served = Served::loaded(engine);
    served.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    served.send(&engine::UNLOAD);
    served.obeyed();
    drop(let_go);
    let reports = served.until(|report| matches!(report, Report::Unloaded { .. }));
    let job_end = reports.iter().position(is_job_end);
    assert_eq!(job_end, Some(reports.len() - 2));
    let entries: Vec<&str> = entries.try_iter().collect();
    assert!(entries.ends_with(&["finished", "dropped"]), "{entries:?}");
    served.leave();
}

#[test]
fn commands_are_answered_in_order() {
    let (engine, is_reached, let_go) = gate("answer", engine::is_text);
    let mut served = Served::loaded(engine);
    served.send(&engine::generate(1, "hello"));
    is_reached.recv().unwrap();
    served.send(&Command::Trim {
        trim: Trim::Everything,
    });
    served.send(&engine::generate(2, "hello"));
    served.send(&Command::Trim {
        trim: Trim::KeepConversation,
    });
    served.obeyed();
    drop(let_go);
    let mut answers = Vec::new();
    while answers.len() < 4 {
        match served.next() {
            Report::JobEnded { job, .. } => answers.push(format!("{job:?}")),
            Report::Trimmed { bytes, .. } => answers.push(format!("trimmed {bytes}")),
            _ => {}
        }
    }
    assert_eq!(answers, ["JobId(1)", "trimmed 7", "JobId(2)", "trimmed 0"]);
    served.leave();
}

#[test]
fn a_process_loads_once_even_if_the_model_is_gone() {
    let mut served = Served::loaded(Scripted::new("answer"));
    served.send(&engine::UNLOAD);
    served.until(|report| matches!(report, Report::Unloaded { .. }));
    served.send(&engine::load());
    assert!(matches!(served.next(), Report::LoadFailed { .. }));
    served.send(&engine::generate(1, "hello"));
    assert!(matches!(
        served.next(),
        Report::JobEnded { result: Err(_), .. }
    ));
    served.leave();
}

#[test]
fn a_process_whose_load_failed_may_load_another_form_of_the_model() {
    let mut served = Served::start(Scripted::new("answer"));
    served.send(&engine::load_of(engine::FOREIGN, None));
    served.until(|report| matches!(report, Report::LoadFailed { .. }));
    served.send(&engine::load());
    served.until(|report| matches!(report, Report::Loaded { .. }));
    served.leave();
}

#[test]
fn a_running_load_is_stopped_by_its_own_stop_or_an_unload() {
    for stop in [
        Command::Stop {
            job: None,
            reason: FinishReason::Canceled,
        },
        engine::UNLOAD,
    ] {
        let mut served = Served::start(Scripted::new("slow-load"));
        served.send(&engine::load());
        served.until(|report| matches!(report, Report::LoadProgress { .. }));
        served.send(&stop);
        let reports = served.until(|report| matches!(report, Report::LoadFailed { .. }));
        let cancelled = Report::LoadFailed {
            error: EngineError::Canceled,
        };
        assert_eq!(reports.last(), Some(&cancelled));
        served.leave();
    }
}

#[test]
fn a_parent_that_is_gone_stops_the_job_and_drops_the_model() {
    let dropped = Arc::new(Mutex::new(false));
    let told = dropped.clone();
    let engine = Scripted::hooked("endless", move |event| {
        if event.is_none() {
            *told.lock().unwrap() = true;
        }
    });
    let mut served = Served::loaded(engine);
    served.send(&engine::generate(1, "hello"));
    served.leave();
    assert!(*dropped.lock().unwrap());
}

/// The engine says everything and ends its job while nobody reads a word of it.
#[test]
fn the_engine_never_waits_for_a_reader() {
    let (told, is_told) = channel();
    let engine = Scripted::hooked("flat:300000", move |event| {
        if matches!(event, Some(TokenEvent::Finished { .. })) {
            told.send(()).unwrap();
        }
    });
    let mut served = Served::loaded(engine);
    served.send(&engine::generate(1, "hello"));
    is_told.recv().unwrap();
    let reports = served.until(is_job_end);
    let text: String = reports.iter().filter_map(text).collect();
    let expected: String = (0..300_000).map(|n| format!("{n} ")).collect();
    assert!(text == expected);
    assert!(reports.len() < 50_000, "{} reports", reports.len());
    served.leave();
}

fn text(report: &Report) -> Option<&str> {
    match report {
        Report::Event {
            event: TokenEvent::Text { text, .. },
            ..
        } => Some(text),
        _ => None,
    }
}

#[tokio::test]
async fn a_worker_on_a_thread_answers_leaves_and_can_be_killed() {
    let workers = ThreadWorkers::new(|| vec![Box::new(Scripted::new("answer"))]);
    let mut worker = workers.start();
    worker.commands.send(engine::load()).unwrap();
    worker.commands.send(engine::generate(1, "hello")).unwrap();
    loop {
        match worker.reports.recv().await {
            Some(WorkerReport::Said(report)) if is_job_end(&report) => break,
            Some(WorkerReport::Said(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(worker.commands);
    let end = WorkerReport::Gone(WorkerEnd::AsTold);
    assert_eq!(worker.reports.recv().await, Some(end.clone()));

    let mut worker = workers.start();
    worker.kill.kill();
    assert_eq!(worker.reports.recv().await, Some(end));
    assert_eq!(worker.reports.recv().await, None);
}
