use tempfile::TempDir;
use transom_engine::KvCacheChoice;
use transom_engine_host::StateKey;

use super::*;
use crate::request::ModelSelector;
use crate::saving::SavingLimits;

const WORKER: WorkerId = WorkerId(1);

/// Returns a folder, and a manager that uses it.
fn saved_states() -> (TempDir, SavedStates) {
    let folder = tempfile::tempdir().unwrap();
    let mut states = SavedStates::new();
    let saving = SavingLimits::on_a_large_disk().into();
    states.save_in(folder.path().to_owned(), saving);
    (folder, states)
}

/// Returns when all work on the folder so far is done.
async fn changes_done(states: &SavedStates) {
    let (reply, done) = oneshot::channel();
    states.run_in_order(|| _ = reply.send(()));
    done.await.unwrap();
}

/// Registers a worker that loads the model `name`, and returns what it finds saved.
async fn load(states: &mut SavedStates, worker: WorkerId, name: &str) -> SavedFolder {
    let of_worker = states.add_worker(worker, name).unwrap();
    let source = ModelSource {
        path: "nowhere".into(),
    };
    let found = spawn_blocking(move || of_worker.for_load(&source, &Limits::default()));
    found.await.unwrap().unwrap()
}

/// Writes a file for the conversation `id` as `worker` does, and reports it.
fn save(states: &mut SavedStates, worker: WorkerId, folder: &SavedFolder, id: u64) {
    let name = format!("{}-{id}", folder.prefix);
    fs::write(folder.path.join(&name), "text").unwrap();
    let conversation = SavedConversation {
        id: Some(ConversationId(id)),
        key: StateKey::random().unwrap(),
        files: vec![name],
        n_tokens: 7,
    };
    states.saved(worker, conversation);
}

async fn begin_saving(states: &mut SavedStates, worker: WorkerId) -> Option<u64> {
    let make_room = states.begin_saving(worker, 100)?;
    spawn_blocking(make_room).await.unwrap()
}

/// Returns the ids of the conversations that are saved of the model `name`.
async fn saved_ids(states: &mut SavedStates, name: &str) -> Vec<u64> {
    let found = load(states, WorkerId(1000), name).await;
    let ids = found.conversations.iter();
    ids.map(|saved| saved.id.unwrap().0).collect()
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

#[tokio::test]
async fn without_a_folder_nothing_is_saved() {
    let mut states = SavedStates::new();
    assert!(states.add_worker(WORKER, "chat").is_none());
    assert!(states.begin_saving(WORKER, 1).is_none());
    states.forget(Forgotten::ALL);
    states.worker_gone(WORKER);
    states.close().await;
}

#[test]
fn the_identity_depends_on_the_version_the_files_and_the_type_of_the_kv_cache() {
    let folder = tempfile::tempdir().unwrap();
    let source = |path: &Path| ModelSource {
        path: path.to_owned(),
    };
    let (file, whole) = (
        source(&folder.path().join("model.gguf")),
        source(folder.path()),
    );
    fs::write(&file.path, "weights").unwrap();
    let of = |model: &ModelSource, limits: &Limits| hash_hex(&identity("1", model, limits));
    let limits = Limits::default();
    let first = of(&file, &limits);
    let same = Limits {
        prefill_chunk: 1,
        context_length: 100,
        ..limits.clone()
    };
    assert_eq!(of(&file, &same), first);
    let small = Limits {
        kv_cache: KvCacheChoice::Small,
        ..limits.clone()
    };
    let after_update = hash_hex(&identity("2", &file, &limits));
    let mut others = vec![of(&file, &small), of(&whole, &limits), after_update];
    fs::write(&file.path, "other weights").unwrap();
    others.extend([of(&file, &limits), of(&whole, &limits)]);
    for (index, other) in others.iter().enumerate() {
        assert!(*other != first && !others[..index].contains(other));
    }
}

#[tokio::test]
async fn a_model_finds_what_its_last_process_has_saved() {
    let (_folder, mut states) = saved_states();
    let folder = load(&mut states, WORKER, "chat").await;
    assert!(folder.conversations.is_empty());
    assert!(begin_saving(&mut states, WORKER).await.is_some());
    for id in [1, 2] {
        save(&mut states, WORKER, &folder, id);
    }
    states.worker_gone(WORKER);
    // The one that was used last is reported first.
    assert_eq!(saved_ids(&mut states, "chat").await, [1, 2]);
    assert!(saved_ids(&mut states, "other").await.is_empty());
}

#[tokio::test]
async fn what_is_deleted_while_it_is_saved_stays_deleted() {
    let of_chat = || ModelSelector::Model("chat".to_owned());
    for (forgotten, expected) in [
        (Forgotten::ALL, vec![]),
        (Forgotten::Of(of_chat()), vec![]),
        (
            Forgotten::Of(ModelSelector::Model("other".to_owned())),
            vec![1, 2],
        ),
        (Forgotten::Conversation(ConversationId(1)), vec![2]),
    ] {
        let (_folder, mut states) = saved_states();
        let folder = load(&mut states, WORKER, "chat").await;
        assert!(begin_saving(&mut states, WORKER).await.is_some());
        states.forget(forgotten);
        for id in [1, 2] {
            save(&mut states, WORKER, &folder, id);
        }
        states.worker_gone(WORKER);
        assert_eq!(saved_ids(&mut states, "chat").await, expected);
        // What is saved later belongs to later conversations.
        let folder = load(&mut states, WORKER, "chat").await;
        assert!(begin_saving(&mut states, WORKER).await.is_some());
        save(&mut states, WORKER, &folder, 1);
        assert!(saved_ids(&mut states, "chat").await.contains(&1));
    }
}

/// An unload may follow a save, whose end is reported while the unload saves.
#[tokio::test]
async fn what_is_deleted_during_the_second_of_two_saves_stays_deleted() {
    let (_folder, mut states) = saved_states();
    let folder = load(&mut states, WORKER, "chat").await;
    for _ in 0..2 {
        assert!(begin_saving(&mut states, WORKER).await.is_some());
    }
    states.saving_ended(WORKER);
    states.forget(Forgotten::Conversation(ConversationId(1)));
    for id in [1, 2] {
        save(&mut states, WORKER, &folder, id);
    }
    states.worker_gone(WORKER);
    assert_eq!(saved_ids(&mut states, "chat").await, [2]);
}

#[tokio::test]
async fn files_that_a_worker_did_not_complete_are_removed_after_its_last_save() {
    let (folder, mut states) = saved_states();
    let found = load(&mut states, WORKER, "chat").await;
    for _ in 0..2 {
        assert!(begin_saving(&mut states, WORKER).await.is_some());
    }
    let incomplete = folder.path().join(format!("{}-0", found.prefix));
    fs::write(&incomplete, "text").unwrap();
    for is_left in [true, false] {
        states.saving_ended(WORKER);
        changes_done(&states).await;
        assert_eq!(incomplete.exists(), is_left);
    }
}

#[tokio::test]
async fn a_worker_that_ends_while_it_saves_leaves_no_file() {
    let (folder, mut states) = saved_states();
    let found = load(&mut states, WORKER, "chat").await;
    assert!(begin_saving(&mut states, WORKER).await.is_some());
    fs::write(folder.path().join(format!("{}-0", found.prefix)), "text").unwrap();
    // Another worker is still writing.
    fs::write(folder.path().join("other-0"), "text").unwrap();
    states.worker_gone(WORKER);
    changes_done(&states).await;
    let left = fs::read_dir(folder.path()).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != index::INDEX).collect();
    assert_eq!(left, ["other-0"]);
}

#[tokio::test]
async fn without_a_keychain_nothing_is_saved_at_the_end() {
    let (folder, mut states) = saved_states();
    load(&mut states, WORKER, "chat").await;
    states.quit();
    assert_eq!(begin_saving(&mut states, WORKER).await, None);
    states.close().await;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn an_end_does_not_wait_for_a_disk_that_hangs() {
    let (_folder, states) = saved_states();
    let (release, released) = channel::<()>();
    states.run_in_order(move || _ = released.recv());
    let closed = timeout(2 * DISK_TIMEOUT, states.close()).await;
    // Before anything can fail, because the runtime waits for the thread when it ends.
    drop(release);
    closed.unwrap();
}
