//! What is in a cache, while a larger one is made for it.

use std::io;
use std::path::PathBuf;

use tempfile::TempPath;

use crate::native::Context;

/// The contents of a cache that is gone.
///
/// They wait on the disk: in memory they would come on top of the larger cache, up to half of its
/// size.
pub(super) enum Contents {
    /// Readable for this user only, and removed when the value is dropped.
    OnDisk(TempPath),
    /// Where the disk has no space for them.
    InMemory(Vec<u8>),
}

impl Contents {
    /// Takes what is in the cache of `context`.
    pub(super) fn of(context: &Context) -> Self {
        on_disk(context).map_or_else(
            |error| {
                tracing::warn!(%error, "while the KV cache grows it is in memory twice");
                Self::InMemory(context.state())
            },
            Self::OnDisk,
        )
    }

    /// Puts it into the cache of `context`. Returns whether all of it is there; if not, the cache is
    /// empty.
    pub(super) fn put(&self, context: &mut Context) -> bool {
        match self {
            Self::OnDisk(path) => context.load_file(path, 0),
            Self::InMemory(bytes) => context.set_state(bytes),
        }
    }
}

fn on_disk(context: &Context) -> io::Result<TempPath> {
    let file = tempfile::Builder::new()
        .prefix("transom-")
        .tempfile_in(folder())?;
    let path = file.into_temp_path();
    context.save_file(&path, &[])?;
    Ok(path)
}

/// Where temporary files go that are too large for memory.
fn folder() -> PathBuf {
    // On many Linux systems `/tmp` is in memory.
    match cfg!(target_os = "linux") {
        true => PathBuf::from("/var/tmp"),
        false => std::env::temp_dir(),
    }
}
