//! Lists the files of folders, and tells files with weights by their names.

use std::path::{Path, PathBuf};

use transom_files::has_extension;

/// Returns the files of a folder; none if it can't be read, which the engine will report.
pub(crate) fn files_of(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    paths_in(folder).filter(|path| path.is_file())
}

/// Returns the paths of everything in a folder; none if it can't be read.
pub(crate) fn paths_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

pub(crate) fn is_weights(path: &Path) -> bool {
    is_gguf(path) || is_ollama_blob(path) || has_extension(path, "safetensors")
}

/// Returns the name before the number, and the number, of a part like `model-00002-of-00003.gguf`.
pub(crate) fn part_of(path: &Path) -> Option<(&str, u32)> {
    let stem = path.file_stem()?.to_str().filter(|_| is_gguf(path))?;
    let (rest, n_parts) = stem.rsplit_once("-of-")?;
    let (base, number) = rest.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let number = number.parse().ok().filter(|_| is_number(number))?;
    is_number(n_parts).then_some((base, number))
}

/// Returns the existing parts, by their names, of the split model whose first part is at `path`; else
/// only `path`.
pub(crate) fn parts(path: &Path) -> Vec<PathBuf> {
    let Some((base, _)) = part_of(path) else {
        return vec![path.to_owned()];
    };
    let siblings = path.parent().into_iter().flat_map(paths_in);
    let is_part = |file: &PathBuf| part_of(file).is_some_and(|(other, _)| other == base);
    siblings.filter(is_part).collect()
}

pub(crate) fn is_gguf(path: &Path) -> bool {
    has_extension(path, "gguf")
}

/// Returns true for a name that Ollama gives to files. Those with weights are GGUF files.
pub(crate) fn is_ollama_blob(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let digest = name.and_then(|name| name.strip_prefix("sha256-"));
    digest.is_some_and(|digest| {
        digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
