//! Runs Tauri's build step, and registers the names of our commands.
//!
//! A page may call a registered command only if a file in `capabilities/` allows it.

#[macro_use]
#[path = "src/names.rs"]
mod names;

fn main() {
    println!("cargo:rerun-if-changed=src/names.rs");
    let manifest = tauri_build::AppManifest::new().commands(names::COMMANDS);
    let attributes = tauri_build::Attributes::new().app_manifest(manifest);
    tauri_build::try_build(attributes).expect("the configuration is checked with the rest");
}
