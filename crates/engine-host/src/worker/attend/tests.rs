use tokio::io::Empty;
use tokio::sync::oneshot;
use transom_engine::{Limits, MemoryNeed, ModelSource};

use super::*;
use crate::worker::Worker;

/// A worker that is only a socket; the test says when and how it ends.
struct Puppet {
    end: Option<oneshot::Receiver<Result<(), String>>>,
    was_killed: bool,
}

impl Vessel for Puppet {
    type Stderr = Empty;

    fn take_stderr(&mut self) -> Option<Empty> {
        None
    }

    async fn ended(&mut self) -> Result<(), String> {
        match &mut self.end {
            Some(end) if !self.was_killed => end.await.unwrap(),
            _ => Err("killed".to_owned()),
        }
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
    let (near, far) = UnixStream::pair().unwrap();
    let (end, is_ended) = oneshot::channel();
    let (worker, ends) = Worker::new();
    let puppet = Puppet {
        end: Some(is_ended),
        was_killed: false,
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
