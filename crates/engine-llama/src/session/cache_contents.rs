//! The contents of a KV cache while a larger one is allocated.

use std::io;
use std::path::PathBuf;

use tempfile::TempPath;

use crate::native::Context;

/// The contents of a cache that was freed.
///
/// They are stored on the disk, unless they are private. In memory they come on top of the larger
/// cache, up to half of its size.
pub(super) enum CacheContents {
    /// Readable only for this user, and deleted when the value is dropped.
    OnDisk(TempPath),
    /// If they are private, or the disk has no space.
    InMemory(Vec<u8>),
}

impl CacheContents {
    /// Returns `None` if there is space for them neither on the disk nor in memory.
    pub(super) fn take(context: &Context, is_private: bool) -> Option<Self> {
        let in_memory = || context.state().map(Self::InMemory);
        if is_private {
            return in_memory();
        }
        match on_disk(context) {
            Ok(path) => Some(Self::OnDisk(path)),
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
            Self::OnDisk(path) => context.load_file(path),
            Self::InMemory(bytes) => context.set_state(bytes),
        }
    }
}

fn on_disk(context: &Context) -> io::Result<TempPath> {
    let file = tempfile::Builder::new()
        .prefix("transom-")
        .tempfile_in(folder())?;
    let path = file.into_temp_path();
    context.save_file(&path)?;
    Ok(path)
}

/// Returns the folder for temporary files that are too large for memory.
fn folder() -> PathBuf {
    // On many Linux systems `/tmp` is in memory.
    match cfg!(target_os = "linux") {
        true => PathBuf::from("/var/tmp"),
        false => std::env::temp_dir(),
    }
}
