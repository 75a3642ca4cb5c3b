use super::*;

fn wanted(key: &str) -> Wanted {
    Wanted {
        key: key.to_owned(),
        name: key.to_uppercase(),
        repository: "o/n".to_owned(),
        revision: "main".to_owned(),
        files: Vec::new(),
        folder: "models".into(),
    }
}

/// A queue of two at once with lines a, b, c, … numbered from 1.
fn queue(keys: &str) -> Queue {
    let mut queue = Queue::new(2);
    for key in keys.chars() {
        queue.add(wanted(&key.to_string()));
    }
    queue
}

fn effects(queue: &mut Queue) -> String {
    let effects = queue.settle().into_iter().map(|effect| match effect {
        Effect::Start { id, run } => format!("start {id} as {run}"),
        Effect::Stop(id) => format!("stop {id}"),
    });
    effects.collect::<Vec<_>>().join(", ")
}

fn shown(queue: &Queue) -> String {
    let lines = queue.list().into_iter().map(|line| {
        let state = match line.state {
            State::Waiting => "waits".to_owned(),
            State::Downloading => "loads".to_owned(),
            State::Verifying { .. } => "checks".to_owned(),
            State::Retrying { .. } => "retries".to_owned(),
            State::Paused => "paused".to_owned(),
            State::Done => "done".to_owned(),
            State::Failed(error) => error.code().to_owned(),
        };
        format!("{} {state}", line.key)
    });
    lines.collect::<Vec<_>>().join(", ")
}

fn end(queue: &mut Queue, id: u64, run: u64, result: Result<(), HubError>) {
    let news = News::Ended(result);
    assert!(queue.note(DownloadId(id), run, news, Instant::now()));
}

#[test]
fn the_first_two_run_and_the_next_follows_at_the_end() {
    let mut queue = queue("abc");
    assert_eq!(effects(&mut queue), "start 1 as 1, start 2 as 2");
    assert_eq!(shown(&queue), "a loads, b loads, c waits");
    assert_eq!(effects(&mut queue), "");
    end(&mut queue, 1, 1, Ok(()));
    assert_eq!(effects(&mut queue), "start 3 as 3");
    end(&mut queue, 2, 2, Err(HubError::Offline));
    assert_eq!(shown(&queue), "a done, b offline, c loads");
}

#[test]
fn the_same_key_is_the_same_download() {
    let mut queue = queue("ab");
    queue.settle();
    assert_eq!(queue.add(wanted("a")), DownloadId(1));
    end(&mut queue, 1, 1, Err(HubError::Offline));
    assert_eq!(queue.add(wanted("a")), DownloadId(1));
    assert_eq!(effects(&mut queue), "start 1 as 3");
    end(&mut queue, 1, 3, Ok(()));
    assert_eq!(
        queue.add(wanted("a")),
        DownloadId(3),
        "done is done; this is a new one"
    );
    assert_eq!(shown(&queue), "b loads, a waits");
}

#[test]
fn a_pause_lets_the_next_one_run_and_a_resume_waits_for_the_old_run_to_end() {
    let mut queue = queue("abc");
    queue.settle();
    queue.pause(DownloadId(1)).unwrap();
    assert_eq!(effects(&mut queue), "stop 1, start 3 as 3");
    assert_eq!(shown(&queue), "a paused, b loads, c loads");
    queue.resume(DownloadId(1)).unwrap();
    assert_eq!(effects(&mut queue), "stop 3");
    assert_eq!(shown(&queue), "a waits, b loads, c waits");
    end(&mut queue, 1, 1, Err(HubError::Stopped));
    assert_eq!(effects(&mut queue), "start 1 as 4");
    end(&mut queue, 3, 3, Err(HubError::Stopped));
    assert_eq!(effects(&mut queue), "");
    assert_eq!(shown(&queue), "a loads, b loads, c waits");
}

#[test]
fn who_is_moved_to_the_front_begins_and_the_last_waits() {
    let mut queue = queue("abc");
    queue.settle();
    queue.move_to(DownloadId(3), Place::First).unwrap();
    assert_eq!(effects(&mut queue), "start 3 as 3, stop 2");
    assert_eq!(shown(&queue), "c loads, a loads, b waits");
    queue.move_to(DownloadId(3), Place::Last).unwrap();
    queue
        .move_to(DownloadId(2), Place::Before(DownloadId(1)))
        .unwrap();
    assert_eq!(shown(&queue), "b waits, a loads, c loads");
    assert!(queue.move_to(DownloadId(9), Place::First).is_err());
    assert!(
        queue
            .move_to(DownloadId(1), Place::Before(DownloadId(9)))
            .is_err()
    );
    assert_eq!(queue.list().len(), 3);
}

#[test]
fn news_of_a_run_that_was_stopped_changes_nothing_but_its_end() {
    let mut queue = queue("a");
    queue.settle();
    queue.pause(DownloadId(1)).unwrap();
    queue.settle();
    let now = Instant::now();
    assert!(!queue.note(DownloadId(1), 1, News::State(State::Downloading), now));
    assert_eq!(shown(&queue), "a paused");
    assert!(!queue.is_idle(DownloadId(1)));
    end(&mut queue, 1, 1, Err(HubError::Stopped));
    assert!(queue.is_idle(DownloadId(1)));
    assert_eq!(shown(&queue), "a paused");
    assert!(!queue.note(DownloadId(1), 1, News::Ended(Ok(())), now));
}

#[test]
fn what_ends_whole_while_it_is_stopped_is_done() {
    let mut queue = queue("a");
    queue.settle();
    queue.pause(DownloadId(1)).unwrap();
    queue.settle();
    end(&mut queue, 1, 1, Ok(()));
    assert_eq!(shown(&queue), "a done");
}

#[test]
fn a_cancelled_one_is_gone_from_sight_before_its_run_has_ended() {
    let mut queue = queue("ab");
    queue.settle();
    queue.cancel(DownloadId(1)).unwrap();
    assert_eq!(effects(&mut queue), "stop 1");
    assert_eq!(shown(&queue), "b loads");
    assert!(queue.resume(DownloadId(1)).is_err());
    assert!(queue.cancel(DownloadId(1)).is_err());
    end(&mut queue, 1, 1, Err(HubError::Stopped));
    assert!(queue.is_idle(DownloadId(1)));
    queue.remove(DownloadId(1));
    assert_eq!(queue.kept().len(), 1);
}

#[test]
fn a_retry_is_nudged_by_resume() {
    let mut queue = queue("a");
    queue.settle();
    let retrying = State::Retrying {
        seconds: 60,
        because: HubError::Offline,
    };
    queue.note(DownloadId(1), 1, News::State(retrying), Instant::now());
    let waits = queue.resume(DownloadId(1)).unwrap();
    assert!(waits);
}

#[test]
fn what_is_kept_comes_back_as_it_was() {
    let mut queue = queue("abcd");
    queue.settle();
    queue.pause(DownloadId(3)).unwrap();
    end(&mut queue, 1, 1, Err(HubError::Offline));
    end(&mut queue, 2, 2, Ok(()));
    let text = serde_json::to_string(&queue.kept()).unwrap();
    let mut again = Queue::new(2);
    for kept in serde_json::from_str::<Vec<Kept>>(&text).unwrap() {
        again.restore(kept, 5, Some(10));
    }
    assert_eq!(shown(&again), "a offline, c paused, d waits");
    assert_eq!(again.list()[1].done_bytes, 5);
    assert_eq!(again.add(wanted("e")), DownloadId(5));
    assert_eq!(effects(&mut again), "start 4 as 1, start 5 as 2");
}

#[test]
fn the_end_stops_all() {
    let mut queue = queue("abc");
    queue.settle();
    queue.stop();
    assert_eq!(effects(&mut queue), "stop 1, stop 2");
    assert!(queue.runs());
    end(&mut queue, 1, 1, Err(HubError::Stopped));
    end(&mut queue, 2, 2, Err(HubError::Stopped));
    assert_eq!(effects(&mut queue), "");
    assert!(!queue.runs());
    assert_eq!(queue.kept().len(), 3, "they go on at the next start");
}
