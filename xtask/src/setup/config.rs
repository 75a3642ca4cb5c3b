//! `.cargo/native.toml`: where cargo finds what set-up made.
//!
//! Cargo's documented override of a `links` package replaces mlx-sys's build script: no cmake run,
//! no clone. `.cargo/config.toml` includes the file as optional; git ignores it, because its paths
//! are this machine's. `crates/native-rpath.rs` reads the environment value.

use std::fs;
use std::path::Path;

use crate::cache;
use crate::chores;
use crate::problem::Problem;
use crate::setup::Host;

pub(crate) fn write(
    host: &Host,
    wheel: &Path,
    archive: &Path,
    bindings: &Path,
) -> Result<(), Problem> {
    let path = chores::workspace().join(".cargo/native.toml");
    let text = contents(host, &wheel.join("mlx/lib"), archive, bindings);
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    cache::write_whole(&path, text.as_bytes())
}

fn contents(host: &Host, library: &Path, archive: &Path, bindings: &Path) -> String {
    let libraries = match host {
        Host::Linux => r#""static=mlxc", "dylib=mlx", "dylib=stdc++""#,
        Host::Mac { .. } => {
            r#""static=mlxc", "dylib=mlx", "dylib=c++", "dylib=objc", "framework=Foundation", "framework=Metal", "framework=Accelerate""#
        }
    };
    let triple = host.triple();
    let archive = quoted(archive);
    let bindings = quoted(bindings);
    let run_path = quoted(Path::new(&format!(
        "-Clink-arg=-Wl,-rpath,{}",
        library.display()
    )));
    let library = quoted(library);
    format!(
        "\
# Written by `cargo xtask setup`; do not edit, and do not commit: these paths are this machine's.
[target.{triple}.mlx]
rustc-link-search = [{archive}, {library}]
rustc-link-lib = [{libraries}]
rustc-env = {{ OUT_DIR = {bindings} }}

# Documentation tests are programs too, and no build script can give them a run path.
[target.{triple}]
rustdocflags = [{run_path}]

[env]
TRANSOM_MLX_LIB = {library}
"
    )
}

/// A TOML basic string. JSON's escapes are among TOML's.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_gets_paths_libraries_and_bindings() {
        let text = contents(
            &Host::Linux,
            Path::new("/c/wheel/mlx/lib"),
            Path::new("/c/mlxc"),
            Path::new("/c/my \"bindings\""),
        );
        for line in [
            "[target.x86_64-unknown-linux-gnu.mlx]",
            r#"rustc-link-search = ["/c/mlxc", "/c/wheel/mlx/lib"]"#,
            r#"rustc-link-lib = ["static=mlxc", "dylib=mlx", "dylib=stdc++"]"#,
            r#"rustc-env = { OUT_DIR = "/c/my \"bindings\"" }"#,
            r#"rustdocflags = ["-Clink-arg=-Wl,-rpath,/c/wheel/mlx/lib"]"#,
            r#"TRANSOM_MLX_LIB = "/c/wheel/mlx/lib""#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_mac_links_apples_frameworks() {
        let host = Host::Mac { major: 15 };
        let text = contents(&host, Path::new("/l"), Path::new("/a"), Path::new("/b"));
        assert!(text.contains("[target.aarch64-apple-darwin.mlx]"));
        assert!(text.contains(r#""framework=Metal""#));
        assert!(!text.contains("stdc++"));
    }
}
