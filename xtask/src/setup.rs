//! The native set-up: MLX under an unmodified mlx-rs, and what llama.cpp's build needs, on Linux and
//! macOS.
//!
//! mlx-sys would build MLX from its repository with Xcode. Instead we take Apple's own compiled
//! wheel, compile the C layer that mlx-sys carries, generate its bindings, and tell cargo through
//! `.cargo/native.toml` to use these. llama-cpp-sys-2 builds itself, given cmake. `docs/building.md`
//! says why. The rule: each step first looks whether its result is there, so set-up can be cut off
//! anywhere and repeated at no cost.

mod apt;
mod bindings;
mod blas;
mod cmake;
mod config;
mod host;
mod instructions;
mod mlxc;
mod node;
mod starter;
mod wheel;

use std::path::PathBuf;
use std::time::Instant;

use crate::cache::{Cache, recipe_hash};
use crate::problem::Problem;
use crate::progress;

use config::Native;
pub(crate) use host::Host;
pub(crate) use node::Node;

/// What is set up for; each needs all that those before it need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// To build and run `transom`.
    CommandLine,
    /// To build and run the app as well.
    App,
    /// To test all of it.
    Tests,
}

/// What the later chores need to know.
pub(crate) struct Workspace {
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// What builds the pages; `None` for the command line.
    pub(crate) node: Option<Node>,
}

/// Does what is missing and leaves `.cargo/native.toml` behind.
pub(crate) fn set_up(purpose: Purpose) -> Result<Workspace, Problem> {
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

    apt::install_missing(&host, purpose, &cache)?;
    let mlx = wheel::unpacked(wheel, "wheel", &cache)?;
    if host.is_linux() {
        blas::replace_reference_blas(&mlx)?;
    }
    let native = Native {
        mlx_c: mlxc::built(&host, &source, &mlx, &cache)?,
        bindings: bindings::written(&host, &source, &cache)?,
        mlx: mlx.join("mlx/lib"),
        cmake: cmake::provided(&host, &cache)?,
        ccache: cache.ccache().to_owned(),
        instructions: instructions::variables(&host)?,
    };
    config::write(&host, &native)?;
    starter::written()?;
    let node = if purpose >= Purpose::App {
        Some(Node::provided(&host, &cache)?)
    } else {
        None
    };
    progress::say(&format!(
        "✓ set up ({}): MLX {} and the build of llama.cpp, in {}",
        progress::elapsed(started.elapsed()),
        wheel::MLX_VERSION,
        cache.folder().display()
    ));
    Ok(Workspace {
        target: source.target,
        node,
    })
}
