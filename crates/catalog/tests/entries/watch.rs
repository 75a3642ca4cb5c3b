//! The list as its files change, as editors, people and scripts change them.
//!
//! Rule: each wait is for a state and ends with a sentence; no time is guessed.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use transom_catalog::{Catalog, CatalogError, CatalogWatcher};

use super::FULL;

/// A user's own list in a folder, and the watch over it.
struct Follower {
    root: tempfile::TempDir,
    watch: CatalogWatcher,
    changes: Receiver<()>,
}

impl Follower {
    /// Of the file `path` below a new folder, which holds `text` at first if there is one.
    fn new(path: &str, text: Option<&str>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(path);
        if let Some(text) = text {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
        }
        let (change, changes) = mpsc::channel();
        let watch = CatalogWatcher::start(None, Some(file), move || {
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

    /// Waits until what is in force is as it should be.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Catalog, Option<CatalogError>) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so(&self.watch.current(), self.watch.error()) {
            let left = end.saturating_duration_since(Instant::now());
            if self.changes.recv_timeout(left).is_err() {
                panic!(
                    "{what}: not after 60 s; error {:?}, problem {:?}",
                    self.watch.error(),
                    self.watch.problem()
                );
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

/// Name of the model `small`.
fn named(list: &Catalog) -> Option<&str> {
    Some(&list.find("small")?.name)
}

fn list(name: &str) -> String {
    FULL.replace("name = \"Small\"", &format!("name = \"{name}\""))
}

#[test]
fn a_file_is_read_at_once_and_again_when_it_is_written() {
    let follower = Follower::new("models.toml", Some(&list("First")));
    assert_eq!(named(&follower.watch.current()), Some("First"));
    assert!(follower.watch.current().find("starter").is_some());
    fs::write(follower.path("models.toml"), list("Second")).unwrap();
    follower.wait_for("Second");
}

#[test]
fn a_file_that_an_editor_puts_in_place_of_the_old_one_is_read() {
    let follower = Follower::new("models.toml", Some(&list("First")));
    for name in ["Second", "Third"] {
        let new = follower.path(".models.toml.swp");
        fs::write(&new, list(name)).unwrap();
        fs::rename(new, follower.path("models.toml")).unwrap();
        follower.wait_for(name);
    }
    // Others move the old one away first.
    fs::rename(follower.path("models.toml"), follower.path("models.toml~")).unwrap();
    fs::write(follower.path("models.toml"), list("Fourth")).unwrap();
    follower.wait_for("Fourth");
}

#[test]
fn files_and_folders_that_come_later_and_go_are_noticed() {
    let follower = Follower::new("data/of/app/models.toml", None);
    assert_eq!(named(&follower.watch.current()), None);
    for name in ["First", "Second"] {
        fs::create_dir_all(follower.path("data/of/app")).unwrap();
        fs::write(follower.path("data/of/app/models.toml"), list(name)).unwrap();
        follower.wait_for(name);
        fs::remove_file(follower.path("data/of/app/models.toml")).unwrap();
        follower.wait("gone", |list, error| {
            named(list).is_none() && error.is_none()
        });
        fs::write(follower.path("data/of/app/models.toml"), list(name)).unwrap();
        follower.wait_for(name);
        fs::remove_dir_all(follower.path("data")).unwrap();
        follower.wait("gone again", |list, _| named(list).is_none());
    }
    assert_eq!(*follower.watch.current(), *Catalog::built_in());
}

#[test]
fn a_mistake_is_told_and_the_old_list_stays_until_it_is_mended() {
    let follower = Follower::new("models.toml", Some(&list("First")));
    let broken = list("Second").replace("layers = 28", "layers = 0");
    fs::write(follower.path("models.toml"), broken).unwrap();
    follower.wait("a error", |list, error| {
        error.is_some() && named(list) == Some("First")
    });
    let error = follower.watch.error().unwrap();
    assert_eq!(error.file, follower.path("models.toml"));
    assert!(error.line > 50, "{error}");
    fs::write(follower.path("models.toml"), list("Third")).unwrap();
    follower.wait_for("Third");
}

#[test]
fn a_mistake_from_the_start_leaves_the_built_in_list() {
    let follower = Follower::new("models.toml", Some("oops"));
    assert_eq!(*follower.watch.current(), *Catalog::built_in());
    assert_eq!(follower.watch.error().unwrap().line, 1);
    fs::remove_file(follower.path("models.toml")).unwrap();
    follower.wait("no error", |_, error| error.is_none());
}

#[test]
fn what_is_no_text_or_no_file_is_a_mistake_like_others() {
    let follower = Follower::new("models.toml", None);
    fs::write(follower.path("models.toml"), b"# one\n# \xff\n").unwrap();
    follower.wait("not UTF-8", |_, error| error.is_some());
    let error = follower.watch.error().unwrap();
    assert_eq!((error.line, error.column), (2, 3), "{error}");
    fs::remove_file(follower.path("models.toml")).unwrap();
    follower.wait("gone", |_, error| error.is_none());
    fs::create_dir(follower.path("models.toml")).unwrap();
    follower.wait("a folder", |_, error| {
        error.is_some_and(|error| error.reason.contains("cannot be read"))
    });
}

#[test]
fn a_burst_of_writes_ends_with_the_last_one_in_force() {
    let follower = Follower::new("models.toml", Some(&list("First")));
    let began = Instant::now();
    for n in 0..300 {
        fs::write(follower.path("models.toml"), list(&format!("Name {n}"))).unwrap();
        fs::write(follower.path("other.txt"), "not ours").unwrap();
    }
    follower.wait_for("Name 299");
    // Each reading waits until it was quiet for a tenth of a second.
    let most = 2 + began.elapsed().as_millis() / 100;
    let n_changes = follower.changes.try_iter().count() as u128;
    assert!(
        n_changes <= most,
        "{n_changes} changes were told, {most} at most"
    );
}

#[test]
fn a_list_that_someone_holds_stays_as_it_is_and_looking_again_harms_nothing() {
    let follower = Follower::new("models.toml", Some(&list("First")));
    let held = follower.watch.current();
    follower.watch.reload();
    fs::write(follower.path("models.toml"), list("Second")).unwrap();
    follower.watch.reload();
    follower.wait_for("Second");
    assert_eq!(named(&held), Some("First"));
}

#[cfg(unix)]
#[test]
fn a_file_that_is_a_link_is_followed_to_where_it_is_written() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("kept")).unwrap();
    fs::create_dir(root.path().join("data")).unwrap();
    let kept = root.path().join("kept/list.toml");
    fs::write(&kept, list("First")).unwrap();
    let link = root.path().join("data/models.toml");
    std::os::unix::fs::symlink(&kept, &link).unwrap();
    let (change, changes) = mpsc::channel();
    let watch = CatalogWatcher::start(None, Some(link), move || {
        let _ = change.send(());
    });
    let follower = Follower {
        root,
        watch,
        changes,
    };
    follower.wait_for("First");
    fs::write(&kept, list("Second")).unwrap();
    follower.wait_for("Second");
}

#[test]
fn a_built_in_list_that_is_a_file_is_followed_as_well() {
    let root = tempfile::tempdir().unwrap();
    let (base, user) = (
        root.path().join("models.toml"),
        root.path().join("mine.toml"),
    );
    fs::write(&base, list("First")).unwrap();
    let (change, changes) = mpsc::channel();
    let watch = CatalogWatcher::start(Some(base.clone()), Some(user.clone()), move || {
        let _ = change.send(());
    });
    let follower = Follower {
        root,
        watch,
        changes,
    };
    follower.wait_for("First");
    assert!(follower.watch.current().find("starter").is_none());
    fs::write(&user, list("Mine")).unwrap();
    follower.wait_for("Mine");
    fs::write(&base, "oops").unwrap();
    follower.wait("a error", |list, error| {
        named(list) == Some("Mine") && error.is_some_and(|error| error.file == base)
    });
    fs::remove_file(&base).unwrap();
    follower.wait("the list of the program", |list, _| {
        list.find("starter").is_some()
    });
    follower.wait_for("Mine");
}
