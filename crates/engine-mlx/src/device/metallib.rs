//! The Metal kernels of an app bundle.
//!
//! MLX looks for `mlx.metallib` next to its library. In a bundle, the signature covers that folder as
//! code, where a data file makes the bundle invalid. So the kernels are in `Resources`, and MLX gets
//! their path.

#![expect(unsafe_code, reason = "calls into mlx-c")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Tells MLX where the kernels are if this program is in an app bundle. MLX reads the path when it
/// opens the GPU, so this must come before everything else that uses MLX.
pub(crate) fn use_bundled() {
    let executable = transom_catalog::installed::own_executable();
    let Some(path) = executable.and_then(|executable| near(&executable)) else {
        return;
    };
    let set = CString::new(path.as_os_str().as_bytes()).map(|path| {
        // SAFETY: the path is a C string, which MLX copies.
        unsafe { mlx_sys::mlx_metal_set_metallib_path(path.as_ptr()) }
    });
    if set != Ok(0) {
        tracing::error!("could not tell MLX where its Metal kernels are");
    }
}

/// Returns the kernels of the bundle that contains the program at `executable`.
fn near(executable: &Path) -> Option<PathBuf> {
    let contents = executable.parent()?.parent()?;
    let kernels = contents.join("Resources/mlx.metallib");
    kernels.is_file().then_some(kernels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_kernels_are_found_in_a_bundle_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let contents = folder.path().join("Transom.app/Contents");
        let program = contents.join("MacOS/transom");
        assert_eq!(near(&program), None);
        let kernels = contents.join("Resources/mlx.metallib");
        fs::create_dir_all(contents.join("Resources")).expect("the folder is made");
        fs::write(&kernels, "MTLB").expect("the file is written");
        assert_eq!(near(&program), Some(kernels));
        assert_eq!(near(&folder.path().join("target/debug/transom")), None);
    }
}
