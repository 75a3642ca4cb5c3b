//! Migrates models that the user added by path from the settings of older versions.
//!
//! Rule: no entry is lost. An entry is removed from the settings only after it is in the file that
//! all programs read; until then the settings count.

use std::path::Path;

use serde_json::json;
use transom_library::{add_paths, read_added};
use transom_store::{Settings, Store};

/// Moves added models from the settings to the file, if there are any. If that fails, the next
/// start tries again. Returns the resulting settings, and the error if the file cannot be read or
/// written.
pub(super) fn migrate(
    store: &Store,
    settings: Settings,
    data_folder: &Path,
) -> (Settings, Result<(), String>) {
    if settings.added_models.is_empty() {
        let read = read_added(data_folder);
        return (settings, read.map(drop).map_err(|error| error.to_string()));
    }
    // Written to the file first, then removed here, so a crash in between loses nothing.
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
    fn models_in_old_settings_are_migrated_once() {
        let folder = tempfile::tempdir().unwrap();
        add_paths(folder.path(), &["/b".into()]).unwrap();
        let store = store_with(&["/a", "/b"]);
        let at_start = || migrate(&store, store.settings().unwrap(), folder.path());
        let (settings, result) = at_start();
        assert_eq!((settings.added_models, result), (Vec::new(), Ok(())));
        let kept = || read_added(folder.path()).unwrap();
        assert_eq!(kept(), ["/b", "/a"].map(PathBuf::from));
        // A model that is removed later does not come back.
        std::fs::remove_file(folder.path().join(transom_library::ADDED_FILE)).unwrap();
        assert_eq!(at_start().1, Ok(()));
        assert_eq!(kept(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_failed_migration_keeps_the_settings_and_returns_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(transom_library::ADDED_FILE);
        std::fs::write(&file, "oops").unwrap();
        let store = store_with(&["/a"]);
        let settings = store.settings().unwrap();
        let (settings, result) = migrate(&store, settings, folder.path());
        assert!(result.unwrap_err().contains("added.json, line 1"));
        let places = models::places(folder.path(), &settings);
        assert_eq!(places.added, [PathBuf::from("/a")]);
        assert_eq!(store.settings().unwrap(), settings);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "oops");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(migrate(&store, settings, folder.path()).1, Ok(()));
        assert_eq!(
            store.settings().unwrap().added_models,
            Vec::<PathBuf>::new()
        );
    }
}
