//! Installs the system packages that Linux needs with apt, and checks for the command line tools on
//! a Mac.
//!
//! Only missing packages are installed, and the user sees their names and purposes before sudo asks
//! for a password. One apt-get runs at a time, and it waits for other package managers.

use std::io::{self, IsTerminal};
use std::process::Command;

use crate::cache::Cache;
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::wheel;
use crate::setup::{Host, Purpose};

/// The packages and what they are for, by the smallest purpose that needs them.
const PACKAGES: [(Purpose, &[(&str, &str)]); 3] = [
    (
        Purpose::CommandLine,
        &[
            ("g++", "compiles mlx-c and llama.cpp"),
            (
                "libfmt-dev",
                "formats text in mlx-c where the C++ library cannot",
            ),
            ("cmake", "builds llama.cpp"),
            ("make", "runs the build of cmake"),
            (
                "ccache",
                "caches the compiled llama.cpp, so it is compiled once",
            ),
            (
                "libclang-dev",
                "reads the headers of mlx-c and llama.cpp for the bindings",
            ),
            (
                "libopenblas0-pthread",
                "multiplies matrices about forty times faster than the BLAS of MLX",
            ),
            ("python3-pip", "downloads the wheel of MLX"),
        ],
    ),
    (
        Purpose::App,
        &[
            ("pkg-config", "finds the libraries that draw windows"),
            ("libwebkit2gtk-4.1-dev", "draws the windows"),
            ("libayatana-appindicator3-1", "shows the icon in the panel"),
        ],
    ),
    (
        Purpose::Tests,
        &[
            ("webkit2gtk-driver", "drives the windows in tests"),
            ("xvfb", "is a virtual screen for tests"),
            ("dbus-daemon", "connects the programs in tests"),
            ("openbox", "manages the windows in tests"),
            ("xfce4-panel", "shows the tray icon in tests"),
            ("xdotool", "presses keys in tests"),
            ("xclip", "copies and selects text in tests"),
            ("x11-utils", "lists the windows on the screen in tests"),
            (
                "fonts-inter",
                "is the font in tests, the same on every machine",
            ),
        ],
    ),
];

/// Returns true if what the package provides is there, from the package or otherwise.
fn is_available(package: &str) -> bool {
    match package {
        "g++" => process::succeeds(
            "c++",
            &["-fsyntax-only", "-xc++", "-include", "vector", NO_FILE],
        ),
        "libfmt-dev" => is_installed(package) || has_std_format(),
        "cmake" => wheel::has_cmake(),
        "make" | "ccache" | "pkg-config" => process::succeeds(package, &["--version"]),
        "libclang-dev" => is_installed(package) || std::env::var_os("LIBCLANG_PATH").is_some(),
        "python3-pip" => wheel::pip().is_ok(),
        "libwebkit2gtk-4.1-dev" => process::succeeds("pkg-config", &["--exists", "webkit2gtk-4.1"]),
        "webkit2gtk-driver" => is_on_the_path("WebKitWebDriver"),
        "xvfb" => is_on_the_path("Xvfb"),
        "dbus-daemon" | "openbox" | "xdotool" | "xclip" => is_on_the_path(package),
        _ => is_installed(package),
    }
}

fn needed(purpose: Purpose) -> impl Iterator<Item = (&'static str, &'static str)> {
    let groups = PACKAGES.into_iter().filter(move |(of, _)| *of <= purpose);
    groups.flat_map(|(_, packages)| packages.iter().copied())
}

const NO_FILE: &str = "/dev/null";

/// Installs the missing packages that `purpose` needs.
pub(crate) fn install_missing(host: &Host, purpose: Purpose, cache: &Cache) -> Result<(), Problem> {
    if !host.is_linux() {
        return check_command_line_tools();
    }
    let missing: Vec<_> = needed(purpose)
        .filter(|(name, _)| !is_available(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    progress::say("Some system packages are missing and will be installed with apt:");
    for (name, why) in &missing {
        progress::say(&format!("  {name}: {why}"));
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    install(&names, cache)
}

fn install(names: &[&str], cache: &Cache) -> Result<(), Problem> {
    let list = names.join(" ");
    if !process::succeeds("apt-get", &["--version"]) {
        return Err(Problem::new(format!(
            "this system has no apt-get; install the equivalent of these Debian packages, then \
             start again: {list}"
        )));
    }
    let sudo = permission(&list)?;
    let log = cache.log("apt");
    // Old lists have files that no longer exist. If the update fails, the installation may still
    // work.
    let update = progress::step("Reading the package lists", || {
        process::run_logged(apt(sudo).arg("update"), "read the package lists", &log)
    });
    progress::step(format!("Installing {list}"), || {
        let mut install = apt(sudo);
        install.args(["install", "--yes", "--no-install-recommends"]);
        let installed = process::run_logged(install.args(names), &format!("install {list}"), &log);
        installed.map_err(|problem| update.err().unwrap_or(problem))
    })
}

/// Returns a noninteractive apt-get command that waits for other package managers.
fn apt(sudo: bool) -> Command {
    let mut command = Command::new(if sudo { "sudo" } else { "apt-get" });
    if sudo {
        // `permission` has asked for the password already; a prompt would not be visible here.
        command.args(["-n", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    } else {
        command.env("DEBIAN_FRONTEND", "noninteractive");
    }
    command.args(["--quiet", "-o", "DPkg::Lock::Timeout=600"]);
    command
}

/// Returns true if sudo is needed, after asking for the password.
fn permission(list: &str) -> Result<bool, Problem> {
    let user = process::output_of(Command::new("id").arg("-u"), "get the user id")?;
    if user.trim() == "0" {
        return Ok(false);
    }
    let instruction = format!("run `apt-get install {list}` as root, then start again");
    if !process::succeeds("sudo", &["--version"]) {
        return Err(Problem::new(format!(
            "installing packages needs root, and there is no sudo; {instruction}"
        )));
    }
    // Not `sudo --validate` first, because it asks for a password if only one of the groups of the
    // user needs it.
    if process::succeeds("sudo", &["--non-interactive", "true"]) {
        return Ok(true);
    }
    let is_granted = io::stdin().is_terminal()
        && Command::new("sudo")
            .arg("--validate")
            .status()
            .is_ok_and(|status| status.success());
    if is_granted {
        return Ok(true);
    }
    Err(Problem::new(format!(
        "installing packages needs root, and sudo did not grant it; {instruction}"
    )))
}

/// Returns true if dpkg lists the package as installed; false without dpkg.
fn is_installed(name: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", name]);
    process::output_of(&mut query, "query dpkg").is_ok_and(|status| status == "installed")
}

/// Returns true if the program is on the path. For programs that cannot be started as a check, such
/// as without a display.
fn is_on_the_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns true if the C++ library has std::format. GCC 12 of Debian 12 lacks it; GCC 13 has it.
fn has_std_format() -> bool {
    let mut preprocessor = Command::new("c++");
    preprocessor.args(["-std=c++20", "-dM", "-E", "-xc++"]);
    preprocessor.args(["-include", "version", NO_FILE]);
    process::output_of(&mut preprocessor, "query the compiler")
        .is_ok_and(|macros| macros.contains("#define __cpp_lib_format "))
}

/// Checks that the command line tools of a Mac are installed, which are all that it needs.
fn check_command_line_tools() -> Result<(), Problem> {
    if process::succeeds("xcode-select", &["-p"]) && process::succeeds("c++", &["--version"]) {
        Ok(())
    } else {
        Err(Problem::new(
            "the command line tools are missing; run `xcode-select --install`, then start again",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_does_not_exist_is_not_installed() {
        assert!(!is_installed("no-such-package-here"));
        assert!(!is_on_the_path("no-such-program-here"));
        assert!(is_on_the_path("sh"));
    }

    #[test]
    fn the_command_line_needs_no_packages_of_windows_or_tests() {
        let names = |purpose| needed(purpose).map(|(name, _)| name).collect::<Vec<_>>();
        let least = names(Purpose::CommandLine);
        assert!(least.contains(&"cmake") && !least.contains(&"libwebkit2gtk-4.1-dev"));
        let app = names(Purpose::App);
        assert!(app.contains(&"libwebkit2gtk-4.1-dev") && !app.contains(&"xvfb"));
        let all = PACKAGES.map(|(_, packages)| packages.len());
        assert_eq!(names(Purpose::Tests).len(), all.iter().sum::<usize>());
    }

    #[test]
    fn apt_is_noninteractive_with_and_without_sudo() {
        let with: Vec<_> = apt(true).get_args().map(|arg| arg.to_owned()).collect();
        assert!(
            with.iter()
                .any(|arg| arg == "DEBIAN_FRONTEND=noninteractive")
        );
        let without = apt(false);
        let mut variables = without.get_envs();
        assert!(variables.any(|(name, _)| name == "DEBIAN_FRONTEND"));
    }
}
