//! The native setup on Linux and macOS: MLX for an unmodified mlx-rs, and the tools that build
//! llama.cpp.
//!
//! mlx-sys would build MLX from its repository with Xcode. Instead, setup unpacks the wheel that
//! Apple publishes, compiles the C layer that is part of mlx-sys, generates its bindings, and
//! configures cargo to use them in `.cargo/native.toml`. llama-cpp-sys-2 builds itself with cmake.
//! `docs/building.md` explains why. Rule: each step first checks whether its result exists, so
//! setup can be interrupted and repeated.

mod apt;
mod bindings;
mod blas;
mod clients;
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

pub(crate) use config::MAC_LIBRARIES;
use config::Native;
pub(crate) use host::Host;
pub(crate) use instructions::for_bundle as instructions_for_bundle;
pub(crate) use mlxc::compile_flags as mlxc_flags;
pub(crate) use node::Node;
use wheel::Wheel;
pub(crate) use wheel::{ZIG, unpack_program};

/// The purpose of a setup. Each one includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// To build and run `transom`.
    CommandLine,
    /// To also build and run the app.
    App,
    /// To also run all tests.
    Tests,
}

/// The results of setup that commands use.
pub(crate) struct Workspace {
    pub(crate) host: Host,
    pub(crate) target: PathBuf,
    /// The unpacked wheel of MLX.
    pub(crate) mlx: PathBuf,
    /// The folder with everything that setup downloads and builds.
    pub(crate) cache: PathBuf,
    /// Node, which builds the pages; `None` for the command line.
    pub(crate) node: Option<Node>,
}

/// The folder in the cache with the MLX of a Mac's bundle, for the tests of the bundle on every
/// system.
pub(crate) const BUNDLE_WHEEL: &str = "bundle-wheel";

/// Runs all missing steps and writes `.cargo/native.toml`.
pub(crate) fn set_up(purpose: Purpose) -> Result<Workspace, Problem> {
    set_up_with(purpose, wheel::for_host)
}

/// Runs all missing steps for programs that other machines run too. The next [`set_up`] restores
/// `.cargo/native.toml` for this machine.
pub(crate) fn set_up_for_bundle() -> Result<Workspace, Problem> {
    set_up_with(Purpose::App, wheel::for_bundle)
}

fn set_up_with(
    purpose: Purpose,
    choose_wheel: impl Fn(&Host) -> &'static Wheel,
) -> Result<Workspace, Problem> {
    let started = Instant::now();
    let host = Host::detect()?;
    let wheel = choose_wheel(&host);
    let source = mlxc::Source::locate(&host)?;
    source.check_mlx_version()?;

    let flags = mlxc::compile_flags(&host).join(" ");
    let recipe = recipe_hash(
        [wheel.sha256, &source.version, &flags, mlxc::HIDE_PATH]
            .into_iter()
            .chain(mlxc::SHIMS.map(|(_, text)| text))
            .chain([bindings::GENERATOR, mlxc::IN_PLACE]),
    );
    let cache = Cache::open(wheel::MLX_VERSION, &recipe)?;

    apt::install_missing(&host, purpose, &cache)?;
    let mlx = wheel::unpack(wheel, "wheel", &cache)?;
    if purpose == Purpose::Tests {
        wheel::unpack(&wheel::MACOS_14, BUNDLE_WHEEL, &cache)?;
        clients::unpack(&cache)?;
    }
    if host.is_linux() {
        blas::replace_reference_blas(&mlx)?;
    }
    let native = Native {
        mlx_c: mlxc::build(&host, &source, &mlx, &cache)?,
        mlx: mlx.join("mlx/lib"),
        cmake: wheel::find_or_unpack_cmake(&host, &cache)?,
        ccache: cache.ccache.clone(),
        instructions: instructions::variables(&host)?,
    };
    config::write(&host, &native)?;
    starter::write()?;
    let node = match purpose {
        Purpose::CommandLine => None,
        Purpose::App | Purpose::Tests => Some(Node::find_or_unpack(&host, &cache)?),
    };
    progress::say(&format!(
        "✓ set up ({}): MLX {} and the build of llama.cpp, in {}",
        progress::elapsed(started.elapsed()),
        wheel::MLX_VERSION,
        cache.folder.display()
    ));
    Ok(Workspace {
        host,
        target: source.target,
        mlx,
        cache: cache.folder.clone(),
        node,
    })
}
