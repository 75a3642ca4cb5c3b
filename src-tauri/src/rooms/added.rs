//! What the user added by path, at the start: moved from where older versions kept it.
//!
//! Rule: nothing is lost on the way. It is taken out of the settings only when it stands in the file
//! that every program reads, and until then it counts where it is.

use std::path::Path;

use serde_json::json;
use transom_library::{add_paths, read_added};
use transom_store::{Settings, Store};

/// Moves what older versions kept in the settings, if that was not done; where it cannot be done it is
/// tried again at the next start. The settings as they are then, and why the file cannot be read or
/// written, if it cannot.
pub(super) fn moved(
    store: &Store,
    settings: Settings,
    data_folder: &Path,
) -> (Settings, Result<(), String>) {
    if settings.added_models.is_empty() {
        let read = read_added(data_folder);
        return (settings, read.map(drop).map_err(|error| error.to_string()));
    }
    // First written there, then taken out here: a crash between the two costs nothing.
    if let Err(error) = add_paths(data_folder, &settings.added_models) {
        return (settings, Err(error.to_string()));
    }
    match store.patch_settings(&json!({ "added_models": null })) {
        Ok(moved) => (moved, Ok(())),
        Err(error) => (settings, Err(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;
    use std::path::PathBuf;

    fn store_with(added: &[&str]) -> Store {
        let store = Store::in_memory().unwrap();
        store
            .patch_settings(&json!({ "added_models": added }))
            .unwrap();
        store
    }

    #[test]
    fn what_an_older_version_kept_in_the_settings_is_moved_once() {
        let folder = tempfile::tempdir().unwrap();
        add_paths(folder.path(), &["/b".into()]).unwrap();
        let store = store_with(&["/a", "/b"]);
        let at_start = || moved(&store, store.settings().unwrap(), folder.path());
        let (settings, told) = at_start();
        assert_eq!((settings.added_models, told), (Vec::new(), Ok(())));
        let kept = || read_added(folder.path()).unwrap();
        assert_eq!(kept(), ["/b", "/a"].map(PathBuf::from));
        // What is forgotten later does not come back.
        std::fs::remove_file(folder.path().join(transom_library::ADDED_FILE)).unwrap();
        assert_eq!(at_start().1, Ok(()));
        assert_eq!(kept(), Vec::<PathBuf>::new());
    }

    #[test]
    fn where_it_cannot_be_moved_it_stays_and_counts_and_the_reason_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(transom_library::ADDED_FILE);
        std::fs::write(&file, "oops").unwrap();
        let store = store_with(&["/a"]);
        let settings = store.settings().unwrap();
        let (settings, told) = moved(&store, settings, folder.path());
        assert!(told.unwrap_err().contains("added.json, line 1"));
        let places = models::places(folder.path(), &settings);
        assert_eq!(places.added, [PathBuf::from("/a")]);
        assert_eq!(store.settings().unwrap(), settings);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "oops");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(moved(&store, settings, folder.path()).1, Ok(()));
        assert_eq!(
            store.settings().unwrap().added_models,
            Vec::<PathBuf>::new()
        );
    }
}
