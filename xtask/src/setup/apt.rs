//! The few system packages that Linux needs, through apt, and their like on a Mac.
//!
//! Only what is missing is installed, and the person reads what and why before sudo asks for a
//! password. One apt-get runs at a time, and it waits its turn for the system's own.

use std::io::{self, IsTerminal};
use std::process::Command;

use crate::cache::Cache;
use crate::chores;
use crate::problem::Problem;
use crate::progress::{self, Step};
use crate::setup::cmake;
use crate::setup::wheel;
use crate::setup::{Host, Purpose};

/// A package, what it is for, and how to see that it is not needed.
struct Package {
    /// Whoever sets up for less does without it.
    purpose: Purpose,
    name: &'static str,
    why: &'static str,
    is_there: fn(&str) -> bool,
}

const PACKAGES: [Package; 20] = [
    Package {
        purpose: Purpose::CommandLine,
        name: "g++",
        why: "compiles mlx-c and llama.cpp",
        is_there: |_| {
            chores::succeeds(
                "c++",
                &["-fsyntax-only", "-xc++", "-include", "vector", NO_FILE],
            )
        },
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "libfmt-dev",
        why: "formats text in mlx-c where the C++ library cannot",
        is_there: |name| is_installed(name) || has_std_format(),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "cmake",
        why: "builds llama.cpp",
        is_there: |_| cmake::is_there(),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "make",
        why: "is what cmake builds with",
        is_there: |_| chores::succeeds("make", &["--version"]),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "ccache",
        why: "keeps what was compiled of llama.cpp, so that it is compiled once",
        is_there: |_| chores::succeeds("ccache", &["--version"]),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "libclang-dev",
        why: "reads the headers of mlx-c and llama.cpp for the bindings",
        is_there: |name| is_installed(name) || std::env::var_os("LIBCLANG_PATH").is_some(),
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "libopenblas0-pthread",
        why: "multiplies matrices some forty times faster than MLX's own fallback",
        is_there: is_installed,
    },
    Package {
        purpose: Purpose::CommandLine,
        name: "python3-pip",
        why: "downloads MLX's wheel",
        is_there: |_| wheel::has_pip(),
    },
    Package {
        purpose: Purpose::App,
        name: "pkg-config",
        why: "finds the libraries that windows are drawn with",
        is_there: |_| chores::succeeds("pkg-config", &["--version"]),
    },
    Package {
        purpose: Purpose::App,
        name: "libwebkit2gtk-4.1-dev",
        why: "draws the windows",
        is_there: |_| chores::succeeds("pkg-config", &["--exists", "webkit2gtk-4.1"]),
    },
    Package {
        purpose: Purpose::App,
        name: "libayatana-appindicator3-1",
        why: "puts the icon into the panel",
        is_there: is_installed,
    },
    Package {
        purpose: Purpose::Tests,
        name: "webkit2gtk-driver",
        why: "drives the windows in tests",
        is_there: |_| is_on_the_path("WebKitWebDriver"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "xvfb",
        why: "is a screen for tests, without a screen",
        is_there: |_| is_on_the_path("Xvfb"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "dbus-daemon",
        why: "connects the programs of a test's session",
        is_there: |_| is_on_the_path("dbus-daemon"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "openbox",
        why: "gives the windows of tests their focus",
        is_there: |_| is_on_the_path("openbox"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "xfce4-panel",
        why: "shows the tray icon in tests",
        is_there: is_installed,
    },
    Package {
        purpose: Purpose::Tests,
        name: "xdotool",
        why: "presses keys in tests",
        is_there: |_| is_on_the_path("xdotool"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "xclip",
        why: "copies and selects text in tests",
        is_there: |_| is_on_the_path("xclip"),
    },
    Package {
        purpose: Purpose::Tests,
        name: "x11-utils",
        why: "tells tests of the windows on the screen",
        is_there: is_installed,
    },
    Package {
        purpose: Purpose::Tests,
        name: "fonts-inter",
        why: "writes on that screen, and looks the same on every machine",
        is_there: is_installed,
    },
];

const NO_FILE: &str = "/dev/null";

/// Installs what is missing of all that `purpose` needs.
pub(crate) fn install_missing(host: &Host, purpose: Purpose, cache: &Cache) -> Result<(), Problem> {
    if !host.is_linux() {
        return check_command_line_tools();
    }
    let wanted = PACKAGES.iter().filter(|package| package.purpose <= purpose);
    let missing: Vec<&Package> = wanted
        .filter(|package| !(package.is_there)(package.name))
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
    if !chores::succeeds("apt-get", &["--version"]) {
        return Err(Problem::new(format!(
            "this system has no apt-get; install what these Debian packages hold, then start \
             again: {list}"
        )));
    }
    let sudo = permission(&list)?;
    let step = Step::start(format!("Installing {list}"));
    let log = cache.log("apt");
    step.detail("reading the package lists");
    // Old lists name files that are gone; a failure here shows in the installation itself.
    let update = chores::quietly(apt(sudo).arg("update"), "read the package lists", &log);
    step.detail("");
    let doing = format!("install {list}");
    let install = chores::quietly(
        apt(sudo)
            .args(["install", "--yes", "--no-install-recommends"])
            .args(names),
        &doing,
        &log,
    );
    match (update, install) {
        (_, Ok(())) => step.done(),
        (Err(problem), Err(_)) | (Ok(()), Err(problem)) => return Err(problem),
    }
    Ok(())
}

/// An apt-get that asks nothing and waits for the system's own to finish.
fn apt(sudo: bool) -> Command {
    let mut command = if sudo {
        let mut command = Command::new("sudo");
        // The password was asked for in the open by `permission`; here nobody could see it.
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

/// Whether sudo is needed; asks for the password if so.
fn permission(list: &str) -> Result<bool, Problem> {
    let user = chores::output_of(Command::new("id").arg("-u"), "ask who you are")?;
    if user.trim() == "0" {
        return Ok(false);
    }
    let by_hand = format!("run `apt-get install {list}` as root, then start again");
    if !chores::succeeds("sudo", &["--version"]) {
        return Err(Problem::new(format!(
            "installing packages needs root, and there is no sudo; {by_hand}"
        )));
    }
    // Not `sudo --validate` at once: it asks even those who may act without a password, when one of
    // their groups may not.
    if chores::succeeds("sudo", &["--non-interactive", "true"]) {
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
        "installing packages needs root, and sudo did not grant it; {by_hand}"
    )))
}

/// dpkg's word for it; false where there is no dpkg.
fn is_installed(name: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", name]);
    chores::output_of(&mut query, "ask dpkg").is_ok_and(|status| status == "installed")
}

/// For programs that have no harmless way to be started, such as without a display.
fn is_on_the_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// GCC 12, Debian 12's, lacks std::format; GCC 13 has it.
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
    chores::output_of(&mut preprocessor, "ask the compiler")
        .is_ok_and(|macros| macros.contains("#define __cpp_lib_format "))
}

/// A Mac has all we need in its command line tools.
fn check_command_line_tools() -> Result<(), Problem> {
    if chores::succeeds("xcode-select", &["-p"]) && chores::succeeds("c++", &["--version"]) {
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
    fn the_command_line_asks_for_no_window_and_no_test_tool() {
        let names = |purpose| {
            let wanted = PACKAGES.iter();
            let wanted = wanted.filter(move |package| package.purpose <= purpose);
            wanted.map(|package| package.name).collect::<Vec<_>>()
        };
        let least = names(Purpose::CommandLine);
        assert!(least.contains(&"cmake") && !least.contains(&"libwebkit2gtk-4.1-dev"));
        let app = names(Purpose::App);
        assert!(app.contains(&"libwebkit2gtk-4.1-dev") && !app.contains(&"xvfb"));
        assert_eq!(names(Purpose::Tests).len(), PACKAGES.len());
    }

    #[test]
    fn apt_asks_nothing_with_and_without_sudo() {
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
