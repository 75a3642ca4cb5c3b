//! The Rust bindings of mlx-c, as the build script of mlx-sys would generate them.
//!
//! bindgen and libclang are large, so the generator is a separate program, which is built only for
//! this step.

use std::path::Path;

use crate::cache::Cache;
use crate::problem::Problem;
use crate::process;
use crate::setup::Host;
use crate::setup::mlxc::{HALF_SHIM, Source};

/// The source of the generator; part of the recipe.
pub(crate) const GENERATOR: &str = include_str!("../bin/mlx_bindings.rs");

/// Generates `bindings.rs` in `folder`.
pub(crate) fn generate(
    host: &Host,
    source: &Source,
    shims: &Path,
    folder: &Path,
    cache: &Cache,
) -> Result<(), Problem> {
    let mut generator = process::cargo();
    generator
        .args(["run", "--quiet", "--package", "xtask"])
        .args(["--features", "bindings", "--bin", "mlx-bindings"])
        // It runs once, so optimization does not pay off.
        .args(["--config", "profile.dev.package.\"*\".opt-level=0", "--"])
        .arg(&source.mlx_c)
        .arg(folder.join("bindings.rs"));
    if host.is_linux() {
        generator.arg(shims.join(HALF_SHIM));
    }
    let log = cache.log("bindings");
    process::run_logged(&mut generator, "generate the bindings of mlx-c", &log)
}
