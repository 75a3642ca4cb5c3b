//! Settings that all programs share: the file of [`transom_supervisor::settings`] and the app's own
//! copy.
//!
//! Rule: the file is authoritative. The database shows its values and writes changes to it. If they
//! differ at startup, the database follows.

use std::path::Path;

use serde_json::json;
use transom_store::{Behavior, Settings, Store};
use transom_supervisor::settings::{self, SettingsError};

/// Copies the file's values to the app's settings, or creates the file if it is missing. Returns
/// the resulting settings and any error as text.
pub(super) fn sync(
    store: &Store,
    settings: Settings,
    data_folder: &Path,
) -> (Settings, Result<(), String>) {
    let problem = match settings::Settings::read(data_folder) {
        Ok(Some(shared)) if shared == shared_part(&settings.behavior) => {
            return (settings, Ok(()));
        }
        Ok(Some(shared)) => {
            return match store.patch_settings(&json!({ "behavior": shared })) {
                Ok(settings) => (settings, Ok(())),
                Err(error) => {
                    let behavior = Behavior {
                        idle_unload_seconds: shared.idle_unload_seconds,
                        keep_loaded: shared.keep_loaded,
                        memory_budget_bytes: shared.memory_budget_bytes,
                    };
                    let settings = Settings {
                        behavior,
                        ..settings
                    };
                    (settings, Err(error.to_string()))
                }
            };
        }
        Ok(None) => Ok(()),
        Err(
            error @ SettingsError::Damaged {
                set_aside: Some(_), ..
            },
        ) => Err(error.to_string()),
        // The existing file is left alone.
        Err(error) => return (settings, Err(error.to_string())),
    };
    // There is no file now.
    let written = write(&settings, data_folder);
    (settings, problem.and(written))
}

/// Writes these settings to the shared file.
pub(crate) fn write(settings: &Settings, data_folder: &Path) -> Result<(), String> {
    let written = shared_part(&settings.behavior).write(data_folder);
    written.map_err(|error| error.to_string())
}

/// Returns the shared part of the app's settings.
pub(crate) fn shared_part(behavior: &Behavior) -> settings::Settings {
    settings::Settings {
        idle_unload_seconds: behavior.idle_unload_seconds,
        keep_loaded: behavior.keep_loaded,
        memory_budget_bytes: behavior.memory_budget_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store_with_budget(bytes: u64) -> Store {
        let store = Store::in_memory().unwrap();
        let patch = json!({ "behavior": { "memory_budget_bytes": bytes } });
        store.patch_settings(&patch).unwrap();
        store
    }

    fn sync_from(store: &Store, folder: &Path) -> (Settings, Result<(), String>) {
        sync(store, store.settings().unwrap(), folder)
    }

    fn in_file(folder: &Path) -> settings::Settings {
        settings::Settings::read(folder).unwrap().unwrap()
    }

    #[test]
    fn settings_in_the_database_are_migrated_to_the_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_budget(1 << 30);
        let (settings, result) = sync_from(&store, folder.path());
        assert_eq!(result, Ok(()));
        assert_eq!(in_file(folder.path()), shared_part(&settings.behavior));
        assert_eq!(in_file(folder.path()).memory_budget_bytes, Some(1 << 30));
        // From then on the file is authoritative.
        let shared = settings::Settings {
            keep_loaded: true,
            ..settings::Settings::default()
        };
        shared.write(folder.path()).unwrap();
        let (settings, result) = sync_from(&store, folder.path());
        assert_eq!((shared_part(&settings.behavior), result), (shared, Ok(())));
        assert_eq!(store.settings().unwrap(), settings);
    }

    #[test]
    fn a_damaged_file_is_reported_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(settings::FILE_NAME), "oops").unwrap();
        let store = store_with_budget(1 << 30);
        let (settings, result) = sync_from(&store, folder.path());
        assert!(result.unwrap_err().contains("supervisor.json.damaged"));
        assert_eq!(settings.behavior.memory_budget_bytes, Some(1 << 30));
        assert_eq!(in_file(folder.path()), shared_part(&settings.behavior));
    }
}
