//! Tests of two instances with real sockets in a temporary folder.

mod connections;
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
use crate::governor::Tuning;
use crate::request::{ModelSelector, RequestError, Work};
use crate::response::{Outcome, Response, ResponseEvent};
use crate::status::{PhaseStatus, Status};
use crate::test_support::{
    self, ScriptedWorkers, VECTOR, WorkerScript, embed_request, generate_request, reason,
    request_for, supervisor,
};

/// Returns a data folder that only the user can access, as [`folder::prepare`] creates it.
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

/// Starts an owner whose responses have `n_tokens` tokens, and a client.
async fn owner_and_client(data: &Path, n_tokens: usize) -> (Connection, Handle) {
    let owner = open_with(data, &workers(n_tokens)).await;
    assert!(owner.is_own());
    let client = open(data, || panic!("there is an owner")).await.unwrap();
    assert!(!client.is_own());
    (owner, client.handle())
}

/// Returns the result of `work`; panics instead of waiting forever.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(60), work).await;
    done.expect("it ends in time")
}

async fn finish(response: &mut Response) -> (String, Outcome) {
    in_time(test_support::finish(response)).await
}

async fn first_text(response: &mut Response) {
    in_time(test_support::first_text(response)).await;
}

async fn status_where(handle: &Handle, is_it: impl Fn(&Status) -> bool) -> Arc<Status> {
    in_time(test_support::status_where(handle, is_it)).await
}

#[track_caller]
fn error(outcome: Outcome) -> RequestError {
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
async fn a_second_program_uses_the_supervisor_of_the_first() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), 50).await;
    let direct = finish(&mut owner.handle().submit(generate_request("chat"))).await;
    let remote = finish(&mut client.submit(generate_request("chat"))).await;
    assert_eq!(remote, direct);
    assert_eq!(client.status().borrow().models[0].n_answered, 2);
    assert_eq!(client.status().borrow().process_id, std::process::id());
    let mut load = client.submit(request_for("chat", Work::Load));
    let (_, outcome) = finish(&mut load).await;
    assert!(matches!(outcome, Outcome::Loaded { .. }), "{outcome:?}");
    in_time(owner.close()).await;
}

#[tokio::test]
async fn vectors_reach_a_second_program_with_every_bit() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), 1).await;
    let mut response = client.submit(embed_request("embedder", &["one", "three"]));
    let mut n_tokens = Vec::new();
    let outcome = loop {
        match in_time(response.next()).await.expect("the response ends") {
            ResponseEvent::Embedded {
                n_tokens: n,
                vector,
            } => {
                assert_eq!(vector, VECTOR);
                n_tokens.push(n);
            }
            ResponseEvent::Ended { outcome } => break outcome,
            _ => {}
        }
    };
    assert_eq!(reason(&outcome), FinishReason::Stop);
    assert_eq!(n_tokens, [3, 5]);
    in_time(owner.close()).await;
}

#[tokio::test]
async fn a_client_sees_every_status_with_its_own_request_ids() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), ENDLESS).await;
    let mut first = client.submit(generate_request("chat"));
    first_text(&mut first).await;
    let second = client.submit(generate_request("chat"));
    let status = status_where(&client, |status| status.queue.len() == 1).await;
    assert_eq!(status.queue[0].request_id, second.id());
    assert_eq!(
        status.models[0].phase,
        PhaseStatus::Generating {
            request_id: first.id(),
            is_stopping: false
        }
    );
    assert_eq!(owner.n_remote_requests(), 2);
    drop((first, second));
    status_where(&client, is_idle).await;
    let records = in_time(client.unload(ModelSelector::All)).await.unwrap();
    assert_eq!(records.len(), 1);
    status_where(&client, |status| status.models.is_empty()).await;
    let tuning = Tuning {
        memory_budget_bytes: Some(1_000_000_000),
        ..Tuning::default()
    };
    client.set_tuning(tuning);
    let mut too_large = client.submit(generate_request("chat"));
    let refusal = error(finish(&mut too_large).await.1);
    assert!(
        matches!(refusal, RequestError::TooLarge { .. }),
        "{refusal}"
    );
    in_time(owner.close()).await;
}

#[tokio::test]
async fn a_client_that_disconnects_has_its_requests_canceled() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), ENDLESS).await;
    let mut response = client.submit(generate_request("chat"));
    first_text(&mut response).await;
    let cancel_handle = response.cancel_handle();
    cancel_handle.cancel();
    let (_, outcome) = finish(&mut response).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);

    let mut forgotten = client.submit(generate_request("chat"));
    first_text(&mut forgotten).await;
    drop((forgotten, response, cancel_handle, client));
    status_where(&owner.handle(), is_idle).await;
    assert_eq!(owner.n_remote_requests(), 0);
    in_time(owner.close()).await;
}

/// A separate runtime plays the owner's process.
#[tokio::test]
async fn when_the_owner_dies_every_request_ends_and_the_next_program_owns() {
    let data = data_folder();
    let process = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let path = data.path().to_owned();
    let owner = process.spawn(async move { open_with(&path, &workers(ENDLESS)).await });
    let owner = in_time(owner).await.unwrap();
    let client = in_time(connect(data.path())).await.unwrap().unwrap();
    let mut response = client.submit(generate_request("chat"));
    let mut waiting = client.submit(generate_request("chat"));
    first_text(&mut response).await;
    let unload = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .unload(ModelSelector::Model("other".to_owned()))
                .await
        }
    });
    in_time(unload).await.unwrap().unwrap();
    process.shutdown_background();
    drop(owner);
    for response in [&mut response, &mut waiting] {
        let end = error(finish(response).await.1);
        assert!(matches!(end, RequestError::InstanceGone { .. }), "{end}");
    }
    let mut late = client.submit(generate_request("chat"));
    let end = error(finish(&mut late).await.1);
    assert!(matches!(end, RequestError::InstanceGone { .. }), "{end}");
    let end = in_time(client.unload(ModelSelector::All))
        .await
        .unwrap_err();
    assert!(matches!(end, RequestError::InstanceGone { .. }), "{end}");
    let mut status = client.status();
    while in_time(status.changed()).await.is_ok() {}

    let next = open_with(data.path(), &workers(3)).await;
    assert!(next.is_own());
    let (reply, _) = finish(&mut next.handle().submit(generate_request("chat"))).await;
    assert_eq!(reply, "0 1 2 ");
    in_time(next.close()).await;
}

#[tokio::test]
async fn a_closing_owner_finishes_client_requests_and_accepts_no_more() {
    let data = data_folder();
    let workers = workers(300);
    let owner = open_with(data.path(), &workers).await;
    let client = in_time(connect(data.path())).await.unwrap().unwrap();
    let mut response = client.submit(generate_request("chat"));
    first_text(&mut response).await;
    assert_eq!(owner.n_remote_requests(), 1);
    let closing = tokio::spawn(owner.close());
    while in_time(connect(data.path())).await.unwrap().is_some() {}
    let mut late = client.submit(generate_request("chat"));
    assert_eq!(error(finish(&mut late).await.1), RequestError::Quitting);
    let (reply, outcome) = finish(&mut response).await;
    assert!(reply.ends_with("299 "), "{reply}");
    assert_eq!(reason(&outcome), FinishReason::Stop);
    in_time(closing).await.unwrap();
    assert_eq!(workers.n_alive(), 0);
    assert!(!data.path().join("transom.sock").exists());
    let next = open_with(data.path(), &workers).await;
    assert!(next.is_own(), "the lock was released");
    in_time(next.close()).await;
}

/// Workers that panic when they are started.
struct Broken;

impl transom_engine_host::Workers for Broken {
    fn start(&self) -> transom_engine_host::Worker {
        panic!("this panic is part of the test")
    }
}

#[tokio::test]
async fn after_a_panic_of_the_driver_the_instance_can_be_opened_again() {
    let data = data_folder();
    let broken = || supervisor(Broken, ScriptedSignals::default(), Tuning::default());
    let owner = in_time(open(data.path(), broken)).await.unwrap();
    let client = in_time(connect(data.path())).await.unwrap().unwrap();
    for handle in [owner.handle(), client] {
        let mut response = handle.submit(generate_request("chat"));
        let end = error(finish(&mut response).await.1);
        assert!(matches!(end, RequestError::InstanceGone { .. }), "{end}");
        let mut status = handle.status();
        while in_time(status.changed()).await.is_ok() {}
    }
    drop(owner);
    let next = open_with(data.path(), &workers(3)).await;
    assert!(next.is_own());
    let (reply, _) = finish(&mut next.handle().submit(generate_request("chat"))).await;
    assert_eq!(reply, "0 1 2 ");
    in_time(next.close()).await;
}

/// A pause applies to all programs, and a client that waits in a pause does not keep the owner from
/// closing.
#[tokio::test]
async fn a_client_can_pause_and_a_closing_owner_does_not_wait_for_paused_requests() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), 3).await;
    finish(&mut client.submit(generate_request("chat"))).await;
    client.set_paused(true);
    let is_empty = |status: &Status| status.is_paused && status.models.is_empty();
    status_where(&owner.handle(), is_empty).await;
    status_where(&client, is_empty).await;
    let mut held = client.submit(generate_request("chat"));
    status_where(&client, |status| status.queue.len() == 1).await;
    owner.handle().set_paused(false);
    assert_eq!(reason(&finish(&mut held).await.1), FinishReason::Stop);
    client.set_paused(true);
    status_where(&client, is_empty).await;
    let mut held = client.submit(generate_request("chat"));
    status_where(&client, |status| status.queue.len() == 1).await;
    in_time(owner.close()).await;
    assert_eq!(error(finish(&mut held).await.1), RequestError::Quitting);
}

/// A prompt that is too long for a message fails its own request, not the connection.
#[tokio::test]
async fn a_prompt_that_is_too_long_to_send_is_refused() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), 3).await;
    let mut huge = generate_request("chat");
    huge.model.name = "x".repeat(transom_engine_host::frame::MAX_FRAME_BYTES);
    let mut response = client.submit(huge);
    let refusal = error(finish(&mut response).await.1).to_string();
    assert!(
        refusal.contains("must be at most 67108864 bytes"),
        "{refusal}"
    );
    response.cancel_handle().cancel();
    let (reply, _) = finish(&mut client.submit(generate_request("chat"))).await;
    assert_eq!(reply, "0 1 2 ");
    in_time(owner.close()).await;
}

#[tokio::test]
async fn of_two_programs_that_open_at_once_one_owns_the_supervisor() {
    let data = data_folder();
    let workers = workers(3);
    let (one, two) = tokio::join!(
        open_with(data.path(), &workers),
        open_with(data.path(), &workers)
    );
    assert!(one.is_own() != two.is_own());
    for connection in [&one, &two] {
        let (reply, _) = finish(&mut connection.handle().submit(generate_request("chat"))).await;
        assert_eq!(reply, "0 1 2 ");
    }
    assert_eq!(workers.n_started(), 1);
    let (owner, client) = if one.is_own() { (one, two) } else { (two, one) };
    client.close().await;
    in_time(owner.close()).await;
}

/// Returns workers that use the real protocol and the child's own loop on a thread, and respond
/// "Paris.".
fn paris_on_the_wire() -> ThreadWorkers {
    let script = Script::responding(["Par", "is", "."]);
    ThreadWorkers::new(move || {
        let script = script.clone();
        let engine: Box<dyn Engine> = Box::new(ScriptedEngine { script });
        vec![engine]
    })
}

/// Tests all layers: socket, driver, core, protocol, and the child's own loop on a thread.
#[tokio::test]
async fn a_client_gets_a_response_through_the_real_protocol() {
    let data = data_folder();
    let start = || {
        supervisor(
            paris_on_the_wire(),
            ScriptedSignals::default(),
            Tuning::default(),
        )
    };
    let owner = in_time(open(data.path(), start)).await.unwrap();
    let client = in_time(connect(data.path())).await.unwrap().unwrap();
    for _ in 0..3 {
        let (reply, outcome) = finish(&mut client.submit(generate_request("chat"))).await;
        assert_eq!(reply, "Paris.");
        assert_eq!(reason(&outcome), FinishReason::Stop);
    }
    let records = in_time(client.unload(ModelSelector::All)).await.unwrap();
    assert_eq!(records.len(), 1);
    in_time(owner.close()).await;
}
