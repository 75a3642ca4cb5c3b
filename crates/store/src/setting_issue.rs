//! A setting with an invalid value, as errors and notices report it.

use serde::{Deserialize, Serialize};

/// An invalid value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[error("the setting {field} cannot be {value}: it takes {allowed}")]
pub struct SettingIssue {
    /// The path of the field, such as `general.hotkey` or `models["/a.gguf"].temperature`.
    pub field: String,
    /// The value as JSON, shortened.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}
