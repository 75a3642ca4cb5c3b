use std::fs::File;

use tempfile::TempDir;
use transom_engine::KvCacheChoice;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn source(path: &Path) -> ModelSource {
    ModelSource {
        path: path.to_owned(),
    }
}

/// Returns a folder, and a manager that uses it.
fn saved_states() -> (TempDir, SavedStates) {
    let folder = tempfile::tempdir().unwrap();
    let mut states = SavedStates::new();
    states.save_in(folder.path().to_owned());
    (folder, states)
}

/// Returns when all work on the folder so far is done.
async fn changes_done(states: &SavedStates) {
    let (reply, done) = tokio::sync::oneshot::channel();
    states.run_in_order(|| _ = reply.send(()));
    done.await.unwrap();
}

/// Returns the state file of a worker with the model `name`.
fn state_path(states: &mut SavedStates, worker: WorkerId, name: &str) -> PathBuf {
    let file = states.add_state_file(worker, name).unwrap();
    let model = source(Path::new("nowhere"));
    file.locate(&model, &Limits::default()).unwrap().path
}

/// Saves a state of `bytes` bytes for the model `name`, `age` ago.
async fn save(states: &mut SavedStates, name: &str, bytes: u64, age: Duration) -> PathBuf {
    changes_done(states).await;
    let worker = WorkerId(1);
    let path = state_path(states, worker, name);
    let file = File::create(&path).unwrap();
    file.set_len(bytes).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
    states.worker_gone(worker);
    changes_done(states).await;
    path
}

fn n_files(folder: &TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

#[test]
fn only_the_user_can_access_the_folder() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    prepare(&folder).unwrap();
    assert_eq!(mode(&folder), 0o700);
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    prepare(&folder).unwrap();
    assert_eq!(mode(&folder), 0o700);
}

#[test]
fn a_state_is_saved_only_if_enough_disk_space_stays_free() {
    const GB: u64 = 1_000_000_000;
    assert!(has_room(5 * GB + 1, 1));
    assert!(!has_room(5 * GB, 1), "the system needs the rest");
    assert!(has_room(16 * GB + 1, 4 * GB));
    assert!(!has_room(16 * GB, 4 * GB), "four times as much");
    assert!(!has_room(u64::MAX, u64::MAX));
}

#[tokio::test]
async fn without_a_folder_nothing_is_saved() {
    let mut states = SavedStates::new();
    assert!(states.add_state_file(WorkerId(1), "chat").is_none());
    assert!(states.begin_saving(WorkerId(1)).is_none());
    states.delete(&ModelSelector::All);
    states.worker_gone(WorkerId(1));
    states.close().await;
}

#[tokio::test]
async fn the_file_name_depends_on_the_model_its_files_and_its_limits() {
    let (folder, mut states) = saved_states();
    let model = source(&folder.path().join("model.gguf"));
    changes_done(&states).await;
    fs::write(&model.path, "weights").unwrap();
    let mut locate = |name: &str, model: &ModelSource, limits: &Limits| {
        let file = states.add_state_file(WorkerId(1), name).unwrap();
        file.locate(model, limits).unwrap().path
    };
    let limits = Limits::default();
    let first = locate("chat", &model, &limits);
    assert_eq!(locate("chat", &model, &limits), first);
    let prefill = Limits {
        prefill_chunk: 1,
        ..limits.clone()
    };
    assert_eq!(locate("chat", &model, &prefill), first);
    let short = Limits {
        context_length: 100,
        ..limits.clone()
    };
    assert_eq!(locate("chat", &model, &short), first);
    let small = Limits {
        kv_cache: KvCacheChoice::Small,
        ..limits.clone()
    };
    let whole = source(folder.path());
    let mut others = vec![
        locate("chat", &model, &small),
        locate("chat", &whole, &limits),
        locate("other", &model, &limits),
    ];
    fs::write(&model.path, "other weights").unwrap();
    others.push(locate("chat", &model, &limits));
    File::create(&model.path).unwrap();
    others.push(locate("chat", &whole, &limits));
    for (index, other) in others.iter().enumerate() {
        assert!(*other != first && !others[..index].contains(other));
    }
}

#[tokio::test]
async fn a_model_has_at_most_one_state() {
    let (folder, mut states) = saved_states();
    let older = save(&mut states, "chat", 1, HOUR).await;
    let worker = WorkerId(2);
    let file = states.add_state_file(worker, "chat").unwrap();
    let newer = file.locate(&source(folder.path()), &Limits::default());
    let newer = newer.map(|file| file.path);
    let newer = newer.unwrap();
    assert_ne!(older, newer);
    fs::write(&newer, "text").unwrap();
    states.worker_gone(worker);
    changes_done(&states).await;
    assert!(newer.exists() && !older.exists());
}

#[tokio::test]
async fn the_oldest_state_is_removed_when_there_are_too_many() {
    let (folder, mut states) = saved_states();
    let oldest = save(&mut states, "2", 1, 9 * HOUR).await;
    for (name, hours) in [("1", 8), ("3", 1), ("4", 2)] {
        save(&mut states, name, 1, hours * HOUR).await;
    }
    assert!(oldest.exists());
    save(&mut states, "5", 1, HOUR).await;
    assert!(!oldest.exists());
    assert_eq!(n_files(&folder), MAX_FILES);
}

/// The files are sparse.
#[tokio::test]
async fn the_oldest_states_are_removed_when_they_are_too_large() {
    let (_folder, mut states) = saved_states();
    let oldest = save(&mut states, "1", 1 << 30, 3 * HOUR).await;
    let older = save(&mut states, "2", 2 << 30, 2 * HOUR).await;
    let newest = save(&mut states, "3", 1 << 30, HOUR).await;
    assert!(oldest.exists() && older.exists() && newest.exists());
    let last = save(&mut states, "4", 1, Duration::ZERO).await;
    assert!(!oldest.exists());
    assert!(older.exists() && newest.exists() && last.exists());
}

#[test]
fn a_state_is_checked_each_hour_and_removed_after_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    assert_eq!(
        remove_surplus(folder.path(), now),
        None,
        "nothing to wait for"
    );
    let path = folder.path().join("chat-1");
    let file = File::create(&path).unwrap();
    file.set_modified(now).unwrap();
    assert_eq!(remove_surplus(folder.path(), now), Some(HOUR));
    let late = now + MAX_AGE - HOUR / 2;
    assert_eq!(remove_surplus(folder.path(), late), Some(HOUR / 2));
    assert!(path.exists());
    assert_eq!(remove_surplus(folder.path(), now + MAX_AGE), None);
    assert!(!path.exists());
}

#[tokio::test]
async fn the_folder_is_empty_after_a_start_and_an_end() {
    let folder = tempfile::tempdir().unwrap();
    for left in ["a-1", "b-2.unfinished", "c-3.taken"] {
        File::create(folder.path().join(left)).unwrap();
    }
    let mut states = SavedStates::new();
    states.save_in(folder.path().to_owned());
    changes_done(&states).await;
    assert_eq!(n_files(&folder), 0);
    let saved = save(&mut states, "chat", 1, HOUR).await;
    assert!(saved.exists());
    states.close().await;
    assert_eq!(n_files(&folder), 0);
}

#[tokio::test]
async fn an_end_does_not_wait_for_a_disk_that_hangs() {
    let (_folder, states) = saved_states();
    let (release, released) = std::sync::mpsc::channel::<()>();
    states.run_in_order(move || _ = released.recv());
    let closed = timeout(2 * CLOSE_TIMEOUT, states.close()).await;
    // Before anything can fail, because the runtime waits for the thread when it ends.
    drop(release);
    closed.unwrap();
}

#[tokio::test]
async fn deleting_states_includes_those_being_saved() {
    let (folder, mut states) = saved_states();
    let other = save(&mut states, "other", 1, HOUR).await;
    let before = save(&mut states, "chat", 1, HOUR).await;
    let worker = WorkerId(2);
    let path = state_path(&mut states, worker, "chat");
    let saving = states.begin_saving(worker).unwrap();
    let saved_to = saving.with_room_for(1).map(|file| file.path);
    assert_eq!(saved_to, Some(path.clone()));
    states.delete(&ModelSelector::Model("chat".to_owned()));
    changes_done(&states).await;
    assert!(!before.exists() && other.exists());
    fs::write(&path, "text").unwrap();
    states.worker_gone(worker);
    changes_done(&states).await;
    assert!(!path.exists() && other.exists());
    states.delete(&ModelSelector::All);
    changes_done(&states).await;
    assert_eq!(n_files(&folder), 0);
}

/// Without its key, nothing that the disk still has of a file can be read.
#[tokio::test]
async fn deleting_states_drops_their_keys() {
    let (_folder, mut states) = saved_states();
    let mut key = |name: &str| states.add_state_file(WorkerId(1), name).unwrap().key;
    let (chat, other) = (key("chat"), key("other"));
    assert_ne!(chat, other);
    assert_eq!(key("chat"), chat);
    states.delete(&ModelSelector::Model("chat".to_owned()));
    let mut key = |name: &str| states.add_state_file(WorkerId(1), name).unwrap().key;
    assert_ne!(key("chat"), chat);
    assert_eq!(key("other"), other);
    states.delete(&ModelSelector::All);
    let saving = states.begin_saving(WorkerId(1)).unwrap();
    assert_ne!(saving.key, other, "a worker that was loaded before");
}

/// A loaded model clears its cache itself, so a later state belongs to a later conversation.
#[tokio::test]
async fn a_state_saved_after_a_deletion_is_kept() {
    let (_folder, mut states) = saved_states();
    let worker = WorkerId(2);
    let path = state_path(&mut states, worker, "chat");
    states.delete(&ModelSelector::All);
    assert!(states.begin_saving(worker).is_some());
    changes_done(&states).await;
    fs::write(&path, "text").unwrap();
    states.worker_gone(worker);
    changes_done(&states).await;
    assert!(path.exists());
}

#[tokio::test]
async fn an_interrupted_save_leaves_no_file() {
    let (folder, mut states) = saved_states();
    changes_done(&states).await;
    let worker = WorkerId(1);
    let path = state_path(&mut states, worker, "chat");
    for ending in ["unfinished", "taken"] {
        File::create(path.with_extension(ending)).unwrap();
    }
    states.worker_gone(worker);
    changes_done(&states).await;
    assert_eq!(n_files(&folder), 0);
}
