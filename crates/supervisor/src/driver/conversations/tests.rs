use std::fs::File;

use tempfile::TempDir;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn source(path: &Path) -> ModelSource {
    ModelSource {
        path: path.to_owned(),
    }
}

/// A data folder, and what is kept in it.
fn world() -> (TempDir, Conversations) {
    let data = tempfile::tempdir().unwrap();
    let conversations = Conversations::open(data.path(), SystemTime::now());
    (data, conversations)
}

/// Has a worker of the model `name` keep `bytes` bytes, `age` ago.
fn keep(conversations: &mut Conversations, name: &str, bytes: u64, age: Duration) -> PathBuf {
    let worker = WorkerId(1);
    let model = source(Path::new("nowhere"));
    let path = conversations.place(worker, name, &model, &Limits::default());
    let path = path.unwrap();
    let file = File::create(&path).unwrap();
    file.set_len(bytes).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
    conversations.settle(worker);
    path
}

fn n_files(data: &TempDir) -> usize {
    fs::read_dir(data.path().join(FOLDER)).unwrap().count()
}

#[test]
fn the_folder_is_the_users_alone() {
    let (data, _) = world();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = data.path().join(FOLDER);
    assert_eq!(mode(&folder), 0o700);
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    Conversations::open(data.path(), SystemTime::now());
    assert_eq!(mode(&folder), 0o700);
}

#[test]
fn without_a_folder_nothing_is_kept() {
    let mut conversations = Conversations::default();
    let model = source(Path::new("nowhere"));
    let place = conversations.place(WorkerId(1), "chat", &model, &Limits::default());
    assert_eq!(place, None);
    conversations.forget(&Unload::All);
    conversations.settle(WorkerId(1));
}

#[test]
fn the_place_follows_from_the_model_its_files_and_its_limits() {
    let (data, mut conversations) = world();
    let model = source(&data.path().join("model.gguf"));
    fs::write(&model.path, "weights").unwrap();
    let mut place = |name: &str, model: &ModelSource, limits: &Limits| {
        let place = conversations.place(WorkerId(1), name, model, limits);
        place.unwrap()
    };
    let limits = Limits::default();
    let first = place("chat", &model, &limits);
    assert_eq!(place("chat", &model, &limits), first);
    let prefill = Limits {
        prefill_chunk: 1,
        ..limits.clone()
    };
    assert_eq!(place("chat", &model, &prefill), first);
    let short = Limits {
        context_length: 100,
        ..limits.clone()
    };
    assert_eq!(place("chat", &model, &short), first);
    let small = Limits {
        kv_cache: KvCacheChoice::Small,
        ..limits.clone()
    };
    let folder = source(data.path());
    let mut others = vec![
        place("chat", &model, &small),
        place("chat", &folder, &limits),
        place("other", &model, &limits),
    ];
    fs::write(&model.path, "other weights").unwrap();
    others.push(place("chat", &model, &limits));
    File::create(&model.path).unwrap();
    others.push(place("chat", &folder, &limits));
    for (index, other) in others.iter().enumerate() {
        assert!(*other != first && !others[..index].contains(other));
    }
}

#[test]
fn a_model_has_one_conversation_at_most() {
    let (data, mut conversations) = world();
    let older = keep(&mut conversations, "chat", 1, HOUR);
    let model = source(data.path());
    let worker = WorkerId(2);
    let newer = conversations.place(worker, "chat", &model, &Limits::default());
    let newer = newer.unwrap();
    assert_ne!(older, newer);
    fs::write(&newer, "text").unwrap();
    conversations.settle(worker);
    assert!(newer.exists() && !older.exists());
}

#[test]
fn the_oldest_goes_when_there_are_too_many() {
    let (data, mut conversations) = world();
    let oldest = keep(&mut conversations, "2", 1, 9 * HOUR);
    for (name, hours) in [("1", 8), ("3", 1), ("4", 2)] {
        keep(&mut conversations, name, 1, hours * HOUR);
    }
    assert!(oldest.exists());
    keep(&mut conversations, "5", 1, HOUR);
    assert!(!oldest.exists());
    assert_eq!(n_files(&data), MOST_FILES);
}

/// The files are sparse.
#[test]
fn the_oldest_go_when_they_take_too_much_together() {
    let (_data, mut conversations) = world();
    let oldest = keep(&mut conversations, "1", 1 << 30, 3 * HOUR);
    let older = keep(&mut conversations, "2", 2 << 30, 2 * HOUR);
    let newest = keep(&mut conversations, "3", 1 << 30, HOUR);
    assert!(oldest.exists() && older.exists() && newest.exists());
    let last = keep(&mut conversations, "4", 1, Duration::ZERO);
    assert!(!oldest.exists());
    assert!(older.exists() && newest.exists() && last.exists());
}

#[test]
fn a_start_removes_what_is_old_or_half_done_and_keeps_the_rest() {
    let (data, mut conversations) = world();
    let old = keep(&mut conversations, "1", 1, 25 * HOUR);
    let young = keep(&mut conversations, "2", 1, 23 * HOUR);
    for ending in ["unfinished", "taken"] {
        File::create(young.with_extension(ending)).unwrap();
    }
    Conversations::open(data.path(), SystemTime::now());
    assert!(young.exists() && !old.exists());
    assert_eq!(n_files(&data), 1);
}

#[test]
fn what_is_forgotten_is_gone_also_where_it_is_just_being_kept() {
    let (data, mut conversations) = world();
    let other = keep(&mut conversations, "other", 1, HOUR);
    let before = keep(&mut conversations, "chat", 1, HOUR);
    let (model, worker) = (source(data.path()), WorkerId(2));
    let place = conversations.place(worker, "chat", &model, &Limits::default());
    let place = place.unwrap();
    assert_eq!(conversations.place_of(worker), Some(place.clone()));
    conversations.forget(&Unload::Named("chat".to_owned()));
    assert!(!before.exists() && other.exists());
    fs::write(&place, "text").unwrap();
    conversations.settle(worker);
    assert!(!place.exists() && other.exists());
    conversations.forget(&Unload::All);
    assert_eq!(n_files(&data), 0);
}

#[test]
fn a_worker_that_ended_half_way_leaves_nothing() {
    let (data, mut conversations) = world();
    let (model, worker) = (source(data.path()), WorkerId(1));
    let place = conversations.place(worker, "chat", &model, &Limits::default());
    for ending in ["unfinished", "taken"] {
        File::create(place.as_ref().unwrap().with_extension(ending)).unwrap();
    }
    conversations.settle(worker);
    assert_eq!(n_files(&data), 0);
}
