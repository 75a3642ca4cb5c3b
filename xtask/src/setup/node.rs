//! Node and npm, with which the pages are built: the system's own if new enough, else a wheel that
//! holds what nodejs.org publishes.
//!
//! Debian 12 offers Node 18, which Vite does not run on, so apt is not asked. The wheel is unpacked
//! into the cache folder and only found by the programs that set-up starts.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{self, Cache};
use crate::chores;
use crate::problem::Problem;
use crate::setup::Host;
use crate::setup::wheel::{self, NODE_LINUX, NODE_MAC};

/// A Node that is new enough, and its npm.
pub(crate) struct Node {
    /// Where both lie; `None` where the path has them.
    folder: Option<PathBuf>,
}

/// The wheel's npm is a copy of a link, which does not find its own files.
const NPM: &str = "\
#!/bin/sh
here=$(dirname \"$0\")
exec \"$here/node\" \"$here/../lib/node_modules/npm/bin/npm-cli.js\" \"$@\"
";

impl Node {
    pub(crate) fn provided(host: &Host, cache: &Cache) -> Result<Self, Problem> {
        let told = chores::output_of(Command::new("node").arg("--version"), "ask Node");
        let is_new_enough = told.is_ok_and(|version| runs_vite(&version));
        if is_new_enough && chores::succeeds("npm", &["--version"]) {
            return Ok(Self { folder: None });
        }
        let wheel = if host.is_linux() {
            &NODE_LINUX
        } else {
            &NODE_MAC
        };
        let unpacked = wheel::unpacked(wheel, &format!("node-{}", wheel.version), cache)?;
        let program = unpacked.join(wheel.holds);
        let folder = program.parent().unwrap_or(&unpacked).to_owned();
        cache::make_runnable(&program)?;
        let npm = folder.join("npm");
        cache::write_whole(&npm, NPM.as_bytes())?;
        cache::make_runnable(&npm)?;
        Ok(Self {
            folder: Some(folder),
        })
    }

    /// An npm that works in `folder` and whose scripts find the same Node.
    pub(crate) fn npm(&self, folder: &Path) -> Result<Command, Problem> {
        let mut command = Command::new(match &self.folder {
            Some(own) => own.join("npm"),
            None => PathBuf::from("npm"),
        });
        if let Some(own) = &self.folder {
            command.env("PATH", in_front(own)?);
        }
        // Neither advice nor advertisements: what it says is read only when it fails.
        command
            .current_dir(folder)
            .envs([("NO_UPDATE_NOTIFIER", "1"), ("npm_config_fund", "false")])
            .env("npm_config_audit", "false");
        Ok(command)
    }
}

/// The path with `folder` in front.
fn in_front(folder: &Path) -> Result<OsString, Problem> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter();
    env::join_paths(folders.chain(env::split_paths(&path)))
        .map_err(|error| Problem::new(format!("the cache folder cannot be on the path: {error}")))
}

/// Vite's own condition: ^20.19 or 22.12 and newer.
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
    fn only_a_node_that_vite_runs_on_is_taken() {
        for version in ["v20.19.0\n", "v22.12.0", "v24.0.1", "v23.1.0"] {
            assert!(runs_vite(version), "{version}");
        }
        for version in ["v18.19.0\n", "v20.18.9", "v21.7.0", "v22.11.0", "", "node"] {
            assert!(!runs_vite(version), "{version}");
        }
    }
}
