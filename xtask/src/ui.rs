//! The pages of the app, built with npm and Vite from `ui/`.
//!
//! The rule: what is up to date is not built again. npm's own record in `node_modules` tells what
//! was installed, a mark of ours when the pages were built; both are older than a changed source.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::cache;
use crate::chores;
use crate::problem::Problem;
use crate::progress::Step;
use crate::setup::{Node, Workspace};

/// The sources of the pages and the program that builds them.
pub(crate) struct Ui<'a> {
    folder: PathBuf,
    logs: PathBuf,
    node: &'a Node,
}

/// What is built from the sources.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pages {
    /// What the app shows.
    App,
    /// One page that shows every state, without the app.
    Gallery,
}

impl Pages {
    fn script(self) -> &'static str {
        match self {
            Self::App => "build",
            Self::Gallery => "gallery",
        }
    }

    /// The folder that npm's script writes.
    fn folder(self) -> &'static str {
        match self {
            Self::App => "dist",
            Self::Gallery => "dist-gallery",
        }
    }
}

impl<'a> Ui<'a> {
    pub(crate) fn of(workspace: &'a Workspace) -> Result<Self, Problem> {
        let node = workspace.node.as_ref();
        let logs = workspace.target.join("ui-logs");
        cache::make_folder(&logs)?;
        Ok(Self {
            folder: chores::workspace().join("ui"),
            logs,
            node: node.ok_or_else(|| Problem::new("the set-up did not look for Node"))?,
        })
    }

    /// Installs what the lock file names, if that is not what is there.
    pub(crate) fn installed(&self) -> Result<(), Problem> {
        let record = self.folder.join("node_modules/.package-lock.json");
        let lock = [self.folder.join("package-lock.json")];
        if is_newer(&record, &lock) {
            return Ok(());
        }
        let step = Step::start("Installing what the pages are built with");
        let mut npm = self.node.npm(&self.folder)?;
        npm.args(["ci", "--no-audit", "--no-fund"]);
        let log = self.logs.join("npm-ci.log");
        chores::quietly(&mut npm, "install the packages of ui/", &log)?;
        step.done();
        Ok(())
    }

    /// Builds the pages if a source is newer, and returns their folder.
    pub(crate) fn built(&self, pages: Pages) -> Result<PathBuf, Problem> {
        self.installed()?;
        let folder = self.folder.join(pages.folder());
        let mark = self
            .folder
            .join(format!("node_modules/.transom-{}", pages.script()));
        let sources = sources(&self.folder)
            .map_err(|error| Problem::io("read the sources in", &self.folder, &error))?;
        if folder.is_dir() && is_newer(&mark, &sources) {
            return Ok(folder);
        }
        let step = Step::start(match pages {
            Pages::App => "Building the pages",
            Pages::Gallery => "Building the gallery of states",
        });
        // Taken first: what changes while npm works is built next time.
        let began = SystemTime::now();
        let log = self.logs.join(format!("{}.log", pages.script()));
        chores::quietly(&mut self.script(pages.script())?, "build the pages", &log)?;
        let marked = fs::File::create(&mark).and_then(|file| file.set_modified(began));
        marked.map_err(|error| Problem::io("write", &mark, &error))?;
        step.done();
        Ok(folder)
    }

    /// A script of `ui/package.json`, ready to run.
    pub(crate) fn script(&self, name: &str) -> Result<Command, Problem> {
        let mut npm = self.node.npm(&self.folder)?;
        npm.args(["run", "--silent", name]);
        Ok(npm)
    }
}

/// Everything in the folder that a build may read: not what is installed, built or hidden.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
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
            // A folder changes when a file in it goes.
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Whether `made` is there and none of `from` is newer.
fn is_newer(made: &Path, from: &[PathBuf]) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|about| about.modified());
    let Ok(made) = modified(made) else {
        return false;
    };
    from.iter()
        .all(|path| modified(path).is_ok_and(|time| time <= made))
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
        let (mark, page) = (root.path().join("mark"), root.path().join("chat.html"));
        file(&page, 50);
        let sources = [page.clone()];
        assert!(!is_newer(&mark, &sources), "nothing was built");
        file(&mark, 40);
        assert!(is_newer(&mark, &sources));
        file(&page, 30);
        assert!(!is_newer(&mark, &sources));
        fs::remove_file(&page).unwrap();
        assert!(!is_newer(&mark, &sources), "a source went");
    }

    #[test]
    fn sources_are_what_people_wrote() {
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
        let mut found = sources(root.path()).unwrap();
        found.retain(|path| path.is_file());
        found.sort();
        let names = ["chat.html", "src/chat/a.svelte"].map(|name| root.path().join(name));
        assert_eq!(found, names);
    }
}
