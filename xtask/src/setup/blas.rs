//! OpenBLAS in the place of the reference BLAS that MLX's Linux wheel brings.
//!
//! The reference library multiplies f32 matrices at about 1 GFLOP/s on a machine where OpenBLAS
//! reaches about 40, and on a CPU a model does little else. MLX asks for its BLAS by a file name
//! with a hash in it; in our own unpacked copy we put OpenBLAS's `libblas` under that name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::problem::Problem;
use crate::progress::Step;

/// Where Debian and Ubuntu keep the package libopenblas0-pthread's drop-in library.
const OPENBLAS: &str = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3";

/// `wheel` is the unpacked wheel.
pub(crate) fn replace_reference_blas(wheel: &Path) -> Result<(), Problem> {
    replace(&wheel.join("mlx_cpu.libs"), Path::new(OPENBLAS))
}

fn replace(libraries: &Path, openblas: &Path) -> Result<(), Problem> {
    let theirs = bundled_blas(libraries)?;
    let ours = fs::read(openblas).map_err(|error| Problem::io("read", openblas, &error))?;
    if fs::read(&theirs).is_ok_and(|bytes| bytes == ours) {
        return Ok(());
    }
    let step = Step::start("Putting OpenBLAS in the place of MLX's reference BLAS");
    cache::write_whole(&theirs, &ours)?;
    step.done();
    Ok(())
}

fn bundled_blas(libraries: &Path) -> Result<PathBuf, Problem> {
    let entries =
        fs::read_dir(libraries).map_err(|error| Problem::io("read", libraries, &error))?;
    let mut names = entries.flatten().map(|entry| entry.path());
    names
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libblas-") && !name.ends_with(".part")
        })
        .ok_or_else(|| {
            let folder = libraries.display();
            Problem::new(format!("MLX's wheel brings no libblas in {folder}"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openblas_takes_the_hashed_name_and_follows_an_upgrade() {
        let folder = tempfile::tempdir().unwrap();
        let libraries = folder.path().join("libs");
        fs::create_dir(&libraries).unwrap();
        let hashed = libraries.join("libblas-bd8a282c.so.3.10.0");
        fs::write(&hashed, "reference").unwrap();
        fs::write(libraries.join("liblapack-1.so"), "lapack").unwrap();
        let openblas = folder.path().join("libblas.so.3");
        for version in ["fast", "faster"] {
            fs::write(&openblas, version).unwrap();
            replace(&libraries, &openblas).unwrap();
            assert_eq!(fs::read_to_string(&hashed).unwrap(), version);
        }
        let names = fs::read_dir(&libraries).unwrap().count();
        assert_eq!(names, 2, "nothing is left over");
    }

    #[test]
    fn a_wheel_without_blas_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let problem = replace(folder.path(), Path::new("libblas.so.3")).unwrap_err();
        assert!(problem.to_string().contains("brings no libblas"));
    }
}
