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
use crate::setup::Host;
use crate::setup::cmake;
use crate::setup::wheel;

/// A package, what it is for, and how to see that it is not needed.
struct Package {
    name: &'static str,
    why: &'static str,
    is_there: fn(&str) -> bool,
}

const PACKAGES: [Package; 8] = [
    Package {
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
        name: "libfmt-dev",
        why: "formats text in mlx-c where the C++ library cannot",
        is_there: |name| is_installed(name) || has_std_format(),
    },
    Package {
        name: "cmake",
        why: "builds llama.cpp",
        is_there: |_| cmake::is_there(),
    },
    Package {
        name: "make",
        why: "is what cmake builds with",
        is_there: |_| chores::succeeds("make", &["--version"]),
    },
    Package {
        name: "ccache",
        why: "keeps what was compiled of llama.cpp, so that it is compiled once",
        is_there: |_| chores::succeeds("ccache", &["--version"]),
    },
    Package {
        name: "libclang-dev",
        why: "reads the headers of mlx-c and llama.cpp for the bindings",
        is_there: |name| is_installed(name) || std::env::var_os("LIBCLANG_PATH").is_some(),
    },
    Package {
        name: "libopenblas0-pthread",
        why: "multiplies matrices some forty times faster than MLX's own fallback",
        is_there: is_installed,
    },
    Package {
        name: "python3-pip",
        why: "downloads MLX's wheel",
        is_there: |_| wheel::has_pip(),
    },
];

const NO_FILE: &str = "/dev/null";

pub(crate) fn install_missing(host: &Host, cache: &Cache) -> Result<(), Problem> {
    if !host.is_linux() {
        return check_command_line_tools();
    }
    let missing: Vec<&Package> = PACKAGES
        .iter()
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
