//! Tests of saved states, from the unload of a model to its next load.

use tempfile::TempDir;

use super::*;
use crate::request::ModelSelector;
use crate::test_support::{generate_request, n_saved_files};

/// Starts a supervisor with a folder for saved states.
fn with_folder() -> (TempDir, TestSupervisor) {
    let data = tempfile::tempdir().expect("a temporary folder");
    let test = test_supervisor();
    test.supervisor.save_states_in(data.path().to_owned());
    (data, test)
}

/// Returns the number of tokens that the load found saved.
fn saved_tokens(test: &TestSupervisor) -> usize {
    model(&test.handle.status().borrow()).saved_tokens
}

#[tokio::test(start_paused = true)]
async fn a_conversation_continues_after_an_idle_unload() {
    let (data, test) = with_folder();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    assert_eq!(saved_tokens(&test), 0);
    advance_time(4 * MINUTE).await;
    assert_eq!((test.workers.n_alive(), n_saved_files(data.path())), (0, 1));
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    assert_eq!(test.workers.n_started(), 2);
    assert_eq!((saved_tokens(&test), n_saved_files(data.path())), (6, 1));
    test.supervisor.quit().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_folder_no_state_is_saved() {
    let test = test_supervisor();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    advance_time(4 * MINUTE).await;
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    assert_eq!((test.workers.n_started(), saved_tokens(&test)), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unload_by_the_user_deletes_the_saved_state_before_it_returns() {
    let (data, test) = with_folder();
    for name in ["chat", "other"] {
        finish(&mut test.handle.submit(generate_request(name))).await;
    }
    advance_time(4 * MINUTE).await;
    assert_eq!(n_saved_files(data.path()), 2);
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    let unload = test.handle.unload(ModelSelector::Model("chat".to_owned()));
    assert_eq!(unload.await.map(|records| records.len()), Ok(1));
    assert_eq!(n_saved_files(data.path()), 1);
    let unload = test.handle.unload(ModelSelector::All);
    assert_eq!(unload.await, Ok(Vec::new()));
    assert_eq!(n_saved_files(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unload_by_the_user_deletes_a_state_that_is_being_saved() {
    let (data, test) = with_folder();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    advance_time(3 * MINUTE + Duration::from_millis(10)).await;
    assert_eq!(test.workers.n_alive(), 1, "it is unloading");
    let records = test
        .handle
        .unload(ModelSelector::All)
        .await
        .expect("unloaded");
    assert_eq!(records[0].why, crate::status::UnloadReason::Idle);
    assert_eq!(n_saved_files(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn no_saved_state_is_left_after_a_quit() {
    let (data, test) = with_folder();
    for name in ["chat", "other"] {
        finish(&mut test.handle.submit(generate_request(name))).await;
    }
    advance_time(4 * MINUTE).await;
    finish(&mut test.handle.submit(generate_request("third"))).await;
    assert_eq!(n_saved_files(data.path()), 2);
    test.supervisor.quit().await;
    assert_eq!(n_saved_files(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unload_under_critical_pressure_saves_no_file() {
    let (data, test) = with_folder();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    test.signals.set(critical());
    status_where(&test.handle, |status| status.models.is_empty()).await;
    assert_eq!(n_saved_files(data.path()), 0);
}

/// Returns when every change to the folder so far is done: an unload returns after them.
async fn changes_done(test: &TestSupervisor) {
    let nobody = ModelSelector::Model("nobody".to_owned());
    assert_eq!(test.handle.unload(nobody).await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_state_is_removed_when_it_is_too_old_while_the_program_runs() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let mut test = test_supervisor();
    test.supervisor = test.supervisor.with_saving(SavingLimits {
        max_age: Duration::from_millis(1),
        ..SavingLimits::on_a_large_disk()
    });
    test.supervisor.save_states_in(data.path().to_owned());
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    advance_time(4 * MINUTE).await;
    advance_time(62 * MINUTE).await;
    changes_done(&test).await;
    assert_eq!(n_saved_files(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn forgetting_conversations_after_an_unload_leaves_no_file() {
    let (data, test) = with_folder();
    for name in ["chat", "other"] {
        finish(&mut test.handle.submit(generate_request(name))).await;
    }
    advance_time(4 * MINUTE).await;
    assert_eq!(n_saved_files(data.path()), 2);
    test.handle.forget_conversations(None);
    changes_done(&test).await;
    assert_eq!(n_saved_files(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn forgetting_conversations_before_an_unload_leaves_no_file() {
    let (data, test) = with_folder();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    test.handle.forget_conversations(None);
    advance_time(4 * MINUTE).await;
    assert_eq!((test.workers.n_alive(), n_saved_files(data.path())), (0, 0));
    // The next conversation is saved like any other.
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    assert_eq!(saved_tokens(&test), 0);
    advance_time(4 * MINUTE).await;
    assert_eq!(n_saved_files(data.path()), 1);
}

#[tokio::test(start_paused = true)]
async fn forgetting_conversations_during_a_response_leaves_no_file() {
    let (data, test) = with_folder();
    let mut response = test.handle.submit(generate_request("chat"));
    first_text(&mut response).await;
    test.handle.forget_conversations(None);
    finish(&mut response).await;
    advance_time(4 * MINUTE).await;
    assert_eq!((test.workers.n_alive(), n_saved_files(data.path())), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn forgetting_conversations_during_a_load_leaves_no_file() {
    let (data, test) = with_folder();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    advance_time(4 * MINUTE).await;
    assert_eq!(n_saved_files(data.path()), 1);
    let mut load = test.handle.submit(crate::test_support::request_for(
        "chat",
        crate::request::Work::Load,
    ));
    advance_time(Duration::from_millis(100)).await;
    test.handle.forget_conversations(None);
    finish(&mut load).await;
    advance_time(4 * MINUTE).await;
    assert_eq!((test.workers.n_alive(), n_saved_files(data.path())), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn forgetting_conversations_during_an_unload_leaves_no_file() {
    let (data, test) = with_folder();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    advance_time(3 * MINUTE + Duration::from_millis(10)).await;
    assert_eq!(test.workers.n_alive(), 1, "it is unloading");
    test.handle.forget_conversations(None);
    advance_time(MINUTE).await;
    assert_eq!((test.workers.n_alive(), n_saved_files(data.path())), (0, 0));
}
