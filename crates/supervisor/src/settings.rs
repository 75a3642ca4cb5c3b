//! The user's settings of the supervisor, in a file of the data folder that every program reads.
//!
//! Rule: every program starts its supervisor with these settings. An invalid file is never
//! overwritten: it is renamed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::governor::Tuning;

/// Name of the file in the data folder.
pub const FILE_NAME: &str = "supervisor.json";

/// The user's settings. `None` selects a default for this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Idle time in seconds after which a model is unloaded; `None` selects it by machine and power
    /// source.
    pub idle_unload_seconds: Option<u32>,
    /// Keep the chat model loaded.
    pub keep_loaded: bool,
    /// Bytes that models may use together; `None` selects the budget of this machine.
    pub memory_budget_bytes: Option<u64>,
}

/// An error of reading or writing the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file is not valid.
    #[error("{path}: {reason}; {}", moved(.set_aside.as_deref()))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The path that it was renamed to; `None` if that failed.
        set_aside: Option<PathBuf>,
    },
    /// The system reported an error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn moved(set_aside: Option<&Path>) -> String {
    set_aside.map_or_else(
        || "default settings are used; remove the file to get rid of this message".to_owned(),
        |aside| format!("it was moved to {}", aside.display()),
    )
}

impl Settings {
    /// Reads the settings in `data_folder`; returns `None` if there is no file yet.
    ///
    /// # Errors
    /// [`SettingsError::Damaged`] if the file is invalid, which renames it; [`SettingsError::Io`].
    pub fn read(data_folder: &Path) -> Result<Option<Self>, SettingsError> {
        let path = data_folder.join(FILE_NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(SettingsError::Io { path, source }),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            let aside = path.with_extension("json.damaged");
            let is_moved = fs::rename(&path, &aside).is_ok();
            SettingsError::Damaged {
                path,
                reason: error.to_string(),
                set_aside: is_moved.then_some(aside),
            }
        })
    }

    /// Writes the settings to `data_folder`, readable by this user only. The write is atomic: the
    /// file contains either the old or the new settings at any time.
    ///
    /// # Errors
    /// [`SettingsError::Io`].
    pub fn write(&self, data_folder: &Path) -> Result<(), SettingsError> {
        let path = data_folder.join(FILE_NAME);
        let written = transom_files::replace_json(&path, self);
        written.map_err(|source| SettingsError::Io { path, source })
    }

    /// Returns the supervisor's tuning for these settings.
    pub fn tuning(&self) -> Tuning {
        let seconds = self.idle_unload_seconds.map(u64::from);
        Tuning {
            idle_unload: seconds.map(Duration::from_secs),
            keep_loaded: self.keep_loaded,
            memory_budget_bytes: self.memory_budget_bytes,
            ..Tuning::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn chosen() -> Settings {
        Settings {
            idle_unload_seconds: Some(60),
            keep_loaded: true,
            memory_budget_bytes: Some(6 << 30),
        }
    }

    #[test]
    fn written_settings_are_read_back_and_are_private() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(Settings::read(data.path()).unwrap(), None);
        Settings::default().write(data.path()).unwrap();
        chosen().write(data.path()).unwrap();
        assert_eq!(Settings::read(data.path()).unwrap(), Some(chosen()));
        let metadata = fs::metadata(data.path().join(FILE_NAME)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
    }

    #[test]
    fn missing_fields_use_defaults_and_unknown_fields_are_ignored() {
        let data = tempfile::tempdir().unwrap();
        let text = r#"{ "keep_loaded": true, "mood": "good" }"#;
        fs::write(data.path().join(FILE_NAME), text).unwrap();
        let settings = Settings::read(data.path()).unwrap().unwrap();
        let expected = Tuning {
            keep_loaded: true,
            ..Tuning::default()
        };
        assert_eq!(settings.tuning(), expected);
        assert_eq!(Settings::default().tuning(), Tuning::default());
        let tuning = chosen().tuning();
        assert_eq!(tuning.idle_unload, Some(Duration::from_secs(60)));
        assert_eq!(tuning.memory_budget_bytes, Some(6 << 30));
    }

    #[test]
    fn a_damaged_file_is_renamed_and_reported() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(FILE_NAME);
        for damaged in ["", "oops", r#"{ "memory_budget_bytes": "6 GB" }"#] {
            fs::write(&path, damaged).unwrap();
            let message = Settings::read(data.path()).unwrap_err().to_string();
            assert!(message.contains("supervisor.json: "), "{message}");
            assert!(message.contains("supervisor.json.damaged"), "{message}");
            let aside = fs::read_to_string(path.with_extension("json.damaged"));
            assert_eq!(aside.unwrap(), damaged);
            assert_eq!(Settings::read(data.path()).unwrap(), None);
        }
    }

    #[test]
    fn a_failed_write_leaves_no_file_and_reports_the_path() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join(FILE_NAME)).unwrap();
        let message = chosen().write(data.path()).unwrap_err().to_string();
        assert!(message.contains("supervisor.json: "), "{message}");
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
    }
}
