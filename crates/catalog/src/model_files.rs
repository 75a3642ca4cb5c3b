//! Finds the files of a model: a folder of safetensors, GGUF files, or both.
//!
//! Each path that an engine can load is a variant of the model.
//!
//! Rule: files are variants of one model only if their headers say so. A folder with several models
//! is an error that names them; none is guessed.

use std::path::{Path, PathBuf};

use transom_files::{file_name, has_extension};

use crate::facts::{Format, ModelFacts, gguf_architecture};
use crate::facts_cache;
use crate::file_error::{Fault, FaultCode, FileError};
use crate::weight_files::{files_of, is_gguf, is_ollama_blob, part_of, paths_in};

/// A model's name and the paths of its variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// Name of the folder or file, without an extension or the number of a part.
    pub name: String,
    /// Absolute paths that an engine can load; never empty. For a split model the first part.
    pub paths: Vec<PathBuf>,
}

/// Returns the files of the model at `path`.
///
/// A path at which nothing exists is its own only variant: the engine reports what is missing.
///
/// # Errors
/// [`FaultCode::SeveralModels`] for a folder with several models, with their names.
pub fn of(path: &Path) -> Result<ModelFiles, FileError> {
    let path = absolute(path);
    if !path.is_dir() {
        return Ok(ModelFiles::of_file(first_part(&path)));
    }
    if is_safetensors_folder(&path) {
        return Ok(ModelFiles::of_folder(path));
    }
    match gguf_models(&path).as_slice() {
        [] => Ok(ModelFiles {
            name: name_of(&path),
            paths: vec![path],
        }),
        [file] => Ok(ModelFiles::of_file(file.clone())),
        several => {
            let names = several.iter().filter_map(|file| file.file_name());
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            let names = names.join(", ");
            let reason = format!("several models; name one of them: {names}");
            Err(Fault::with_value(FaultCode::SeveralModels, names, reason).in_file(&path))
        }
    }
}

impl ModelFiles {
    /// Returns the files of a GGUF model, which has no other variant.
    pub(crate) fn of_file(path: PathBuf) -> Self {
        let name = match part_of(&path) {
            Some((base, _)) => base.to_owned(),
            None if is_gguf(&path) => stem_of(&path),
            None => name_of(&path),
        };
        let paths = vec![path];
        Self { name, paths }
    }

    /// Returns the files of a safetensors folder, with the GGUF files in it that are the same model.
    pub(crate) fn of_folder(path: PathBuf) -> Self {
        let mut files = gguf_models(&path);
        retain_same(&path, &mut files);
        Self {
            name: name_of(&path),
            paths: std::iter::once(path).chain(files).collect(),
        }
    }
}

/// Returns the format of the files at `path`, by its name.
pub fn format_of(path: &Path) -> Format {
    match is_gguf(path) || is_ollama_blob(path) {
        true => Format::Gguf,
        false => Format::Safetensors,
    }
}

/// Returns true for a GGUF file, and for a folder with one or with the configuration of a model. The
/// user may expect that it can be used, and wants to know if not.
pub fn looks_like_a_model(path: &Path) -> bool {
    is_gguf(path) || path.join("config.json").is_file() || paths_in(path).any(|file| is_gguf(&file))
}

/// Returns the absolute path. Links are resolved, except the last name of a file: a download cache
/// keeps files under other names, with links to them.
pub fn absolute(path: &Path) -> PathBuf {
    let whole = || std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    if path.is_dir() {
        return path.canonicalize().unwrap_or_else(|_| whole());
    }
    let whole = whole();
    match (whole.parent().map(Path::canonicalize), whole.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => whole,
    }
}

pub(crate) fn is_safetensors_folder(folder: &Path) -> bool {
    folder.join("config.json").is_file()
        && files_of(folder).any(|file| has_extension(&file, "safetensors"))
}

/// Returns the GGUF models of a folder by name; for a split model the first part.
pub(crate) fn gguf_models(folder: &Path) -> Vec<PathBuf> {
    let files = files_of(folder).filter(|file| is_gguf(file) && !is_projector(file));
    let mut models: Vec<PathBuf> = files
        .filter(|file| part_of(file).is_none_or(|(_, number)| number == 1))
        .collect();
    models.sort();
    models
}

/// Keeps only the files that are the folder's model in another format.
fn retain_same(folder: &Path, files: &mut Vec<PathBuf>) {
    if files.is_empty() {
        return;
    }
    match facts_cache::facts(folder) {
        Ok(own) => {
            files.retain(|file| facts_cache::facts(file).is_ok_and(|other| are_same(&own, &other)));
        }
        // It is unknown what the folder's model is.
        Err(_) => files.clear(),
    }
}

/// Returns true if two headers describe the same model. The number of parameters doesn't count,
/// because quantization and tied weights change it.
fn are_same(one: &ModelFacts, other: &ModelFacts) -> bool {
    let shape = |facts: &ModelFacts| (facts.n_layers, facts.n_heads, facts.key_length);
    gguf_architecture(&one.architecture) == gguf_architecture(&other.architecture)
        && shape(one) == shape(other)
        && one.n_kv_heads == other.n_kv_heads
        && one.vocab_size == other.vocab_size
}

/// Returns the first part of the split model that `path` belongs to, if it exists; else `path`.
fn first_part(path: &Path) -> PathBuf {
    let first = part_of(path).and_then(|(base, _)| {
        let name = path.file_name()?.to_str()?;
        let n_parts = name.rsplit_once("-of-")?.1;
        Some(path.with_file_name(format!("{base}-00001-of-{n_parts}")))
    });
    first
        .filter(|first| first.is_file())
        .unwrap_or_else(|| path.to_owned())
}

/// Returns true for a projector, which turns images into tokens for another model.
fn is_projector(path: &Path) -> bool {
    stem_of(path).starts_with("mmproj")
}

fn stem_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn name_of(path: &Path) -> String {
    // In a download cache the folder has the name of a commit, which says nothing to people.
    match cached_repository(path.parent()) {
        Some(repository) => repository.rsplit('/').next().unwrap_or_default().to_owned(),
        None => file_name(path),
    }
}

/// Returns `owner/name` if `folder` is the snapshots folder of a repository in the Hugging Face cache:
/// `models--owner--name/snapshots`.
pub(crate) fn cached_repository(folder: Option<&Path>) -> Option<String> {
    let folder = folder.filter(|folder| folder.ends_with("snapshots"))?;
    let name = folder.parent()?.file_name()?.to_str()?;
    let name = name
        .strip_prefix("models--")
        .filter(|name| !name.is_empty())?;
    // Names on the hub never contain two dashes in a row, so this is unambiguous.
    Some(name.replacen("--", "/", 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Creates empty files in a folder called `Model` and returns the variants of `path` in it.
    fn variants(files: &[&str], path: &str) -> Result<(String, Vec<String>), FileError> {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("Model");
        fs::create_dir(&folder).unwrap();
        for file in files {
            fs::write(folder.join(file), "").unwrap();
        }
        let files = of(&folder.join(path))?;
        let paths = files.paths.iter().map(|path| {
            let below = path.strip_prefix(folder.canonicalize().unwrap());
            below.unwrap().to_str().unwrap().to_owned()
        });
        Ok((files.name, paths.collect()))
    }

    #[track_caller]
    fn check(files: &[&str], path: &str, name: &str, paths: &[&str]) {
        let (found_name, found) = variants(files, path).unwrap();
        assert_eq!(
            (&*found_name, found),
            (name, paths.iter().map(|path| (*path).to_owned()).collect())
        );
    }

    #[test]
    fn a_file_is_its_only_variant_and_named_without_its_extension() {
        check(&["a-Q4_K_M.gguf", "b.gguf"], "b.gguf", "b", &["b.gguf"]);
        check(&["a.b.GGUF"], "a.b.GGUF", "a.b", &["a.b.GGUF"]);
        check(&[], "missing.gguf", "missing", &["missing.gguf"]);
    }

    #[test]
    fn any_part_of_a_split_model_finds_the_first() {
        let parts = ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf"];
        check(&parts, parts[1], "m", &parts[..1]);
        check(&parts, "", "m", &parts[..1]);
        check(&parts[1..], parts[1], "m", &parts[1..]);
        let no_part = "m-1-of-3.gguf";
        check(&[no_part], no_part, "m-1-of-3", &[no_part]);
    }

    #[test]
    fn a_folder_with_one_model_is_that_model_and_with_several_an_error() {
        check(
            &["a.gguf", "README.md", "mmproj-a.gguf"],
            "",
            "a",
            &["a.gguf"],
        );
        let error = variants(&["b.gguf", "a.gguf", "notes.txt"], "").unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("Model: several models; name one of them: a.gguf, b.gguf"),
            "{text}"
        );
    }

    #[test]
    fn a_folder_without_weights_is_left_to_the_engine() {
        check(&["README.md"], "", "Model", &[""]);
        check(&[], "nowhere", "nowhere", &["nowhere"]);
        check(&["config.json", "pytorch_model.bin"], "", "Model", &[""]);
    }

    #[test]
    fn a_gguf_file_of_another_model_is_no_variant_of_its_folder() {
        let files = ["config.json", "model.safetensors", "other.gguf"];
        check(&files, "", "Model", &[""]);
    }

    #[test]
    fn a_folder_in_a_cache_has_the_name_of_its_repository() {
        let root = tempfile::tempdir().unwrap();
        for (repository, name) in [("models--o--M-4bit", "M-4bit"), ("models--gpt2", "gpt2")] {
            let snapshot = root.path().join(repository).join("snapshots/0a1b");
            fs::create_dir_all(&snapshot).unwrap();
            fs::write(snapshot.join("config.json"), "{}").unwrap();
            assert_eq!(of(&snapshot).unwrap().name, name);
        }
        let own = root.path().join("models--o--M/own/0a1b");
        fs::create_dir_all(&own).unwrap();
        assert_eq!(of(&own).unwrap().name, "0a1b");
    }

    #[test]
    fn files_that_look_like_models_are_recognized() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!looks_like_a_model(folder.path()));
        for name in ["config.json", "Model.GGUF"] {
            let file = folder.path().join(name);
            fs::write(&file, "").unwrap();
            assert!(looks_like_a_model(folder.path()), "{name}");
            fs::remove_file(file).unwrap();
        }
        assert!(looks_like_a_model(Path::new("/a/Model.GGUF")));
        assert!(!looks_like_a_model(Path::new("/a/holiday.mov")));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_file_keeps_its_own_name() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::write(root.join("blob"), "").unwrap();
        let link = root.join("model.gguf");
        std::os::unix::fs::symlink("blob", &link).unwrap();
        assert_eq!(of(&link).unwrap().paths, [link]);
    }
}
