//! The Rust declarations of mlx-c, as mlx-sys's own build script would make them.
//!
//! bindgen and libclang are heavy, so the generator is a program of its own, built for this step
//! only.

use std::path::PathBuf;

use crate::cache::Cache;
use crate::chores;
use crate::problem::Problem;
use crate::progress::Step;
use crate::setup::Host;
use crate::setup::mlxc::{HALF_SHIM, Source};

/// The generator's text; part of the recipe.
pub(crate) const GENERATOR: &str = include_str!("../bin/mlx_bindings.rs");

/// The folder that holds `bindings.rs`.
pub(crate) fn written(host: &Host, source: &Source, cache: &Cache) -> Result<PathBuf, Problem> {
    cache.whole_folder("bindings", |part| {
        let step = Step::start("Generating the bindings of mlx-c");
        let mut generator = chores::cargo();
        generator
            .args(["run", "--quiet", "--package", "xtask"])
            .args(["--features", "bindings", "--bin", "mlx-bindings"])
            // It runs once, so it is not worth optimising.
            .args(["--config", "profile.dev.package.\"*\".opt-level=0", "--"])
            .arg(&source.mlx_c)
            .arg(part.join("bindings.rs"));
        if host.is_linux() {
            generator.arg(cache.folder().join("shims").join(HALF_SHIM));
        }
        let log = cache.log("bindings");
        chores::quietly(&mut generator, "generate the bindings of mlx-c", &log)?;
        step.done();
        Ok(())
    })
}
