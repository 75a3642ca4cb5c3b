use tokio::io::Empty;
use tokio::sync::oneshot;
use transom_engine::{Limits, MemoryNeed, ModelSource};

use super::*;
use crate::worker::Worker;

/// A worker that is only a socket; the test says when and how it ends.
struct Puppet {
    end: Option<oneshot::Receiver<Result<(), String>>>,
    was_killed: bool,
    /// A kill does not end it.
    is_immortal: bool,
}

impl Vessel for Puppet {
    type Stderr = Empty;

    fn take_stderr(&mut self) -> Option<Empty> {
        None
    }

    async fn ended(&mut self) -> Result<(), String> {
        match &mut self.end {
            Some(end) if !self.was_killed || self.is_immortal => end.await.unwrap(),
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

struct Play {
    worker: Worker,
    far: UnixStream,
    end: oneshot::Sender<Result<(), String>>,
}

fn start(patience: Patience) -> Play {
    start_as(false, patience)
}

fn start_as(is_immortal: bool, patience: Patience) -> Play {
    let (near, far) = UnixStream::pair().unwrap();
    let (end, is_ended) = oneshot::channel();
    let (worker, ends) = Worker::new();
    let puppet = Puppet {
        end: Some(is_ended),
        was_killed: false,
        is_immortal,
    };
    tokio::spawn(attend(puppet, near, patience, ends));
    Play { worker, far, end }
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

async fn says(far: &mut UnixStream, report: &Report) {
    frame::write_async(far, report).await.unwrap();
}

async fn greets(far: &mut UnixStream) {
    says(far, &Report::Hello { protocol: PROTOCOL }).await;
}

#[tokio::test]
async fn what_lies_in_the_socket_is_told_before_the_end() {
    let mut play = start(Patience::default());
    for _ in 0..200 {
        play.worker.commands.send(MEASURE()).unwrap();
    }
    greets(&mut play.far).await;
    for _ in 0..200 {
        says(&mut play.far, &measured()).await;
    }
    play.end
        .send(Err("killed by signal 9 (SIGKILL)".to_owned()))
        .unwrap();
    drop(play.far);
    for _ in 0..200 {
        let report = play.worker.reports.recv().await;
        assert_eq!(report, Some(WorkerReport::Said(measured())));
    }
    let died = WorkerEnd::Died {
        how: "killed by signal 9 (SIGKILL)".to_owned(),
        last_words: String::new(),
    };
    assert_eq!(
        play.worker.reports.recv().await,
        Some(WorkerReport::Gone(died))
    );
    assert_eq!(play.worker.reports.recv().await, None);
}

/// On a paused clock: it moves only to a deadline, and there is none but those of the watchdog.
#[tokio::test(start_paused = true)]
async fn an_idle_worker_has_no_deadline_and_a_silent_one_is_given_up() {
    let start_time = Instant::now();
    let mut play = start(Patience::default());
    greets(&mut play.far).await;
    let mut sent = FrameReader::new(&mut play.far);
    assert!(matches!(
        sent.read_async().await,
        Ok(Some(Command::Hello { .. }))
    ));
    let a_day = Duration::from_secs(24 * 3600);
    let idle = tokio::time::timeout(a_day, sent.read_async::<Command>()).await;
    assert!(idle.is_err(), "it said {idle:?} to an idle worker");

    play.worker.commands.send(MEASURE()).unwrap();
    let asked = Instant::now();
    let gone = play.worker.reports.recv().await;
    let unresponsive = WorkerEnd::Unresponsive { seconds: 5 };
    assert_eq!(gone, Some(WorkerReport::Gone(unresponsive)));
    assert_eq!(asked.elapsed(), Duration::from_secs(5));
    assert!(start_time.elapsed() < a_day + Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_hangs_up_and_stays_is_killed() {
    let mut play = start(Patience::default());
    greets(&mut play.far).await;
    drop(play.far);
    let gone = play.worker.reports.recv().await;
    assert!(
        matches!(gone, Some(WorkerReport::Gone(WorkerEnd::Protocol { .. }))),
        "{gone:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_told_to_end_and_stays_is_killed_in_time() {
    let mut play = start(Patience::default());
    greets(&mut play.far).await;
    drop(play.worker.commands);
    let told = Instant::now();
    let gone = play.worker.reports.recv().await;
    assert_eq!(gone, Some(WorkerReport::Gone(WorkerEnd::AsTold)));
    assert_eq!(told.elapsed(), Duration::from_secs(2));
}

/// An owner that lags is not the child's fault, however long it takes.
#[tokio::test(start_paused = true)]
async fn a_lagging_owner_does_not_make_its_worker_unresponsive() {
    let mut play = start(Patience::default());
    greets(&mut play.far).await;
    let n_asked = 2 * crate::worker::N_WAITING_REPORTS;
    for _ in 0..n_asked {
        play.worker.commands.send(MEASURE()).unwrap();
    }
    for _ in 0..n_asked {
        says(&mut play.far, &measured()).await;
    }
    tokio::time::advance(Duration::from_secs(3600)).await;
    for _ in 0..n_asked {
        let report = play.worker.reports.recv().await;
        assert_eq!(report, Some(WorkerReport::Said(measured())));
    }
}

/// The system may not be able to end a process; its owner hears of it in time, and of its end.
#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_be_killed_is_told_and_its_end_as_well() {
    let mut play = start_as(true, Patience::default());
    greets(&mut play.far).await;
    play.worker.kill.kill();
    let killed = Instant::now();
    let stuck = WorkerReport::Stuck {
        process_id: 4711,
        end: WorkerEnd::AsTold,
    };
    assert_eq!(play.worker.reports.recv().await, Some(stuck));
    assert_eq!(killed.elapsed(), Duration::from_secs(10));
    let a_day = Duration::from_secs(24 * 3600);
    let more = timeout(a_day, play.worker.reports.recv()).await;
    assert!(more.is_err(), "{more:?} although nothing happened");
    play.end.send(Ok(())).unwrap();
    let gone = WorkerReport::Gone(WorkerEnd::AsTold);
    assert_eq!(play.worker.reports.recv().await, Some(gone));
    assert_eq!(play.worker.reports.recv().await, None);
}

/// The watchdog gave it up, not its owner.
#[tokio::test(start_paused = true)]
async fn a_silent_worker_that_cannot_be_killed_is_told_too() {
    let mut play = start_as(true, Patience::default());
    greets(&mut play.far).await;
    play.worker.commands.send(MEASURE()).unwrap();
    let stuck = WorkerReport::Stuck {
        process_id: 4711,
        end: WorkerEnd::Unresponsive { seconds: 5 },
    };
    assert_eq!(play.worker.reports.recv().await, Some(stuck));
}

/// What is to be written goes before what can be read, whichever came first.
#[tokio::test]
async fn a_child_that_floods_its_socket_still_gets_its_commands() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let (_worker, ends) = Worker::new();
    let mut attendance = Attendance::<Empty>::new(near, None, Patience::default(), ends);
    let mut puppet = Puppet {
        end: None,
        was_killed: false,
        is_immortal: false,
    };
    attendance.ended = Some(Ok(()));
    for _ in 0..100 {
        greets(&mut far).await;
    }
    attendance.send(&Command::Ping { nonce: 1 });
    let wake = attendance.next_wake(&mut puppet, &mut [0]).await;
    assert!(matches!(wake, Wake::Wrote(Ok(1..))), "it read first");
}
