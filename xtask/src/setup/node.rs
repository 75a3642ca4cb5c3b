//! Node and npm, which build the pages: the installed ones if they are new enough, or the official
//! build in a wheel.
//!
//! Debian 12 has Node 18, which is too old for Vite, so apt does not install it. The wheel is
//! unpacked into the cache folder, where only the programs that setup starts find it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{self, Cache};
use crate::problem::Problem;
use crate::process;
use crate::setup::Host;
use crate::setup::wheel::{self, NODE_LINUX, NODE_MAC};

/// A Node that is new enough, and its npm.
pub(crate) struct Node {
    /// The folder of both; `None` if they are on the path.
    folder: Option<PathBuf>,
}

/// Replaces the npm of the wheel, which is a copy of a link and does not find its files.
const NPM: &str = "\
#!/bin/sh
here=$(dirname \"$0\")
exec \"$here/node\" \"$here/../lib/node_modules/npm/bin/npm-cli.js\" \"$@\"
";

impl Node {
    pub(crate) fn find_or_unpack(host: &Host, cache: &Cache) -> Result<Self, Problem> {
        let mut node = Command::new("node");
        let version = process::output_of(node.arg("--version"), "get the version of Node");
        let is_new_enough = version.is_ok_and(|version| runs_vite(&version));
        if is_new_enough && process::succeeds("npm", &["--version"]) {
            return Ok(Self { folder: None });
        }
        let wheel = match host {
            Host::Linux => &NODE_LINUX,
            Host::Mac { .. } => &NODE_MAC,
        };
        let program = wheel::unpack_program(wheel, &format!("node-{}", wheel.version), cache)?;
        let npm = program.with_file_name("npm");
        cache::write_atomically(&npm, NPM.as_bytes())?;
        cache::make_executable(&npm)?;
        let folder = npm.parent().map(Path::to_owned);
        Ok(Self { folder })
    }

    /// Returns an npm command that runs in `folder` and whose scripts find the same Node.
    pub(crate) fn npm(&self, folder: &Path) -> Result<Command, Problem> {
        let mut command = Command::new(match &self.folder {
            Some(own) => own.join("npm"),
            None => PathBuf::from("npm"),
        });
        if let Some(own) = &self.folder {
            command.env("PATH", with_front(own)?);
        }
        // Without notices, because the output is read only if npm fails.
        command
            .current_dir(folder)
            .envs([("NO_UPDATE_NOTIFIER", "1"), ("npm_config_fund", "false")])
            .env("npm_config_audit", "false");
        Ok(command)
    }
}

/// Returns the path with `folder` at its front.
fn with_front(folder: &Path) -> Result<OsString, Problem> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(std::iter::once(folder.to_owned()).chain(env::split_paths(&path)))
        .map_err(|error| Problem::new(format!("the cache folder cannot be on the path: {error}")))
}

/// Returns true for the versions that Vite supports: ^20.19, and 22.12 or newer.
fn runs_vite(version: &str) -> bool {
    let mut numbers = version.trim().trim_start_matches('v').split('.');
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    match (next(), next()) {
        (Some(20), Some(minor)) => minor >= 19,
        (Some(22), Some(minor)) => minor >= 12,
        (Some(major), Some(_)) => major > 22,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_vite_supports_is_used() {
        for version in ["v20.19.0\n", "v22.12.0", "v24.0.1", "v23.1.0"] {
            assert!(runs_vite(version), "{version}");
        }
        for version in ["v18.19.0\n", "v20.18.9", "v21.7.0", "v22.11.0", "", "node"] {
            assert!(!runs_vite(version), "{version}");
        }
    }
}
