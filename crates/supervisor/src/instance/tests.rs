//! Two instances and their socket, with real sockets in a folder of the test's own.

mod conduct;
mod conversations;
mod folders;
mod shapes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use transom_engine::test_support::{Script, ScriptedEngine};
use transom_engine::{Engine, FinishReason};
use transom_engine_host::ThreadWorkers;
use transom_signals::ScriptedSignals;

use super::*;
use crate::answer::{Answer, Outcome};
use crate::governor::Tuning;
use crate::request::{AskError, Unload, Work};
use crate::status::{PhaseStatus, Status};
use crate::test_support::{self, ScriptedWorkers, WorkerScript, ask, ask_for, reason, supervisor};

/// A data folder that is the user's alone, as [`folder::prepare`] would make it.
fn data_folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn workers(n_tokens: usize) -> ScriptedWorkers {
    ScriptedWorkers::all(WorkerScript {
        load_time: Duration::from_millis(5),
        unload_time: Duration::from_millis(5),
        tokens: (0..n_tokens).map(|number| format!("{number} ")).collect(),
        token_interval: Duration::from_millis(1),
        ..WorkerScript::default()
    })
}

const ENDLESS: usize = 1_000_000;

fn start(workers: &ScriptedWorkers) -> Supervisor {
    supervisor(
        workers.clone(),
        ScriptedSignals::default(),
        Tuning::default(),
    )
}

async fn open_with(data: &Path, workers: &ScriptedWorkers) -> Connection {
    in_time(open(data, || start(workers))).await.unwrap()
}

/// An owner whose answers have `n_tokens` tokens, and a guest.
async fn owner_and_guest(data: &Path, n_tokens: usize) -> (Connection, Handle) {
    let owner = open_with(data, &workers(n_tokens)).await;
    assert!(owner.is_own());
    let guest = open(data, || panic!("there is an owner")).await.unwrap();
    assert!(!guest.is_own());
    (owner, guest.handle())
}

/// What `work` gives; a test that would wait for ever says so instead.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(60), work).await;
    done.expect("it ends in time")
}

async fn finish(answer: &mut Answer) -> (String, Outcome) {
    in_time(test_support::finish(answer)).await
}

async fn first_text(answer: &mut Answer) {
    in_time(test_support::first_text(answer)).await;
}

async fn status_where(handle: &Handle, is_it: impl Fn(&Status) -> bool) -> Arc<Status> {
    in_time(test_support::status_where(handle, is_it)).await
}

#[track_caller]
fn error(outcome: Outcome) -> AskError {
    match outcome {
        Outcome::Failed { error } => error,
        Outcome::Loaded { .. } | Outcome::Finished { .. } => panic!("{outcome:?}"),
    }
}

fn is_idle(status: &Status) -> bool {
    let is_ready = |phase: &PhaseStatus| matches!(phase, PhaseStatus::Ready);
    status.queue.is_empty() && status.models.iter().all(|model| is_ready(&model.phase))
}

#[tokio::test]
async fn the_second_opener_asks_the_first_ones_supervisor() {
    let data = data_folder();
    let (owner, guest) = owner_and_guest(data.path(), 50).await;
    let direct = finish(&mut owner.handle().ask(ask("chat"))).await;
    let remote = finish(&mut guest.ask(ask("chat"))).await;
    assert_eq!(remote, direct);
    assert_eq!(guest.status().borrow().models[0].n_answered, 2);
    assert_eq!(guest.status().borrow().process_id, std::process::id());
    let mut load = guest.ask(ask_for("chat", Work::Load));
    let (_, outcome) = finish(&mut load).await;
    assert!(matches!(outcome, Outcome::Loaded { .. }), "{outcome:?}");
    in_time(owner.close()).await;
}

#[tokio::test]
async fn a_guest_sees_every_change_and_its_own_asks_by_name() {
    let data = data_folder();
    let (owner, guest) = owner_and_guest(data.path(), ENDLESS).await;
    let mut first = guest.ask(ask("chat"));
    first_text(&mut first).await;
    let second = guest.ask(ask("chat"));
    let status = status_where(&guest, |status| status.queue.len() == 1).await;
    assert_eq!(status.queue[0].ask, second.id());
    assert_eq!(
        status.models[0].phase,
        PhaseStatus::Generating {
            ask: first.id(),
            is_stopping: false
        }
    );
    assert_eq!(owner.n_remote_asks(), 2);
    drop((first, second));
    status_where(&guest, is_idle).await;
    let records = in_time(guest.unload(Unload::All)).await.unwrap();
    assert_eq!(records.len(), 1);
    status_where(&guest, |status| status.models.is_empty()).await;
    let tuning = Tuning {
        memory_budget_bytes: Some(1_000_000_000),
        ..Tuning::default()
    };
    guest.tune(tuning);
    let mut too_large = guest.ask(ask("chat"));
    let refusal = error(finish(&mut too_large).await.1);
    assert!(matches!(refusal, AskError::TooLarge { .. }), "{refusal}");
    in_time(owner.close()).await;
}

#[tokio::test]
async fn a_guest_that_goes_away_has_its_asks_cancelled() {
    let data = data_folder();
    let (owner, guest) = owner_and_guest(data.path(), ENDLESS).await;
    let mut answer = guest.ask(ask("chat"));
    first_text(&mut answer).await;
    let canceller = answer.canceller();
    canceller.cancel();
    let (_, outcome) = finish(&mut answer).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);

    let mut forgotten = guest.ask(ask("chat"));
    first_text(&mut forgotten).await;
    drop((forgotten, answer, canceller, guest));
    status_where(&owner.handle(), is_idle).await;
    assert_eq!(owner.n_remote_asks(), 0);
    in_time(owner.close()).await;
}

/// The owner's process is played by a runtime of its own.
#[tokio::test]
async fn when_the_owner_dies_every_ask_ends_and_the_next_opener_owns() {
    let data = data_folder();
    let process = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let path = data.path().to_owned();
    let owner = process.spawn(async move { open_with(&path, &workers(ENDLESS)).await });
    let owner = in_time(owner).await.unwrap();
    let guest = in_time(connect(data.path())).await.unwrap().unwrap();
    let mut answer = guest.ask(ask("chat"));
    let mut waiting = guest.ask(ask("chat"));
    first_text(&mut answer).await;
    let unload = tokio::spawn({
        let guest = guest.clone();
        async move { guest.unload(Unload::Model("other".to_owned())).await }
    });
    in_time(unload).await.unwrap().unwrap();
    process.shutdown_background();
    drop(owner);
    for answer in [&mut answer, &mut waiting] {
        let end = error(finish(answer).await.1);
        assert!(matches!(end, AskError::InstanceGone { .. }), "{end}");
    }
    let mut late = guest.ask(ask("chat"));
    let end = error(finish(&mut late).await.1);
    assert!(matches!(end, AskError::InstanceGone { .. }), "{end}");
    let end = in_time(guest.unload(Unload::All)).await.unwrap_err();
    assert!(matches!(end, AskError::InstanceGone { .. }), "{end}");
    let mut status = guest.status();
    while in_time(status.changed()).await.is_ok() {}

    let next = open_with(data.path(), &workers(3)).await;
    assert!(next.is_own());
    let (said, _) = finish(&mut next.handle().ask(ask("chat"))).await;
    assert_eq!(said, "0 1 2 ");
    in_time(next.close()).await;
}

#[tokio::test]
async fn an_owner_that_closes_finishes_what_guests_asked_and_takes_nothing_more() {
    let data = data_folder();
    let workers = workers(300);
    let owner = open_with(data.path(), &workers).await;
    let guest = in_time(connect(data.path())).await.unwrap().unwrap();
    let mut answer = guest.ask(ask("chat"));
    first_text(&mut answer).await;
    assert_eq!(owner.n_remote_asks(), 1);
    let closing = tokio::spawn(owner.close());
    while in_time(connect(data.path())).await.unwrap().is_some() {}
    let mut late = guest.ask(ask("chat"));
    assert_eq!(error(finish(&mut late).await.1), AskError::Quitting);
    let (said, outcome) = finish(&mut answer).await;
    assert!(said.ends_with("299 "), "{said}");
    assert_eq!(reason(&outcome), FinishReason::Stop);
    in_time(closing).await.unwrap();
    assert_eq!(workers.n_alive(), 0);
    assert!(!data.path().join("transom.sock").exists());
    let next = open_with(data.path(), &workers).await;
    assert!(next.is_own(), "the lock was let go");
    in_time(next.close()).await;
}

/// A program that never comes back from starting a worker.
struct Broken;

impl transom_engine_host::Workers for Broken {
    fn start(&self) -> transom_engine_host::Worker {
        panic!("this fault is played")
    }
}

#[tokio::test]
async fn after_a_panic_of_the_driver_the_instance_can_be_opened_anew() {
    let data = data_folder();
    let broken = || supervisor(Broken, ScriptedSignals::default(), Tuning::default());
    let owner = in_time(open(data.path(), broken)).await.unwrap();
    let guest = in_time(connect(data.path())).await.unwrap().unwrap();
    for handle in [owner.handle(), guest] {
        let mut answer = handle.ask(ask("chat"));
        let end = error(finish(&mut answer).await.1);
        assert!(matches!(end, AskError::InstanceGone { .. }), "{end}");
        let mut status = handle.status();
        while in_time(status.changed()).await.is_ok() {}
    }
    drop(owner);
    let next = open_with(data.path(), &workers(3)).await;
    assert!(next.is_own());
    let (said, _) = finish(&mut next.handle().ask(ask("chat"))).await;
    assert_eq!(said, "0 1 2 ");
    in_time(next.close()).await;
}

/// A pause is everybody's, and a guest that waits in it does not keep the owner from leaving.
#[tokio::test]
async fn a_guest_pauses_for_all_and_an_owner_that_closes_waits_for_nobody_in_a_pause() {
    let data = data_folder();
    let (owner, guest) = owner_and_guest(data.path(), 3).await;
    finish(&mut guest.ask(ask("chat"))).await;
    guest.pause(true);
    let is_empty = |status: &Status| status.is_paused && status.models.is_empty();
    status_where(&owner.handle(), is_empty).await;
    status_where(&guest, is_empty).await;
    let mut held = guest.ask(ask("chat"));
    status_where(&guest, |status| status.queue.len() == 1).await;
    owner.handle().pause(false);
    assert_eq!(reason(&finish(&mut held).await.1), FinishReason::Stop);
    guest.pause(true);
    status_where(&guest, is_empty).await;
    let mut held = guest.ask(ask("chat"));
    status_where(&guest, |status| status.queue.len() == 1).await;
    in_time(owner.close()).await;
    assert_eq!(error(finish(&mut held).await.1), AskError::Quitting);
}

/// A prompt that no message can carry costs its own ask, not the connection.
#[tokio::test]
async fn a_prompt_that_is_too_long_to_send_is_refused() {
    let data = data_folder();
    let (owner, guest) = owner_and_guest(data.path(), 3).await;
    let mut huge = ask("chat");
    huge.model.name = "x".repeat(transom_engine_host::wire::MAX_FRAME_BYTES);
    let mut answer = guest.ask(huge);
    let refusal = error(finish(&mut answer).await.1).to_string();
    assert!(
        refusal.contains("must be at most 67108864 bytes"),
        "{refusal}"
    );
    answer.canceller().cancel();
    let (said, _) = finish(&mut guest.ask(ask("chat"))).await;
    assert_eq!(said, "0 1 2 ");
    in_time(owner.close()).await;
}

#[tokio::test]
async fn of_two_that_open_at_once_one_owns_and_the_other_asks_it() {
    let data = data_folder();
    let workers = workers(3);
    let (one, two) = tokio::join!(
        open_with(data.path(), &workers),
        open_with(data.path(), &workers)
    );
    assert!(one.is_own() != two.is_own());
    for connection in [&one, &two] {
        let (said, _) = finish(&mut connection.handle().ask(ask("chat"))).await;
        assert_eq!(said, "0 1 2 ");
    }
    assert_eq!(workers.n_started(), 1);
    let (owner, guest) = if one.is_own() { (one, two) } else { (two, one) };
    guest.close().await;
    in_time(owner.close()).await;
}

/// Workers that speak the real wire with the child's own loop, on a thread, and answer "Paris.".
fn paris_on_the_wire() -> ThreadWorkers {
    let script = Script::responding(["Par", "is", "."]);
    ThreadWorkers::new(move || {
        let script = script.clone();
        let engine: Box<dyn Engine> = Box::new(ScriptedEngine { script });
        vec![engine]
    })
}

/// The whole road: socket, driver, core, wire, and the child's own loop on a thread.
#[tokio::test]
async fn a_guest_is_answered_by_a_worker_that_speaks_the_real_wire() {
    let data = data_folder();
    let start = || {
        supervisor(
            paris_on_the_wire(),
            ScriptedSignals::default(),
            Tuning::default(),
        )
    };
    let owner = in_time(open(data.path(), start)).await.unwrap();
    let guest = in_time(connect(data.path())).await.unwrap().unwrap();
    for _ in 0..3 {
        let (said, outcome) = finish(&mut guest.ask(ask("chat"))).await;
        assert_eq!(said, "Paris.");
        assert_eq!(reason(&outcome), FinishReason::Stop);
    }
    let records = in_time(guest.unload(Unload::All)).await.unwrap();
    assert_eq!(records.len(), 1);
    in_time(owner.close()).await;
}
