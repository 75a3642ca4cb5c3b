//! Runs Tauri's build step, registers the names of our commands, and sets the versions of
//! components.
//!
//! A page may call a registered command only if a file in `capabilities/` allows it.

#[macro_use]
#[path = "src/names.rs"]
mod names;

/// Packages whose versions the About page shows.
const SHOWN: [&str; 8] = [
    "llama-cpp-sys-2",
    "minijinja",
    "mlx-sys",
    "pulldown-cmark",
    "rusqlite",
    "syntect",
    "tauri",
    "tokenizers",
];

fn main() {
    println!("cargo:rerun-if-changed=src/names.rs");
    println!("cargo:rerun-if-changed=../Cargo.lock");
    let lock = std::fs::read_to_string("../Cargo.lock").unwrap_or_default();
    for name in SHOWN {
        if let Some(version) = version_of(&lock, name) {
            let variable = name.to_uppercase().replace('-', "_");
            println!("cargo:rustc-env=TRANSOM_VERSION_{variable}={version}");
        }
    }
    let manifest = tauri_build::AppManifest::new().commands(names::COMMANDS);
    let attributes = tauri_build::Attributes::new().app_manifest(manifest);
    tauri_build::try_build(attributes).expect("the configuration is checked with the rest");
}

/// Returns the version of a package in the lock file.
fn version_of<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let of = format!("name = \"{name}\"\nversion = \"");
    let after = &lock[lock.find(&of)? + of.len()..];
    Some(&after[..after.find('"')?])
}
