//! cmake, with which llama.cpp is built: the system's own, else the wheel that cmake's makers
//! publish.
//!
//! On Linux apt brings it. A Mac's command line tools have none, so there the wheel is unpacked
//! into the cache folder, and cargo is told where it lies. Nothing is installed into any Python.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
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
    make_runnable(&program)?;
    Ok(Some(program))
}

/// Whether the build of llama.cpp finds a cmake by itself: the one that `CMAKE` names, else the
/// path's.
pub(crate) fn is_there() -> bool {
    std::env::var_os("CMAKE").is_some() || chores::succeeds("cmake", &["--version"])
}

/// Python's zipfile leaves the permissions behind.
#[cfg(unix)]
fn make_runnable(program: &Path) -> Result<(), Problem> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
        .map_err(|error| Problem::io("make runnable", program, &error))
}

#[cfg(not(unix))]
fn make_runnable(_program: &Path) -> Result<(), Problem> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_unpacked_program_runs() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("cmake");
        fs::write(&program, "#!/bin/sh\necho cmake\n").unwrap();
        assert!(Command::new(&program).output().is_err());
        make_runnable(&program).unwrap();
        let told = chores::output_of(&mut Command::new(&program), "run it").unwrap();
        assert_eq!(told, "cmake\n");
    }
}
