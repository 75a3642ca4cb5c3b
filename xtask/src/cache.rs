//! The cache folder with everything that setup downloads and builds.
//!
//! `native/downloads` has the downloaded files, `native/<MLX version>-<recipe>` the results made
//! from them, and `native/ccache` is the cache of ccache for llama.cpp. The recipe is a hash of
//! everything that affects the result, so a changed flag or version uses a new folder. Rule: every
//! entry is complete, because it is built under another name and then renamed.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::problem::Problem;
use crate::progress;

/// The open cache. It holds a lock, so only one setup runs at a time.
pub(crate) struct Cache {
    /// The results of this recipe.
    pub(crate) folder: PathBuf,
    pub(crate) downloads: PathBuf,
    /// The folder of ccache, which creates it.
    pub(crate) ccache: PathBuf,
    logs: PathBuf,
    _lock: File,
}

impl Cache {
    pub(crate) fn open(version: &str, recipe: &str) -> Result<Self, Problem> {
        let base = base_folder(|name| env::var_os(name).filter(|value| !value.is_empty()))?;
        Self::open_at(&base, version, recipe)
    }

    fn open_at(base: &Path, version: &str, recipe: &str) -> Result<Self, Problem> {
        let native = base.join("native");
        let cache = Self {
            folder: native.join(format!("{version}-{recipe}")),
            downloads: native.join("downloads"),
            ccache: native.join("ccache"),
            logs: native.join("logs"),
            _lock: {
                make_folder(&native)?;
                lock(&native.join("lock"))?
            },
        };
        for folder in [&cache.folder, &cache.downloads, &cache.logs] {
            make_folder(folder)?;
        }
        Ok(cache)
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// Returns the folder `name`. If it does not exist, `build` fills a new folder, which gets the
    /// name only if `build` succeeds.
    pub(crate) fn get_or_build_folder(
        &self,
        name: &str,
        build: impl FnOnce(&Path) -> Result<(), Problem>,
    ) -> Result<PathBuf, Problem> {
        let folder = self.folder.join(name);
        if folder.is_dir() {
            return Ok(folder);
        }
        let part = self.folder.join(format!("{name}.part"));
        make_empty_folder(&part)?;
        build(&part)?;
        rename(&part, &folder)?;
        Ok(folder)
    }
}

/// Writes a file so that it is either missing or complete.
pub(crate) fn write_atomically(path: &Path, contents: &[u8]) -> Result<(), Problem> {
    let part = path.with_added_extension("part");
    fs::write(&part, contents).map_err(Problem::io("write", &part))?;
    rename(&part, path)
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), Problem> {
    fs::rename(from, to).map_err(Problem::io("finish", to))
}

pub(crate) fn make_folder(path: &Path) -> Result<(), Problem> {
    fs::create_dir_all(path).map_err(Problem::io("make the folder", path))
}

/// Makes a folder, without what an interrupted setup left in it.
pub(crate) fn make_empty_folder(path: &Path) -> Result<(), Problem> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(Problem::io("clear", path))?;
    }
    make_folder(path)
}

/// Returns the paths in a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<io::Result<Vec<_>>>()
    });
    let mut paths = entries.map_err(Problem::io("read", folder))?;
    paths.sort();
    Ok(paths)
}

/// Returns every file below a folder, or the path itself if it is a file.
pub(crate) fn files_below(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for path in entries(path)? {
        files.extend(files_below(&path)?);
    }
    Ok(files)
}

/// Returns the Rust files below a path.
pub(crate) fn rust_files(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    let mut files = files_below(path)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    Ok(files)
}

/// Returns true if `result` exists and no file in `from` is newer.
pub(crate) fn is_newer(result: &Path, from: &[PathBuf]) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|about| about.modified());
    let is_older = |path: &PathBuf, than| modified(path).is_ok_and(|time| time <= than);
    modified(result).is_ok_and(|built| from.iter().all(|path| is_older(path, built)))
}

/// Makes a program executable, because Python's zipfile does not restore permissions.
pub(crate) fn make_executable(program: &Path) -> Result<(), Problem> {
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
        .map_err(Problem::io("make executable", program))
}

/// Returns the SHA-256 of a file in lowercase hex, as package indexes publish it.
pub(crate) fn sha256(path: &Path) -> Result<String, Problem> {
    let bytes = fs::read(path).map_err(Problem::io("read", path))?;
    Ok(hex(&Sha256::digest(&bytes)))
}

/// Returns a short hash of the parts of a recipe, whose order counts.
pub(crate) fn recipe_hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize()[..6])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base_folder(var: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Problem> {
    let home = || {
        var("HOME").map(PathBuf::from).ok_or_else(|| {
            Problem::new("HOME is not set; set it, or set TRANSOM_NATIVE_CACHE to a folder")
        })
    };
    let folder = if let Some(folder) = var("TRANSOM_NATIVE_CACHE") {
        PathBuf::from(folder)
    } else if cfg!(target_os = "macos") {
        home()?.join("Library/Caches/transom")
    } else if let Some(folder) = var("XDG_CACHE_HOME") {
        PathBuf::from(folder).join("transom")
    } else {
        home()?.join(".cache/transom")
    };
    let folder =
        std::path::absolute(&folder).map_err(Problem::io("find the cache folder", &folder))?;
    // The path is used in linker arguments, where a comma is a separator, and in a TOML file.
    match folder.to_str() {
        Some(text) if !text.contains(',') => Ok(folder),
        _ => Err(Problem::new(format!(
            "the cache folder {} must be UTF-8 without commas; set TRANSOM_NATIVE_CACHE",
            folder.display()
        ))),
    }
}

/// Locks the cache, after waiting for another setup. The system releases the lock when this process
/// ends.
fn lock(path: &Path) -> Result<File, Problem> {
    let file = File::create(path).map_err(Problem::io("write", path))?;
    if file.try_lock().is_err() {
        progress::say("  waiting for another setup to finish …");
        file.lock().map_err(Problem::io("lock", path))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(base: &Path) -> Cache {
        Cache::open_at(base, "1.2.3", "abc").unwrap()
    }

    #[test]
    fn an_interrupted_folder_is_built_again_and_a_complete_one_is_reused() {
        let base = tempfile::tempdir().unwrap();
        let cache = cache(base.path());
        let interrupted = cache.get_or_build_folder("wheel", |part| {
            fs::write(part.join("half"), "x").unwrap();
            Err(Problem::new("interrupted"))
        });
        assert!(interrupted.is_err());
        assert!(!cache.folder.join("wheel").exists());

        let folder = cache.get_or_build_folder("wheel", |part| {
            assert_eq!(
                fs::read_dir(part).unwrap().count(),
                0,
                "leftovers are cleared"
            );
            write_atomically(&part.join("whole"), b"y")
        });
        let folder = folder.unwrap();
        assert!(folder.join("whole").is_file());

        let again =
            cache.get_or_build_folder("wheel", |_| Err(Problem::new("must not build twice")));
        assert_eq!(again.unwrap(), folder);
    }

    #[test]
    fn every_part_changes_the_recipe_hash() {
        let hash = recipe_hash(["-O2", "shim"]);
        assert_eq!(hash, recipe_hash(["-O2", "shim"]));
        assert_ne!(hash, recipe_hash(["-O3", "shim"]));
        assert_ne!(hash, recipe_hash(["-O2s", "him"]));
    }

    #[test]
    fn the_folder_follows_the_environment() {
        let with = |pairs: &'static [(&str, &str)]| {
            base_folder(move |name| {
                let pair = pairs.iter().find(|(key, _)| *key == name)?;
                Some(OsString::from(pair.1))
            })
        };
        let own = with(&[("TRANSOM_NATIVE_CACHE", "/own"), ("HOME", "/h")]);
        assert_eq!(own.unwrap(), Path::new("/own"));
        assert!(with(&[("HOME", "/h")]).unwrap().starts_with("/h"));
        assert!(
            with(&[])
                .unwrap_err()
                .to_string()
                .contains("HOME is not set")
        );
        let comma = with(&[("TRANSOM_NATIVE_CACHE", "/a,b")]).unwrap_err();
        assert!(comma.to_string().contains("without commas"));
    }

    #[test]
    fn the_checksum_covers_the_whole_file() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("abc");
        fs::write(&file, "abc").unwrap();
        // The test vector of FIPS 180-2, appendix B.1.
        assert_eq!(
            sha256(&file).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_program_can_be_made_executable() {
        use std::process::Command;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("cmake");
        fs::write(&program, "#!/bin/sh\necho cmake\n").unwrap();
        assert!(Command::new(&program).output().is_err());
        make_executable(&program).unwrap();
        let text = crate::process::output_of(&mut Command::new(&program), "run it").unwrap();
        assert_eq!(text, "cmake\n");
    }
}
