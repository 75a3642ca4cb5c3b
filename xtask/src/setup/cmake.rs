//! cmake, with which llama.cpp is built: the system's own, else the wheel that cmake's makers
//! publish.
//!
//! On Linux apt brings it. A Mac's command line tools have none, so there the wheel is unpacked
//! into the cache folder, and cargo is told where it lies. Nothing is installed into any Python.

use std::path::PathBuf;

use crate::cache::{self, Cache};
use crate::chores;
use crate::problem::Problem;
use crate::setup::Host;
use crate::setup::wheel::{self, CMAKE};

/// The cmake that cargo must be told of; `None` where the system's own will be found.
pub(crate) fn provided(host: &Host, cache: &Cache) -> Result<Option<PathBuf>, Problem> {
    if host.is_linux() || is_there() {
        return Ok(None);
    }
    let program = wheel::unpacked(&CMAKE, "cmake", cache)?.join(CMAKE.holds);
    cache::make_runnable(&program)?;
    Ok(Some(program))
}

/// Whether the build of llama.cpp finds a cmake by itself: the one that `CMAKE` names, else the
/// path's.
pub(crate) fn is_there() -> bool {
    std::env::var_os("CMAKE").is_some() || chores::succeeds("cmake", &["--version"])
}
