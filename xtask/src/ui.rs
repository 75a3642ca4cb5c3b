//! The pages of the app, built with npm and Vite from `ui/`.
//!
//! Rule: pages that are up to date are not built again. A file of npm in `node_modules` records
//! what is installed, and a marker file of ours when the pages were built; a changed source is
//! newer than these.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::cache::{self, is_newer};
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::{Node, Workspace};

/// The sources of the pages and the program that builds them.
pub(crate) struct Ui<'a> {
    folder: PathBuf,
    logs: PathBuf,
    node: &'a Node,
}

/// The results that are built from the sources.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pages {
    App,
    /// One page that shows every state, without the app.
    Gallery,
}

impl<'a> Ui<'a> {
    pub(crate) fn new(workspace: &'a Workspace) -> Result<Self, Problem> {
        let node = workspace.node.as_ref();
        let logs = workspace.target.join("ui-logs");
        cache::make_folder(&logs)?;
        Ok(Self {
            folder: process::workspace().join("ui"),
            logs,
            node: node.ok_or_else(|| Problem::new("setup did not provide Node"))?,
        })
    }

    /// Installs the packages of the lock file unless they are installed.
    pub(crate) fn install(&self) -> Result<(), Problem> {
        let record = self.folder.join("node_modules/.package-lock.json");
        let lock = [self.folder.join("package-lock.json")];
        if is_newer(&record, &lock) {
            return Ok(());
        }
        progress::step("Installing the packages that build the pages", || {
            let mut npm = self.node.npm(&self.folder)?;
            npm.args(["ci", "--no-audit", "--no-fund"]);
            let log = self.logs.join("npm-ci.log");
            process::run_logged(&mut npm, "install the packages of ui/", &log)
        })
    }

    /// Builds the pages if a source is newer.
    pub(crate) fn build(&self, pages: Pages) -> Result<(), Problem> {
        self.install()?;
        let (script, folder, title) = match pages {
            Pages::App => ("build", "dist", "Building the pages"),
            Pages::Gallery => ("gallery", "dist-gallery", "Building the gallery of states"),
        };
        let marker = format!("node_modules/.transom-{script}");
        let marker = self.folder.join(marker);
        let sources = sources(&self.folder);
        let sources = sources.map_err(Problem::io("read the sources in", &self.folder))?;
        if self.folder.join(folder).is_dir() && is_newer(&marker, &sources) {
            return Ok(());
        }
        progress::step(title, || {
            // Taken first, so a source that changes during the build is built next time.
            let began = SystemTime::now();
            let log = self.logs.join(format!("{script}.log"));
            process::run_logged(&mut self.script(script)?, "build the pages", &log)?;
            let written = fs::File::create(&marker).and_then(|file| file.set_modified(began));
            written.map_err(Problem::io("write", &marker))
        })
    }

    pub(crate) fn script(&self, name: &str) -> Result<Command, Problem> {
        let mut npm = self.node.npm(&self.folder)?;
        npm.args(["run", "--silent", name]);
        Ok(npm)
    }
}

/// Returns all files in the folder that a build may read, without installed, built and hidden
/// files.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') || name.starts_with("dist") || name == "node_modules" {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
            // A folder is modified when a file in it is removed.
            files.push(entry.path());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn file(path: &Path, age: u64) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        let file = fs::File::create(path).unwrap();
        file.set_modified(time).unwrap();
    }

    #[test]
    fn pages_are_built_again_when_a_source_is_newer() {
        let root = tempfile::tempdir().unwrap();
        let (marker, page) = (root.path().join("marker"), root.path().join("chat.html"));
        file(&page, 50);
        let sources = [page.clone()];
        assert!(!is_newer(&marker, &sources), "nothing was built");
        file(&marker, 40);
        assert!(is_newer(&marker, &sources));
        file(&page, 30);
        assert!(!is_newer(&marker, &sources));
        fs::remove_file(&page).unwrap();
        assert!(!is_newer(&marker, &sources), "a source was removed");
    }

    #[test]
    fn sources_are_only_files_written_by_people() {
        let root = tempfile::tempdir().unwrap();
        for name in [
            "chat.html",
            "src/chat/a.svelte",
            "node_modules/vite/index.js",
            "dist/chat.html",
            "dist-gallery/gallery.html",
            ".cache/x",
        ] {
            file(&root.path().join(name), 0);
        }
        let mut files = sources(root.path()).unwrap();
        files.retain(|path| path.is_file());
        files.sort();
        let names = ["chat.html", "src/chat/a.svelte"].map(|name| root.path().join(name));
        assert_eq!(files, names);
    }
}
