//! Conversations on disk, from the unload of a model to its next load.

use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::request::Unload;
use crate::test_support::ask;

/// A world with a data folder.
fn keeping() -> (TempDir, World) {
    let data = tempfile::tempdir().expect("a temporary folder");
    let world = world();
    world.supervisor.keep_conversations_in(data.path());
    (data, world)
}

fn n_kept(data: &Path) -> usize {
    let folder = std::fs::read_dir(data.join("conversations"));
    folder.expect("it is there").count()
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
async fn without_a_data_folder_a_conversation_goes_with_its_model() {
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
    let unload = world.handle.unload(Unload::Named("chat".to_owned()));
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
