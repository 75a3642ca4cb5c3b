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
use crate::progress::{self, Step};
use crate::setup::cmake;
use crate::setup::wheel;
use crate::setup::{Host, Purpose};

/// A package, its purpose, and a check whether it is needed.
struct Package {
    /// The smallest purpose that needs it.
    purpose: Purpose,
    name: &'static str,
    why: &'static str,
    is_available: fn(&str) -> bool,
}

const PACKAGES: [Package; 20] = [
    Package {
        purpose: Purpose::CommandLine,
        name: "g++",
        why: "compiles mlx-c and llama.cpp",
        is_available: |_| {
            process::succeeds(
                "c++",
                &["-fsyntax-only", "-xc++", "-include", "vector", NO_FILE],
            )
        },
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "libfmt-dev",
        why: "formats text in mlx-c where the C++ library cannot",
        is_available: |name| is_installed(name) || has_std_format(),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "cmake",
        why: "builds llama.cpp",
        is_available: |_| cmake::is_available(),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "make",
        why: "runs the build of cmake",
        is_available: |_| process::succeeds("make", &["--version"]),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "ccache",
        why: "caches the compiled llama.cpp, so it is compiled once",
        is_available: |_| process::succeeds("ccache", &["--version"]),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "libclang-dev",
        why: "reads the headers of mlx-c and llama.cpp for the bindings",
        is_available: |name| is_installed(name) || std::env::var_os("LIBCLANG_PATH").is_some(),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "libopenblas0-pthread",
        why: "multiplies matrices about forty times faster than the BLAS of MLX",
        is_available: is_installed,
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "python3-pip",
        why: "downloads the wheel of MLX",
        is_available: |_| wheel::has_pip(),
    },
    Package {
        purpose: Purpose::App,
        name: "pkg-config",
        why: "finds the libraries that draw windows",
        is_available: |_| process::succeeds("pkg-config", &["--version"]),
    },
    Package {
        purpose: Purpose::App,
        name: "libwebkit2gtk-4.1-dev",
        why: "draws the windows",
        is_available: |_| process::succeeds("pkg-config", &["--exists", "webkit2gtk-4.1"]),
    },
    Package {
        purpose: Purpose::App,
        name: "libayatana-appindicator3-1",
        why: "shows the icon in the panel",
        is_available: is_installed,
    },
    Package {
        purpose: Purpose::Tests,
        name: "webkit2gtk-driver",
        why: "drives the windows in tests",
        is_available: |_| is_on_the_path("WebKitWebDriver"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "xvfb",
        why: "is a virtual screen for tests",
        is_available: |_| is_on_the_path("Xvfb"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "dbus-daemon",
        why: "connects the programs in tests",
        is_available: |_| is_on_the_path("dbus-daemon"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "openbox",
        why: "manages the windows in tests",
        is_available: |_| is_on_the_path("openbox"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "xfce4-panel",
        why: "shows the tray icon in tests",
        is_available: is_installed,
    },
    Package {
        purpose: Purpose::Tests,
        name: "xdotool",
        why: "presses keys in tests",
        is_available: |_| is_on_the_path("xdotool"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "xclip",
        why: "copies and selects text in tests",
        is_available: |_| is_on_the_path("xclip"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "x11-utils",
        why: "lists the windows on the screen in tests",
        is_available: is_installed,
    },
    Package {
        purpose: Purpose::Tests,
        name: "fonts-inter",
        why: "is the font in tests, the same on every machine",
        is_available: is_installed,
    },
];

const NO_FILE: &str = "/dev/null";

/// Installs the missing packages that `purpose` needs.
pub(crate) fn install_missing(host: &Host, purpose: Purpose, cache: &Cache) -> Result<(), Problem> {
    if !host.is_linux() {
        return check_command_line_tools();
    }
    let needed = PACKAGES.iter().filter(|package| package.purpose <= purpose);
    let missing: Vec<&Package> = needed
        .filter(|package| !(package.is_available)(package.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    progress::say("Some system packages are missing and will be installed with apt:");
    for package in &missing {
        progress::say(&format!("  {}: {}", package.name, package.why));
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
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
    let step = Step::start(format!("Installing {list}"));
    let log = cache.log("apt");
    step.detail("reading the package lists");
    // Old lists have files that no longer exist. If the update fails, the installation may still
    // work.
    let update = process::run_logged(apt(sudo).arg("update"), "read the package lists", &log);
    step.detail("");
    let action = format!("install {list}");
    let install = process::run_logged(
        apt(sudo)
            .args(["install", "--yes", "--no-install-recommends"])
            .args(names),
        &action,
        &log,
    );
    match (update, install) {
        (_, Ok(())) => step.done(),
        (Err(problem), Err(_)) | (Ok(()), Err(problem)) => return Err(problem),
    }
    Ok(())
}

/// Returns a noninteractive apt-get command that waits for other package managers.
fn apt(sudo: bool) -> Command {
    let mut command = if sudo {
        let mut command = Command::new("sudo");
        // `permission` has asked for the password already; a prompt would not be visible here.
        command.args(["-n", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        command
    } else {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
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
    preprocessor.args([
        "-std=c++20",
        "-dM",
        "-E",
        "-xc++",
        "-include",
        "version",
        NO_FILE,
    ]);
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
        let names = |purpose| {
            let needed = PACKAGES.iter();
            let needed = needed.filter(move |package| package.purpose <= purpose);
            needed.map(|package| package.name).collect::<Vec<_>>()
        };
        let least = names(Purpose::CommandLine);
        assert!(least.contains(&"cmake") && !least.contains(&"libwebkit2gtk-4.1-dev"));
        let app = names(Purpose::App);
        assert!(app.contains(&"libwebkit2gtk-4.1-dev") && !app.contains(&"xvfb"));
        assert_eq!(names(Purpose::Tests).len(), PACKAGES.len());
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
