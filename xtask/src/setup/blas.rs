//! Replaces the reference BLAS in the Linux wheel of MLX with OpenBLAS.
//!
//! The reference library multiplies f32 matrices at about 1 GFLOP/s on a machine where OpenBLAS
//! reaches about 40, and on a CPU a model does little else. MLX loads its BLAS by a file name with
//! a hash. In our unpacked copy of the wheel, `libblas` of OpenBLAS gets that name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::problem::Problem;
use crate::progress;

/// The `libblas` of the package libopenblas0-pthread on Debian and Ubuntu.
const OPENBLAS: &str = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3";

/// Replaces the BLAS in `wheel`, the folder of the unpacked wheel.
pub(crate) fn replace_reference_blas(wheel: &Path) -> Result<(), Problem> {
    replace(&wheel.join("mlx_cpu.libs"), Path::new(OPENBLAS))
}

fn replace(libraries: &Path, openblas: &Path) -> Result<(), Problem> {
    let bundled = bundled_blas(libraries)?;
    let replacement = fs::read(openblas).map_err(Problem::io("read", openblas))?;
    if fs::read(&bundled).is_ok_and(|bytes| bytes == replacement) {
        return Ok(());
    }
    progress::step("Replacing the reference BLAS of MLX with OpenBLAS", || {
        cache::write_atomically(&bundled, &replacement)
    })
}

fn bundled_blas(libraries: &Path) -> Result<PathBuf, Problem> {
    let paths = cache::entries(libraries)?;
    let bundled = paths.into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libblas-") && !name.ends_with(".part")
    });
    let folder = libraries.display();
    bundled.ok_or_else(|| Problem::new(format!("the wheel of MLX has no libblas in {folder}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openblas_gets_the_hashed_name_and_is_updated() {
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
    fn a_wheel_without_blas_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let problem = replace(folder.path(), Path::new("libblas.so.3")).unwrap_err();
        assert!(problem.to_string().contains("has no libblas"));
    }
}
