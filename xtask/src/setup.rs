//! The native set-up: MLX under an unmodified mlx-rs, on Linux and macOS.
//!
//! mlx-sys would build MLX from its repository with Xcode. Instead we take Apple's own compiled
//! wheel, compile the C layer that mlx-sys carries, generate its bindings, and tell cargo through
//! `.cargo/native.toml` to use these. `crates/README.md` says why. The rule: each step first looks
//! whether its result is there, so set-up can be cut off anywhere and repeated at no cost.

mod apt;
mod bindings;
mod blas;
mod config;
mod host;
mod mlxc;
mod wheel;

use std::path::PathBuf;
use std::time::Instant;

use crate::cache::{Cache, recipe_hash};
use crate::problem::Problem;
use crate::progress;

pub(crate) use host::Host;

/// What the later chores need to know.
pub(crate) struct Workspace {
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
}

/// Does what is missing and leaves `.cargo/native.toml` behind.
pub(crate) fn set_up() -> Result<Workspace, Problem> {
    let started = Instant::now();
    let host = Host::detect()?;
    let wheel = wheel::for_host(&host)?;
    let source = mlxc::Source::locate(&host)?;
    source.check_mlx_version()?;

    let flags = mlxc::compile_flags(&host).join(" ");
    let recipe = recipe_hash(
        [wheel.sha256, &source.version, &flags]
            .into_iter()
            .chain(mlxc::SHIMS.map(|(_, text)| text))
            .chain([bindings::GENERATOR]),
    );
    let cache = Cache::open(wheel::MLX_VERSION, &recipe)?;

    apt::install_missing(&host, &cache)?;
    let mlx = wheel::unpacked(wheel, &cache)?;
    if host.is_linux() {
        blas::replace_reference_blas(&mlx)?;
    }
    let archive = mlxc::built(&host, &source, &mlx, &cache)?;
    let bindings = bindings::written(&host, &source, &cache)?;
    config::write(&host, &mlx, &archive, &bindings)?;
    progress::say(&format!(
        "✓ MLX {} is set up ({}), in {}",
        wheel::MLX_VERSION,
        progress::elapsed(started.elapsed()),
        cache.folder().display()
    ));
    Ok(Workspace {
        target: source.target,
    })
}
