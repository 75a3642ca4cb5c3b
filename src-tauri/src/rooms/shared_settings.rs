//! The settings that hold for every program: the file of [`transom_supervisor::settings`], and the
//! app's own settings, which show them.
//!
//! Rule: the file counts. What the app's database says is shown and written to the file when it
//! changes; where they differ at the start, the database follows.

use std::path::Path;

use serde_json::json;
use transom_store::{Behavior, Settings, Store};
use transom_supervisor::settings::{self, SettingsError};

/// Makes the app's settings those of the file, or the file where there is none. Returns the settings
/// as they are then, and what went wrong, for people.
pub(super) fn read(
    store: &Store,
    settings: Settings,
    data_folder: &Path,
) -> (Settings, Result<(), String>) {
    let problem = match settings::Settings::read(data_folder) {
        Ok(Some(shared)) if shared == of(&settings.behavior) => return (settings, Ok(())),
        Ok(Some(shared)) => {
            return match store.patch_settings(&json!({ "behavior": shared })) {
                Ok(settings) => (settings, Ok(())),
                Err(error) => {
                    let behavior = behavior(&shared);
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
        // What is there stays there.
        Err(error) => return (settings, Err(error.to_string())),
    };
    // Nothing is there now.
    let written = write(&settings, data_folder);
    (settings, problem.and(written))
}

/// Has these settings count for every program.
pub(crate) fn write(settings: &Settings, data_folder: &Path) -> Result<(), String> {
    let written = of(&settings.behavior).write(data_folder);
    written.map_err(|error| error.to_string())
}

/// The part of the app's settings that holds for every program.
pub(crate) fn of(behavior: &Behavior) -> settings::Settings {
    settings::Settings {
        idle_unload_seconds: behavior.idle_unload_seconds,
        keep_loaded: behavior.keep_loaded,
        memory_budget_bytes: behavior.memory_budget_bytes,
    }
}

fn behavior(shared: &settings::Settings) -> Behavior {
    Behavior {
        idle_unload_seconds: shared.idle_unload_seconds,
        keep_loaded: shared.keep_loaded,
        memory_budget_bytes: shared.memory_budget_bytes,
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

    fn read_from(store: &Store, folder: &Path) -> (Settings, Result<(), String>) {
        read(store, store.settings().unwrap(), folder)
    }

    fn in_file(folder: &Path) -> settings::Settings {
        settings::Settings::read(folder).unwrap().unwrap()
    }

    #[test]
    fn what_an_older_version_kept_in_the_database_becomes_the_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_budget(1 << 30);
        let (settings, told) = read_from(&store, folder.path());
        assert_eq!(told, Ok(()));
        assert_eq!(in_file(folder.path()), of(&settings.behavior));
        assert_eq!(in_file(folder.path()).memory_budget_bytes, Some(1 << 30));
        // From then on the file counts.
        let shared = settings::Settings {
            keep_loaded: true,
            ..settings::Settings::default()
        };
        shared.write(folder.path()).unwrap();
        let (settings, told) = read_from(&store, folder.path());
        assert_eq!((of(&settings.behavior), told), (shared, Ok(())));
        assert_eq!(store.settings().unwrap(), settings);
    }

    #[test]
    fn a_damaged_file_is_told_and_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(settings::FILE_NAME), "oops").unwrap();
        let store = store_with_budget(1 << 30);
        let (settings, told) = read_from(&store, folder.path());
        assert!(told.unwrap_err().contains("supervisor.json.damaged"));
        assert_eq!(settings.behavior.memory_budget_bytes, Some(1 << 30));
        assert_eq!(in_file(folder.path()), of(&settings.behavior));
    }
}
