use super::*;

fn request(key: &str) -> DownloadRequest {
    DownloadRequest {
        key: key.to_owned(),
        name: key.to_uppercase(),
        repository: "o/n".to_owned(),
        revision: "main".to_owned(),
        files: Vec::new(),
        folder: "models".into(),
    }
}

/// A queue with two slots and entries a, b, c, … with ids from 1.
fn queue(keys: &str) -> Queue {
    let mut queue = Queue::new(2);
    for key in keys.chars() {
        queue.add(request(&key.to_string()));
    }
    queue
}

fn effects(queue: &mut Queue) -> String {
    let effects = queue.schedule().into_iter().map(|effect| match effect {
        Effect::Start { id, run } => format!("start {id} as {run}"),
        Effect::Stop(id) => format!("stop {id}"),
    });
    effects.collect::<Vec<_>>().join(", ")
}

fn list_text(queue: &Queue) -> String {
    let entries = queue.list().into_iter().map(|entry| {
        let state = match entry.state {
            State::Queued => "queued".to_owned(),
            State::Downloading => "downloading".to_owned(),
            State::Verifying { .. } => "verifying".to_owned(),
            State::Retrying { .. } => "retrying".to_owned(),
            State::Paused => "paused".to_owned(),
            State::Done => "done".to_owned(),
            State::Failed(error) => error.code(),
        };
        format!("{} {state}", entry.key)
    });
    entries.collect::<Vec<_>>().join(", ")
}

fn finish(queue: &mut Queue, id: u64, run: u64, result: Result<(), HubError>) {
    let event = DownloadEvent::Ended(result);
    assert!(queue.on_event(DownloadId(id), run, event, Instant::now()));
}

#[test]
fn two_downloads_run_and_the_next_one_starts_when_one_ends() {
    let mut queue = queue("abc");
    assert_eq!(effects(&mut queue), "start 1 as 1, start 2 as 2");
    assert_eq!(list_text(&queue), "a downloading, b downloading, c queued");
    assert_eq!(effects(&mut queue), "");
    finish(&mut queue, 1, 1, Ok(()));
    assert_eq!(effects(&mut queue), "start 3 as 3");
    finish(&mut queue, 2, 2, Err(HubError::Offline));
    assert_eq!(list_text(&queue), "a done, b offline, c downloading");
}

#[test]
fn the_same_key_is_the_same_download() {
    let mut queue = queue("ab");
    queue.schedule();
    assert_eq!(queue.add(request("a")), DownloadId(1));
    finish(&mut queue, 1, 1, Err(HubError::Offline));
    assert_eq!(queue.add(request("a")), DownloadId(1));
    assert_eq!(effects(&mut queue), "start 1 as 3");
    finish(&mut queue, 1, 3, Ok(()));
    assert_eq!(
        queue.add(request("a")),
        DownloadId(3),
        "a finished download is not reused"
    );
    assert_eq!(list_text(&queue), "b downloading, a queued");
}

#[test]
fn a_pause_starts_the_next_download_and_a_resume_waits_for_the_old_run_to_end() {
    let mut queue = queue("abc");
    queue.schedule();
    queue.pause(DownloadId(1)).unwrap();
    assert_eq!(effects(&mut queue), "stop 1, start 3 as 3");
    assert_eq!(list_text(&queue), "a paused, b downloading, c downloading");
    queue.resume(DownloadId(1)).unwrap();
    assert_eq!(effects(&mut queue), "stop 3");
    assert_eq!(list_text(&queue), "a queued, b downloading, c queued");
    finish(&mut queue, 1, 1, Err(HubError::Stopped));
    assert_eq!(effects(&mut queue), "start 1 as 4");
    finish(&mut queue, 3, 3, Err(HubError::Stopped));
    assert_eq!(effects(&mut queue), "");
    assert_eq!(list_text(&queue), "a downloading, b downloading, c queued");
}

#[test]
fn a_download_moved_to_the_front_starts_and_the_last_one_is_queued() {
    let mut queue = queue("abc");
    queue.schedule();
    queue.move_to(DownloadId(3), QueuePosition::First).unwrap();
    assert_eq!(effects(&mut queue), "start 3 as 3, stop 2");
    assert_eq!(list_text(&queue), "c downloading, a downloading, b queued");
    queue.move_to(DownloadId(3), QueuePosition::Last).unwrap();
    queue
        .move_to(DownloadId(2), QueuePosition::Before(DownloadId(1)))
        .unwrap();
    assert_eq!(list_text(&queue), "b queued, a downloading, c downloading");
    assert!(queue.move_to(DownloadId(9), QueuePosition::First).is_err());
    assert!(
        queue
            .move_to(DownloadId(1), QueuePosition::Before(DownloadId(9)))
            .is_err()
    );
    assert_eq!(queue.list().len(), 3);
}

#[test]
fn events_of_a_stopped_run_are_ignored_except_its_end() {
    let mut queue = queue("a");
    queue.schedule();
    queue.pause(DownloadId(1)).unwrap();
    queue.schedule();
    let now = Instant::now();
    assert!(!queue.on_event(
        DownloadId(1),
        1,
        DownloadEvent::State(State::Downloading),
        now
    ));
    assert_eq!(list_text(&queue), "a paused");
    assert!(!queue.is_idle(DownloadId(1)));
    finish(&mut queue, 1, 1, Err(HubError::Stopped));
    assert!(queue.is_idle(DownloadId(1)));
    assert_eq!(list_text(&queue), "a paused");
    assert!(!queue.on_event(DownloadId(1), 1, DownloadEvent::Ended(Ok(())), now));
}

#[test]
fn a_download_that_completes_while_it_stops_is_done() {
    let mut queue = queue("a");
    queue.schedule();
    queue.pause(DownloadId(1)).unwrap();
    queue.schedule();
    finish(&mut queue, 1, 1, Ok(()));
    assert_eq!(list_text(&queue), "a done");
}

#[test]
fn a_canceled_download_leaves_the_list_before_its_run_ends() {
    let mut queue = queue("ab");
    queue.schedule();
    queue.cancel(DownloadId(1)).unwrap();
    assert_eq!(effects(&mut queue), "stop 1");
    assert_eq!(list_text(&queue), "b downloading");
    assert!(queue.resume(DownloadId(1)).is_err());
    assert!(queue.cancel(DownloadId(1)).is_err());
    finish(&mut queue, 1, 1, Err(HubError::Stopped));
    assert!(queue.is_idle(DownloadId(1)));
    queue.remove(DownloadId(1));
    assert_eq!(queue.saved().len(), 1);
}

#[test]
fn resume_ends_the_delay_of_a_retry() {
    let mut queue = queue("a");
    queue.schedule();
    let retrying = State::Retrying {
        seconds: 60,
        error: HubError::Offline,
    };
    queue.on_event(
        DownloadId(1),
        1,
        DownloadEvent::State(retrying),
        Instant::now(),
    );
    let is_waiting = queue.resume(DownloadId(1)).unwrap();
    assert!(is_waiting);
}

#[test]
fn saved_downloads_are_restored_with_their_state() {
    let mut queue = queue("abcd");
    queue.schedule();
    queue.pause(DownloadId(3)).unwrap();
    finish(&mut queue, 1, 1, Err(HubError::Offline));
    finish(&mut queue, 2, 2, Ok(()));
    let text = serde_json::to_string(&queue.saved()).unwrap();
    let mut again = Queue::new(2);
    for saved in serde_json::from_str::<Vec<SavedDownload>>(&text).unwrap() {
        again.restore(saved, 5, Some(10));
    }
    assert_eq!(list_text(&again), "a offline, c paused, d queued");
    assert_eq!(again.list()[1].done_bytes, 5);
    assert_eq!(again.add(request("e")), DownloadId(5));
    assert_eq!(effects(&mut again), "start 4 as 1, start 5 as 2");
}

#[test]
fn stop_stops_all_downloads() {
    let mut queue = queue("abc");
    queue.schedule();
    queue.stop();
    assert_eq!(effects(&mut queue), "stop 1, stop 2");
    assert!(queue.has_running());
    finish(&mut queue, 1, 1, Err(HubError::Stopped));
    finish(&mut queue, 2, 2, Err(HubError::Stopped));
    assert_eq!(effects(&mut queue), "");
    assert!(!queue.has_running());
    assert_eq!(queue.saved().len(), 3, "they continue after the next start");
}
