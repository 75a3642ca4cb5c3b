use tokio::io::Empty;
use tokio::sync::oneshot;
use transom_engine::{Limits, MemoryNeed, ModelSource};

use super::*;
use crate::worker::Worker;

/// A child that is only a socket; the test decides when and how it exits.
struct FakeChild {
    exit: Option<oneshot::Receiver<Result<(), String>>>,
    was_killed: bool,
    /// A kill does not make it exit.
    ignores_kill: bool,
}

impl ChildHandle for FakeChild {
    type Stderr = Empty;

    fn take_stderr(&mut self) -> Option<Empty> {
        None
    }

    async fn wait(&mut self) -> Result<(), String> {
        match &mut self.exit {
            Some(exit) if !self.was_killed || self.ignores_kill => exit.await.unwrap(),
            _ => Err("killed".to_owned()),
        }
    }

    fn process_id(&self) -> u32 {
        4711
    }

    fn kill(&mut self) {
        self.was_killed = true;
    }
}

struct Setup {
    worker: Worker,
    child_end: UnixStream,
    end: oneshot::Sender<Result<(), String>>,
}

fn start(timeouts: Timeouts) -> Setup {
    start_with(false, timeouts)
}

fn start_with(ignores_kill: bool, timeouts: Timeouts) -> Setup {
    let (parent_end, child_end) = UnixStream::pair().unwrap();
    let (end, exited) = oneshot::channel();
    let (worker, channels) = Worker::new();
    let child = FakeChild {
        exit: Some(exited),
        was_killed: false,
        ignores_kill,
    };
    tokio::spawn(run(child, parent_end, timeouts, channels));
    Setup {
        worker,
        child_end,
        end,
    }
}

const MEASURE: fn() -> Command = || Command::Measure {
    source: ModelSource {
        path: "model".into(),
    },
    limits: Limits::default(),
};

fn measured() -> Report {
    Report::Measured {
        result: Ok(MemoryNeed::default()),
    }
}

async fn send_report(child_end: &mut UnixStream, report: &Report) {
    frame::write_async(child_end, report).await.unwrap();
}

async fn send_hello(child_end: &mut UnixStream) {
    send_report(child_end, &Report::Hello { protocol: PROTOCOL }).await;
}

#[tokio::test]
async fn reports_in_the_socket_come_before_the_exit() {
    let mut setup = start(Timeouts::default());
    for _ in 0..200 {
        setup.worker.commands.send(MEASURE()).unwrap();
    }
    send_hello(&mut setup.child_end).await;
    for _ in 0..200 {
        send_report(&mut setup.child_end, &measured()).await;
    }
    setup
        .end
        .send(Err("killed by signal 9 (SIGKILL)".to_owned()))
        .unwrap();
    drop(setup.child_end);
    for _ in 0..200 {
        let report = setup.worker.reports.recv().await;
        assert_eq!(report, Some(WorkerReport::Message(measured())));
    }
    let died = WorkerEnd::Died {
        how: "killed by signal 9 (SIGKILL)".to_owned(),
        stderr_tail: String::new(),
    };
    assert_eq!(
        setup.worker.reports.recv().await,
        Some(WorkerReport::Exited(died))
    );
    assert_eq!(setup.worker.reports.recv().await, None);
}

/// The paused clock moves only to deadlines, and only the watchdog has any.
#[tokio::test(start_paused = true)]
async fn an_idle_worker_has_no_deadline_and_a_silent_one_is_killed() {
    let start_time = Instant::now();
    let mut setup = start(Timeouts::default());
    send_hello(&mut setup.child_end).await;
    let mut sent = FrameReader::new(&mut setup.child_end);
    assert!(matches!(
        sent.read_async().await,
        Ok(Some(Command::Hello { .. }))
    ));
    let a_day = Duration::from_secs(24 * 3600);
    let idle = tokio::time::timeout(a_day, sent.read_async::<Command>()).await;
    assert!(idle.is_err(), "an idle worker got {idle:?}");

    setup.worker.commands.send(MEASURE()).unwrap();
    let sent_at = Instant::now();
    let gone = setup.worker.reports.recv().await;
    let unresponsive = WorkerEnd::Unresponsive { seconds: 5 };
    assert_eq!(gone, Some(WorkerReport::Exited(unresponsive)));
    assert_eq!(sent_at.elapsed(), Duration::from_secs(5));
    assert!(start_time.elapsed() < a_day + Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_closes_its_socket_and_does_not_exit_is_killed() {
    let mut setup = start(Timeouts::default());
    send_hello(&mut setup.child_end).await;
    drop(setup.child_end);
    let gone = setup.worker.reports.recv().await;
    assert!(
        matches!(gone, Some(WorkerReport::Exited(WorkerEnd::Protocol { .. }))),
        "{gone:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_exit_on_request_is_killed_in_time() {
    let mut setup = start(Timeouts::default());
    send_hello(&mut setup.child_end).await;
    drop(setup.worker.commands);
    let requested = Instant::now();
    let gone = setup.worker.reports.recv().await;
    assert_eq!(gone, Some(WorkerReport::Exited(WorkerEnd::Requested)));
    assert_eq!(requested.elapsed(), Duration::from_secs(2));
}

/// The child is not blamed for the delay of its owner.
#[tokio::test(start_paused = true)]
async fn a_worker_with_a_lagging_owner_is_not_unresponsive() {
    let mut setup = start(Timeouts::default());
    send_hello(&mut setup.child_end).await;
    let n_commands = 2 * crate::worker::N_BUFFERED_REPORTS;
    for _ in 0..n_commands {
        setup.worker.commands.send(MEASURE()).unwrap();
    }
    for _ in 0..n_commands {
        send_report(&mut setup.child_end, &measured()).await;
    }
    tokio::time::advance(Duration::from_secs(3600)).await;
    for _ in 0..n_commands {
        let report = setup.worker.reports.recv().await;
        assert_eq!(report, Some(WorkerReport::Message(measured())));
    }
}

/// The system may be unable to end a process. The owner learns that in time, and later of the exit.
#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_be_killed_is_reported_as_stuck_and_later_as_exited() {
    let mut setup = start_with(true, Timeouts::default());
    send_hello(&mut setup.child_end).await;
    setup.worker.kill.kill();
    let killed = Instant::now();
    let stuck = WorkerReport::Stuck {
        process_id: 4711,
        end: WorkerEnd::Requested,
    };
    assert_eq!(setup.worker.reports.recv().await, Some(stuck));
    assert_eq!(killed.elapsed(), Duration::from_secs(10));
    let a_day = Duration::from_secs(24 * 3600);
    let more = timeout(a_day, setup.worker.reports.recv()).await;
    assert!(more.is_err(), "{more:?} although nothing happened");
    setup.end.send(Ok(())).unwrap();
    let gone = WorkerReport::Exited(WorkerEnd::Requested);
    assert_eq!(setup.worker.reports.recv().await, Some(gone));
    assert_eq!(setup.worker.reports.recv().await, None);
}

/// As above, but the watchdog killed the worker and not its owner.
#[tokio::test(start_paused = true)]
async fn a_silent_worker_that_cannot_be_killed_is_reported_as_stuck() {
    let mut setup = start_with(true, Timeouts::default());
    send_hello(&mut setup.child_end).await;
    setup.worker.commands.send(MEASURE()).unwrap();
    let stuck = WorkerReport::Stuck {
        process_id: 4711,
        end: WorkerEnd::Unresponsive { seconds: 5 },
    };
    assert_eq!(setup.worker.reports.recv().await, Some(stuck));
}

/// Writing comes before reading.
#[tokio::test]
async fn a_child_that_floods_its_socket_still_gets_commands() {
    let (parent_end, mut child_end) = UnixStream::pair().unwrap();
    let (_worker, channels) = Worker::new();
    let mut task = WorkerTask::<Empty>::new(parent_end, None, Timeouts::default(), channels);
    let mut child = FakeChild {
        exit: None,
        was_killed: false,
        ignores_kill: false,
    };
    task.exit = Some(Ok(()));
    for _ in 0..100 {
        send_hello(&mut child_end).await;
    }
    task.send(&Command::Ping { nonce: 1 });
    let wake = task.next_wake(&mut child, &mut [0]).await;
    assert!(matches!(wake, Wake::Written(Ok(1..))), "it read first");
}
