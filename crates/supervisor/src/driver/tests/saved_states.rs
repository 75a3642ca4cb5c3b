//! Saved states, from the unload of a model to its next load.

use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

use tempfile::TempDir;

use super::*;
use crate::request::Unload;
use crate::test_support::ask;

/// A world with a folder for saved states.
fn keeping() -> (TempDir, World) {
    let data = tempfile::tempdir().expect("a temporary folder");
    let world = world();
    world.supervisor.save_states_in(data.path().to_owned());
    (data, world)
}

fn n_kept(data: &Path) -> usize {
    std::fs::read_dir(data).expect("it is there").count()
}

/// Tokens that the loaded model took up.
fn taken_up(world: &World) -> usize {
    model(&world.handle.status().borrow()).restored_tokens
}

#[tokio::test(start_paused = true)]
async fn a_conversation_goes_on_after_an_idle_unload() {
    let (data, world) = keeping();
    finish(&mut world.handle.ask(ask("chat"))).await;
    assert_eq!(taken_up(&world), 0);
    pass(4 * MINUTE).await;
    assert_eq!((world.workers.n_alive(), n_kept(data.path())), (0, 1));
    finish(&mut world.handle.ask(ask("chat"))).await;
    assert_eq!(world.workers.n_started(), 2);
    assert_eq!((taken_up(&world), n_kept(data.path())), (6, 0));
    world.supervisor.quit().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_folder_a_conversation_goes_with_its_model() {
    let world = world();
    finish(&mut world.handle.ask(ask("chat"))).await;
    pass(4 * MINUTE).await;
    finish(&mut world.handle.ask(ask("chat"))).await;
    assert_eq!((world.workers.n_started(), taken_up(&world)), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unload_by_hand_removes_the_conversation_before_it_is_answered() {
    let (data, world) = keeping();
    for name in ["chat", "other"] {
        finish(&mut world.handle.ask(ask(name))).await;
    }
    pass(4 * MINUTE).await;
    assert_eq!(n_kept(data.path()), 2);
    finish(&mut world.handle.ask(ask("chat"))).await;
    let unload = world.handle.unload(Unload::Model("chat".to_owned()));
    assert_eq!(unload.await.map(|records| records.len()), Ok(1));
    assert_eq!(n_kept(data.path()), 1);
    let unload = world.handle.unload(Unload::All);
    assert_eq!(unload.await, Ok(Vec::new()));
    assert_eq!(n_kept(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unload_by_hand_removes_the_conversation_that_is_just_being_kept() {
    let (data, world) = keeping();
    finish(&mut world.handle.ask(ask("chat"))).await;
    pass(3 * MINUTE + Duration::from_millis(10)).await;
    assert_eq!(world.workers.n_alive(), 1, "it is unloading");
    let records = world.handle.unload(Unload::All).await.expect("unloaded");
    assert_eq!(records[0].why, crate::status::UnloadReason::Idle);
    assert_eq!(n_kept(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_after_a_quit() {
    let (data, world) = keeping();
    for name in ["chat", "other"] {
        finish(&mut world.handle.ask(ask(name))).await;
    }
    pass(4 * MINUTE).await;
    finish(&mut world.handle.ask(ask("third"))).await;
    assert_eq!(n_kept(data.path()), 2);
    world.supervisor.quit().await;
    assert_eq!(n_kept(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn critical_pressure_keeps_nothing() {
    let (data, world) = keeping();
    finish(&mut world.handle.ask(ask("chat"))).await;
    world.signals.set(critical());
    status_where(&world.handle, |status| status.models.is_empty()).await;
    assert_eq!(n_kept(data.path()), 0);
}

/// Returns when every change to the folder so far is done: an unload is answered after them.
async fn files_are_settled(world: &World) {
    let nobody = Unload::Model("nobody".to_owned());
    assert_eq!(world.handle.unload(nobody).await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_state_is_removed_when_it_is_a_day_old_while_the_program_runs() {
    let (data, world) = keeping();
    finish(&mut world.handle.ask(ask("chat"))).await;
    pass(4 * MINUTE).await;
    let entry = std::fs::read_dir(data.path()).expect("it is there").next();
    let path = entry.expect("one is saved").expect("it is there").path();
    let file = File::options().write(true).open(&path).expect("it opens");
    let yesterday = SystemTime::now() - Duration::from_secs(24 * 3600);
    file.set_modified(yesterday).expect("it is changed");
    pass(62 * MINUTE).await;
    files_are_settled(&world).await;
    assert_eq!(n_kept(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn conversations_that_are_forgotten_after_an_unload_leave_no_file() {
    let (data, world) = keeping();
    for name in ["chat", "other"] {
        finish(&mut world.handle.ask(ask(name))).await;
    }
    pass(4 * MINUTE).await;
    assert_eq!(n_kept(data.path()), 2);
    world.handle.forget_conversations();
    files_are_settled(&world).await;
    assert_eq!(n_kept(data.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn conversations_that_are_forgotten_before_an_unload_leave_no_file() {
    let (data, world) = keeping();
    finish(&mut world.handle.ask(ask("chat"))).await;
    world.handle.forget_conversations();
    pass(4 * MINUTE).await;
    assert_eq!((world.workers.n_alive(), n_kept(data.path())), (0, 0));
    // The next conversation is saved as any other.
    finish(&mut world.handle.ask(ask("chat"))).await;
    assert_eq!(taken_up(&world), 0);
    pass(4 * MINUTE).await;
    assert_eq!(n_kept(data.path()), 1);
}

#[tokio::test(start_paused = true)]
async fn conversations_that_are_forgotten_during_an_answer_leave_no_file() {
    let (data, world) = keeping();
    let mut answer = world.handle.ask(ask("chat"));
    first_text(&mut answer).await;
    world.handle.forget_conversations();
    finish(&mut answer).await;
    pass(4 * MINUTE).await;
    assert_eq!((world.workers.n_alive(), n_kept(data.path())), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn conversations_that_are_forgotten_during_a_load_leave_no_file() {
    let (data, world) = keeping();
    finish(&mut world.handle.ask(ask("chat"))).await;
    pass(4 * MINUTE).await;
    assert_eq!(n_kept(data.path()), 1);
    let mut load = world.handle.ask(crate::test_support::ask_for(
        "chat",
        crate::request::Work::Load,
    ));
    pass(Duration::from_millis(100)).await;
    world.handle.forget_conversations();
    finish(&mut load).await;
    pass(4 * MINUTE).await;
    assert_eq!((world.workers.n_alive(), n_kept(data.path())), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn conversations_that_are_forgotten_during_an_unload_leave_no_file() {
    let (data, world) = keeping();
    finish(&mut world.handle.ask(ask("chat"))).await;
    pass(3 * MINUTE + Duration::from_millis(10)).await;
    assert_eq!(world.workers.n_alive(), 1, "it is unloading");
    world.handle.forget_conversations();
    pass(MINUTE).await;
    assert_eq!((world.workers.n_alive(), n_kept(data.path())), (0, 0));
}
