//! cmake, which builds llama.cpp: the installed one, or the official wheel.
//!
//! On Linux apt installs it. The command line tools of a Mac do not contain it, so there the wheel
//! is unpacked into the cache folder, and `.cargo/native.toml` has its path. Nothing is installed
//! into any Python.

use std::path::PathBuf;

use crate::cache::{self, Cache};
use crate::problem::Problem;
use crate::process;
use crate::setup::Host;
use crate::setup::wheel::{self, CMAKE};

/// Returns the path of cmake for `.cargo/native.toml`; `None` if the build finds an installed one.
pub(crate) fn find_or_unpack(host: &Host, cache: &Cache) -> Result<Option<PathBuf>, Problem> {
    if host.is_linux() || is_available() {
        return Ok(None);
    }
    let program = wheel::unpack(&CMAKE, "cmake", cache)?.join(CMAKE.required_file);
    cache::make_executable(&program)?;
    Ok(Some(program))
}

/// Returns true if the build of llama.cpp finds cmake without help: in `CMAKE` or on the path.
pub(crate) fn is_available() -> bool {
    std::env::var_os("CMAKE").is_some() || process::succeeds("cmake", &["--version"])
}
