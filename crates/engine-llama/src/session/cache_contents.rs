//! The contents of a KV cache while a larger one is allocated.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::native::Context;

/// The contents of a cache that was freed.
///
/// They are stored on the disk, unless they are private. In memory they come on top of the larger
/// cache, up to half of its size. So a private conversation has a full cache from its start.
pub(super) enum CacheContents {
    /// Without a name, so nothing is left even if the process is killed.
    OnDisk(File),
    /// If they are private, or the disk has no space.
    InMemory(Vec<u8>),
}

impl CacheContents {
    /// Returns `None` if there is space for them neither on the disk nor in memory.
    pub(super) fn take(context: &Context, is_private: bool) -> Option<Self> {
        let in_memory = || context.state(0).map(Self::InMemory);
        if is_private {
            return in_memory();
        }
        match on_disk(context, &folder()) {
            Ok(file) => Some(Self::OnDisk(file)),
            Err(error) => {
                tracing::warn!(%error, "while the KV cache grows it is in memory twice");
                in_memory()
            }
        }
    }

    /// Restores the contents to the cache of `context`. Returns false if that failed; then the
    /// cache is empty.
    pub(super) fn restore(&self, context: &mut Context) -> bool {
        match self {
            Self::OnDisk(file) => context.load_file(file),
            Self::InMemory(bytes) => context.set_state(0, bytes),
        }
    }
}

/// Stores the contents in a new file without a name on the disk of `folder`.
pub(super) fn on_disk(context: &Context, folder: &Path) -> io::Result<File> {
    let file = tempfile::tempfile_in(folder)?;
    context.save_file(&file)?;
    Ok(file)
}

/// Returns the folder for temporary files that are too large for memory.
fn folder() -> PathBuf {
    // On many Linux systems `/tmp` is in memory.
    match cfg!(target_os = "linux") {
        true => PathBuf::from("/var/tmp"),
        false => std::env::temp_dir(),
    }
}
