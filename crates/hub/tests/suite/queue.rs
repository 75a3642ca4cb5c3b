//! The queue with its real runs: order, pause, cancel, restarts, two programs.
//!
//! Rule: what is fetched twice is counted, so that a resume that starts over is seen.

use transom_hub::test_support::{Fault, Route};
use transom_hub::{Downloads, Place, State, Wanted};

use crate::desk::{Desk, MODEL, REPOSITORY, failed, noise, until, until_list};

/// So slow that it is still coming when something happens to it.
fn slow(desk: &Desk) {
    desk.local.fail(Route::Blob, Fault::Slow(60_000), u32::MAX);
}

#[tokio::test]
async fn a_pause_keeps_what_came_and_a_resume_fetches_only_the_rest() {
    let desk = Desk::with_model(200_000);
    slow(&desk);
    let downloads = desk.downloads().await;
    let id = downloads.add(desk.wanted()).await.unwrap();
    until(&downloads, id, "coming", |it| it.done_bytes > 30_000).await;
    downloads.pause(id).await.unwrap();
    let paused = until(&downloads, id, "paused", |it| it.state == State::Paused).await;
    assert_eq!(paused.bytes_per_second, 0);
    // Its last words are heard when its run has ended, at which its parts are saved.
    downloads.stop().await;
    let before = desk.asked_bytes();
    desk.local.heal();
    let again = desk.downloads().await;
    assert_eq!(desk.fetch(&again).await.state, State::Done);
    desk.assert_whole();
    let asked = desk.asked_bytes() - before;
    assert!(
        asked <= 200_000 - 30_000,
        "{asked} bytes were fetched again"
    );
}

#[tokio::test]
async fn cancelling_frees_the_parts_and_says_how_much() {
    let desk = Desk::with_model(400_000);
    slow(&desk);
    let downloads = desk.downloads().await;
    let id = downloads.add(desk.wanted()).await.unwrap();
    until(&downloads, id, "coming", |it| it.done_bytes > 60_000).await;
    let freed = downloads.cancel(id).await.unwrap();
    assert!(freed.bytes > 30_000, "{freed:?}");
    assert!(downloads.watch().borrow().is_empty());
    assert_eq!(std::fs::read_dir(desk.parts()).unwrap().count(), 0);
    assert_eq!(
        downloads.pause(id).await.unwrap_err().code(),
        "no_such_download"
    );
}

#[tokio::test]
async fn the_queue_goes_on_after_a_restart_with_the_same_commit() {
    let desk = Desk::with_model(200_000);
    slow(&desk);
    let mut options = desk.options();
    options.is_kept = true;
    let old = desk.local.bytes(REPOSITORY, MODEL).unwrap();
    let downloads = Downloads::start(desk.hub(), options.clone()).await.unwrap();
    let id = downloads.add(desk.wanted()).await.unwrap();
    let mut other = desk.wanted();
    other.key = "other".to_owned();
    other.folder = desk.folder.path().join("models/other");
    let other = downloads.add(other).await.unwrap();
    downloads.pause(other).await.unwrap();
    until(&downloads, id, "coming", |it| it.done_bytes > 20_000).await;
    downloads.stop().await;
    // At once, and while somebody still has the old one.
    let again = Downloads::start(desk.hub(), options).await.unwrap();
    let list = again.watch().borrow().clone();
    assert_eq!(list.len(), 2);
    assert!(list[0].done_bytes > 20_000, "{list:?}");
    assert_eq!(list[1].state, State::Paused);
    desk.local.put(REPOSITORY, "config.json", "{\"new\": true}");
    desk.local.heal();
    until(&again, list[0].id, "done", |it| it.state == State::Done).await;
    assert_eq!(std::fs::read(desk.model().join(MODEL)).unwrap(), old);
    let config = std::fs::read_to_string(desk.model().join("config.json")).unwrap();
    assert_eq!(config, "{}", "the commit is that of the beginning");
}

#[tokio::test]
async fn a_commit_that_is_gone_is_followed_by_the_newest_one() {
    let desk = Desk::with_model(200_000);
    slow(&desk);
    let downloads = desk.downloads().await;
    let id = downloads.add(desk.wanted()).await.unwrap();
    until(&downloads, id, "coming", |it| it.done_bytes > 20_000).await;
    downloads.pause(id).await.unwrap();
    desk.local.put(REPOSITORY, "config.json", "{\"new\": true}");
    desk.local.forget_history(REPOSITORY);
    desk.local.heal();
    downloads.resume(id).await.unwrap();
    let done = until(&downloads, id, "over", |it| it.state.is_over()).await;
    assert_eq!(done.state, State::Done);
    desk.assert_whole();
}

#[tokio::test]
async fn parts_that_no_queue_knows_come_back_as_paused() {
    let desk = Desk::with_model(200_000);
    slow(&desk);
    let downloads = desk.downloads().await;
    let id = downloads.add(desk.wanted()).await.unwrap();
    until(&downloads, id, "coming", |it| it.done_bytes > 20_000).await;
    downloads.stop().await;
    let mut options = desk.options();
    options.is_kept = true;
    let app = Downloads::start(desk.hub(), options).await.unwrap();
    let list = app.watch().borrow().clone();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].state, State::Paused);
    assert!(list[0].done_bytes > 20_000 && list[0].total_bytes == Some(200_002));
    let freed = app.cancel(list[0].id).await.unwrap();
    assert!(freed.bytes > 0);
}

#[tokio::test]
async fn the_second_program_is_told_who_fetches_and_takes_over() {
    let desk = Desk::with_model(200_000);
    slow(&desk);
    let (first, second) = (desk.downloads().await, desk.downloads().await);
    let id = first.add(desk.wanted()).await.unwrap();
    until(&first, id, "coming", |it| it.done_bytes > 20_000).await;
    let other = second.add(desk.wanted()).await.unwrap();
    let waiting = until(
        &second,
        other,
        "waiting for the first",
        |it| matches!(&it.state, State::Retrying { because, .. } if because.code() == "in_use"),
    );
    let waiting = waiting.await;
    let text = waiting.last_trouble.unwrap().to_string();
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    desk.local.heal();
    first.pause(id).await.unwrap();
    until(&second, other, "done", |it| it.state == State::Done).await;
    desk.assert_whole();
    let n_bytes = desk.asked_bytes();
    first.resume(id).await.unwrap();
    until(&first, id, "done", |it| it.state == State::Done).await;
    assert_eq!(desk.asked_bytes(), n_bytes, "the model was there already");
}

#[tokio::test]
async fn order_decides_who_comes_first() {
    let desk = Desk::with_model(100_000);
    slow(&desk);
    let mut options = desk.options();
    options.at_once = 1;
    let downloads = Downloads::start(desk.hub(), options).await.unwrap();
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        let wanted = Wanted {
            key: key.to_owned(),
            folder: desk.folder.path().join("models").join(key),
            ..desk.wanted()
        };
        ids.push(downloads.add(wanted).await.unwrap());
    }
    until(&downloads, ids[0], "coming", |it| it.done_bytes > 5000).await;
    downloads.move_to(ids[2], Place::First).await.unwrap();
    let is_c_first = |list: &[transom_hub::Download]| {
        let states: Vec<_> = list.iter().map(|it| (&*it.key, &it.state)).collect();
        states.len() == 3
            && states[0].0 == "c"
            && states[0].1.is_running()
            && *states[1].1 == State::Waiting
    };
    until_list(&downloads, "c first", is_c_first).await;
    desk.local.heal();
    let all_done = |list: &[transom_hub::Download]| list.iter().all(|it| it.state == State::Done);
    until_list(&downloads, "all done", all_done).await;
    assert_eq!(downloads.cancel(ids[0]).await.unwrap().bytes, 0);
    assert!(desk.folder.path().join("models/a").join(MODEL).exists());
}

#[tokio::test]
async fn a_rate_and_a_time_left_are_told() {
    let desk = Desk::with_model(400_000);
    slow(&desk);
    let downloads = desk.downloads().await;
    let id = downloads.add(desk.wanted()).await.unwrap();
    let seen = until(&downloads, id, "told", |it| it.seconds_left.is_some()).await;
    assert!(
        (10_000..2_000_000).contains(&seen.bytes_per_second),
        "{seen:?}"
    );
    assert!(seen.seconds_left.unwrap() < 60, "{seen:?}");
    downloads.cancel(id).await.unwrap();
}

#[tokio::test]
async fn a_folder_with_other_files_keeps_them_and_right_ones_are_not_fetched() {
    let desk = Desk::with_model(50_000);
    std::fs::create_dir_all(desk.model()).unwrap();
    std::fs::write(desk.model().join("mine.txt"), "mine").unwrap();
    std::fs::write(desk.model().join(MODEL), noise(50_000, 1)).unwrap();
    let downloads = desk.downloads().await;
    assert_eq!(desk.fetch(&downloads).await.state, State::Done);
    desk.assert_whole();
    assert!(desk.model().join("mine.txt").exists());
    assert!(
        desk.local
            .seen()
            .iter()
            .all(|seen| seen.route != Route::Blob)
    );
}

#[tokio::test]
async fn a_model_that_is_not_there_fails_at_once() {
    let desk = Desk::with_model(2000);
    let downloads = desk.downloads().await;
    let mut wanted = desk.wanted();
    wanted.repository = "owner/none".to_owned();
    let id = downloads.add(wanted).await.unwrap();
    let ended = until(&downloads, id, "over", |it| it.state.is_over()).await;
    assert_eq!(failed(&ended).code(), "token_needed");
    let mut wanted = desk.wanted();
    wanted.repository = "../etc".to_owned();
    assert_eq!(downloads.add(wanted).await.unwrap_err().code(), "bad_name");
}
