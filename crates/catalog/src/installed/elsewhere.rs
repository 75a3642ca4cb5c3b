//! Models that other apps have on the disk: where they keep them, and which of them are whole.
//!
//! Rule: nothing is written, moved or removed in another app's folders, and what is not whole there
//! is not listed: the app may still be fetching it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// An app, or a library of many, that keeps models on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum App {
    /// The cache that the libraries of Hugging Face, mlx-lm and llama.cpp share.
    HuggingFace,
    /// LM Studio.
    LmStudio,
    /// The cache of llama.cpp's programs.
    LlamaCpp,
}

impl App {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::HuggingFace => "Hugging Face",
            Self::LmStudio => "LM Studio",
            Self::LlamaCpp => "llama.cpp",
        }
    }
}

/// A folder in which an app keeps models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Whose it is; says how models lie in it.
    pub app: App,
    /// The folder; it need not be there.
    pub folder: PathBuf,
}

/// Where the apps keep their models on this computer, for this user.
pub fn elsewhere() -> Vec<Elsewhere> {
    let home = std::env::home_dir();
    elsewhere_for(home.as_deref(), &|name| std::env::var_os(name))
}

/// As [`elsewhere`], for a home folder and variables that are given.
pub(crate) fn elsewhere_for(
    home: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<Elsewhere> {
    let _ = (home, variable);
    Vec::new()
}
