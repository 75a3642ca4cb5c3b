//! `.cargo/native.toml`: the cargo configuration with the results of setup.
//!
//! Cargo's documented override of a `links` package replaces the build script of mlx-sys, so there
//! is no cmake run and no clone. The build script of llama-cpp-sys-2 still runs and reads the
//! environment values. `.cargo/config.toml` includes the file as optional. Git ignores it, because
//! its paths belong to this machine. `crates/native-rpath.rs` reads the first environment value.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::problem::Problem;
use crate::process;
use crate::setup::Host;

/// The values in the file: the folders of the libraries, and the build of llama.cpp.
pub(crate) struct Native {
    pub(crate) mlx: PathBuf,
    /// The folder of the library and of `bindings.rs`.
    pub(crate) mlx_c: PathBuf,
    /// The cmake that builds llama.cpp, unless it is an installed one.
    pub(crate) cmake: Option<PathBuf>,
    pub(crate) ccache: PathBuf,
    pub(crate) instructions: Vec<(&'static str, &'static str)>,
}

/// What programs with MLX link, on Linux and on a Mac.
const LINUX_LIBRARIES: [&str; 3] = ["static=mlxc", "dylib=mlx", "dylib=stdc++"];
pub(crate) const MAC_LIBRARIES: [&str; 7] = [
    "static=mlxc",
    "dylib=mlx",
    "dylib=c++",
    "dylib=objc",
    "framework=Foundation",
    "framework=Metal",
    "framework=Accelerate",
];

pub(crate) fn write(host: &Host, native: &Native) -> Result<(), Problem> {
    let path = process::workspace().join(".cargo/native.toml");
    let text = contents(host, native);
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    cache::write_atomically(&path, text.as_bytes())
}

fn contents(host: &Host, native: &Native) -> String {
    let libraries = match host {
        Host::Linux => &LINUX_LIBRARIES[..],
        Host::Mac { .. } => &MAC_LIBRARIES,
    };
    let libraries: Vec<String> = libraries.iter().map(|name| format!("\"{name}\"")).collect();
    let libraries = libraries.join(", ");
    let triple = host.triple();
    let [mlx_c, mlx] = [&native.mlx_c, &native.mlx].map(|path| quoted(path));
    let run_path = format!("-Clink-arg=-Wl,-rpath,{}", native.mlx.display());
    let run_path = quoted(Path::new(&run_path));
    let environment = environment(native);
    format!(
        "\
# Written by `cargo xtask setup`; do not edit, and do not commit: these paths belong to this machine.
[target.{triple}.mlx]
rustc-link-search = [{mlx_c}, {mlx}]
rustc-link-lib = [{libraries}]
rustc-env = {{ OUT_DIR = {mlx_c} }}

# Documentation tests are programs too, but no build script can set their run path.
[target.{triple}]
rustdocflags = [{run_path}]

[env]
{environment}"
    )
}

/// Returns one line per variable. Variables that the user has set take precedence.
fn environment(native: &Native) -> String {
    let path = |name: &str, path: &Path| format!("{name} = {}\n", quoted(path));
    let mut lines = vec![path("TRANSOM_MLX_LIB", &native.mlx)];
    lines.extend(native.cmake.iter().map(|cmake| path("CMAKE", cmake)));
    lines.push(path("CCACHE_DIR", &native.ccache));
    let instructions = native.instructions.iter();
    lines.extend(instructions.map(|(name, value)| format!("{name} = \"{value}\"\n")));
    lines.concat()
}

/// Returns a TOML basic string. TOML supports the escapes of JSON.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native() -> Native {
        Native {
            mlx: "/c/wheel/mlx/lib".into(),
            mlx_c: "/c/my \"mlxc\"".into(),
            cmake: None,
            ccache: "/c/ccache".into(),
            instructions: vec![("GGML_AVX2", "ON"), ("GGML_AVX512", "OFF")],
        }
    }

    #[test]
    fn linux_gets_paths_libraries_bindings_and_cpu_instructions() {
        let text = contents(&Host::Linux, &native());
        for line in [
            "[target.x86_64-unknown-linux-gnu.mlx]",
            r#"rustc-link-search = ["/c/my \"mlxc\"", "/c/wheel/mlx/lib"]"#,
            r#"rustc-link-lib = ["static=mlxc", "dylib=mlx", "dylib=stdc++"]"#,
            r#"rustc-env = { OUT_DIR = "/c/my \"mlxc\"" }"#,
            r#"rustdocflags = ["-Clink-arg=-Wl,-rpath,/c/wheel/mlx/lib"]"#,
            r#"TRANSOM_MLX_LIB = "/c/wheel/mlx/lib""#,
            r#"CCACHE_DIR = "/c/ccache""#,
            r#"GGML_AVX2 = "ON""#,
            r#"GGML_AVX512 = "OFF""#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("CMAKE"), "{text}");
    }

    #[test]
    fn a_mac_links_frameworks_and_gets_the_path_of_cmake() {
        let native = Native {
            cmake: Some("/c/cmake/bin/cmake".into()),
            ..native()
        };
        let text = contents(&Host::Mac { macos: (15, 6) }, &native);
        assert!(text.contains("[target.aarch64-apple-darwin.mlx]"));
        assert!(text.contains(r#""framework=Metal""#));
        assert!(!text.contains("stdc++"));
        assert!(
            text.contains("\nCMAKE = \"/c/cmake/bin/cmake\"\n"),
            "{text}"
        );
    }
}
