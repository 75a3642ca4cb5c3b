//! Tests of following the user's own catalog when editors, people and scripts change them.
//!
//! Rule: each wait is for a state and has a message for its failure.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use transom_catalog::{Catalog, CatalogError, CatalogWatcher};

use super::FULL;

/// A user's catalog in a temporary folder, and its watcher.
struct WatchedCatalog {
    root: tempfile::TempDir,
    watch: CatalogWatcher,
    changes: Receiver<()>,
}

impl WatchedCatalog {
    /// Watches the file `path` in a new folder, with `text` as its first content, if any.
    fn new(path: &str, text: Option<&str>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(path);
        if let Some(text) = text {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
        }
        let (change, changes) = mpsc::channel();
        let watch = CatalogWatcher::start(file, move || {
            let _ = change.send(());
        });
        Self {
            root,
            watch,
            changes,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Waits until the current catalog is as expected.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Catalog, Option<CatalogError>) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so(&self.watch.current(), self.watch.error()) {
            let left = end.saturating_duration_since(Instant::now());
            if self.changes.recv_timeout(left).is_err() {
                panic!("{what}: not after 60 s; error {:?}", self.watch.error());
            }
        }
    }

    #[track_caller]
    fn wait_for(&self, name: &str) {
        self.wait(name, |list, error| {
            named(list) == Some(name) && error.is_none()
        });
    }
}

/// Returns the name of the model `small`.
fn named(list: &Catalog) -> Option<&str> {
    Some(&list.find("small")?.name)
}

fn list(name: &str) -> String {
    FULL.replace("name = \"Small\"", &format!("name = \"{name}\""))
}

#[test]
fn a_file_is_read_at_once_and_again_when_it_is_written() {
    let watched = WatchedCatalog::new("models.toml", Some(&list("First")));
    assert_eq!(named(&watched.watch.current()), Some("First"));
    assert!(watched.watch.current().find("starter").is_some());
    fs::write(watched.path("models.toml"), list("Second")).unwrap();
    watched.wait_for("Second");
}

#[test]
fn a_file_that_an_editor_replaces_is_read() {
    let watched = WatchedCatalog::new("models.toml", Some(&list("First")));
    for name in ["Second", "Third"] {
        let new = watched.path(".models.toml.swp");
        fs::write(&new, list(name)).unwrap();
        fs::rename(new, watched.path("models.toml")).unwrap();
        watched.wait_for(name);
    }
    // Other editors move the old file away first.
    fs::rename(watched.path("models.toml"), watched.path("models.toml~")).unwrap();
    fs::write(watched.path("models.toml"), list("Fourth")).unwrap();
    watched.wait_for("Fourth");
}

#[test]
fn files_and_folders_that_are_created_and_removed_are_noticed() {
    let watched = WatchedCatalog::new("data/of/app/models.toml", None);
    assert_eq!(named(&watched.watch.current()), None);
    for name in ["First", "Second"] {
        fs::create_dir_all(watched.path("data/of/app")).unwrap();
        fs::write(watched.path("data/of/app/models.toml"), list(name)).unwrap();
        watched.wait_for(name);
        fs::remove_file(watched.path("data/of/app/models.toml")).unwrap();
        watched.wait("gone", |list, error| {
            named(list).is_none() && error.is_none()
        });
        fs::write(watched.path("data/of/app/models.toml"), list(name)).unwrap();
        watched.wait_for(name);
        fs::remove_dir_all(watched.path("data")).unwrap();
        watched.wait("gone again", |list, _| named(list).is_none());
    }
    assert_eq!(*watched.watch.current(), *Catalog::built_in());
}

#[test]
fn an_error_is_reported_and_the_old_catalog_stays_until_it_is_fixed() {
    let watched = WatchedCatalog::new("models.toml", Some(&list("First")));
    let broken = list("Second").replace("layers = 28", "layers = 0");
    fs::write(watched.path("models.toml"), broken).unwrap();
    watched.wait("an error", |list, error| {
        error.is_some() && named(list) == Some("First")
    });
    let error = watched.watch.error().unwrap();
    assert_eq!(error.file, watched.path("models.toml"));
    assert!(error.line > 50, "{error}");
    fs::write(watched.path("models.toml"), list("Third")).unwrap();
    watched.wait_for("Third");
}

#[test]
fn an_error_from_the_start_leaves_the_built_in_catalog() {
    let watched = WatchedCatalog::new("models.toml", Some("oops"));
    assert_eq!(*watched.watch.current(), *Catalog::built_in());
    assert_eq!(watched.watch.error().unwrap().line, 1);
    fs::remove_file(watched.path("models.toml")).unwrap();
    watched.wait("no error", |_, error| error.is_none());
}

#[test]
fn a_file_that_is_no_text_or_no_file_is_an_error_like_others() {
    let watched = WatchedCatalog::new("models.toml", None);
    fs::write(watched.path("models.toml"), b"# one\n# \xff\n").unwrap();
    watched.wait("not UTF-8", |_, error| error.is_some());
    let error = watched.watch.error().unwrap();
    assert_eq!((error.line, error.column), (2, 3), "{error}");
    fs::remove_file(watched.path("models.toml")).unwrap();
    watched.wait("gone", |_, error| error.is_none());
    fs::create_dir(watched.path("models.toml")).unwrap();
    watched.wait("a folder", |_, error| {
        error.is_some_and(|error| error.reason.contains("can't be read"))
    });
}

#[test]
fn a_burst_of_writes_ends_with_the_last_one_in_use() {
    let watched = WatchedCatalog::new("models.toml", Some(&list("First")));
    let began = Instant::now();
    for n in 0..300 {
        fs::write(watched.path("models.toml"), list(&format!("Name {n}"))).unwrap();
        fs::write(watched.path("other.txt"), "not ours").unwrap();
    }
    watched.wait_for("Name 299");
    // Each reading waits until there was no change for a tenth of a second.
    let most = 2 + began.elapsed().as_millis() / 100;
    let n_changes = watched.changes.try_iter().count() as u128;
    assert!(
        n_changes <= most,
        "{n_changes} changes were reported, {most} at most"
    );
}

#[test]
fn a_catalog_that_a_caller_holds_does_not_change() {
    let watched = WatchedCatalog::new("models.toml", Some(&list("First")));
    let held = watched.watch.current();
    fs::write(watched.path("models.toml"), list("Second")).unwrap();
    watched.wait_for("Second");
    assert_eq!(named(&held), Some("First"));
}

#[cfg(unix)]
#[test]
fn a_file_that_is_a_link_is_watched_at_its_target() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("kept")).unwrap();
    fs::create_dir(root.path().join("data")).unwrap();
    let kept = root.path().join("kept/list.toml");
    fs::write(&kept, list("First")).unwrap();
    let link = root.path().join("data/models.toml");
    std::os::unix::fs::symlink(&kept, &link).unwrap();
    let (change, changes) = mpsc::channel();
    let watch = CatalogWatcher::start(link, move || {
        let _ = change.send(());
    });
    let watched = WatchedCatalog {
        root,
        watch,
        changes,
    };
    watched.wait_for("First");
    fs::write(&kept, list("Second")).unwrap();
    watched.wait_for("Second");
}
