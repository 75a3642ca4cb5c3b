//! Build script of every crate whose executables or tests run MLX.
//!
//! `cargo xtask setup` names the folder of MLX's library in Cargo's environment
//! (`.cargo/native.toml`); here it becomes a run path, so that `target/…/transom` and the test
//! programs start without any variable set. It adds nothing to the other crates, so that set-up
//! never makes them build again. Without a set-up it does nothing.
//!
//! `cargo xtask bundle` names a folder relative to the program instead.

#![expect(
    clippy::print_stdout,
    reason = "Cargo reads the instructions of a build script there"
)]

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=TRANSOM_MLX_LIB");
    let Ok(folder) = std::env::var("TRANSOM_MLX_LIB") else {
        return;
    };
    let is_in_bundle = ["@executable_path/", "$ORIGIN/"]
        .iter()
        .any(|start| folder.starts_with(start));
    if is_in_bundle || Path::new(&folder).is_absolute() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
