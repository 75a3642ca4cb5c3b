//! Deletes downloaded models.
//!
//! Rule: only files in the models folder of the data folder are deleted, and no link out of it is
//! followed. Freed bytes are those that the disk really frees: a file with another name elsewhere
//! frees nothing.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{App, InstalledModel, Origin, Places};
use crate::model_files;
use crate::weight_files;

/// The files that removing a model deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Absolute paths of the files to delete, the weights first.
    pub files: Vec<PathBuf>,
    /// Bytes on the disk that this frees.
    pub bytes: u64,
}

/// Why a model was not removed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum RemoveError {
    /// The model came with the program.
    #[error("{name} came with the program and stays with it")]
    Starter { name: String },
    /// The model is in a folder of the user.
    #[error(
        "{name} is in {path}, which you added; take that off the list instead, the files are yours"
    )]
    Added { name: String, path: PathBuf },
    /// The model belongs to another app.
    #[error("{name} belongs to {}; remove it there", .app.name())]
    OtherApp { name: String, app: App },
    /// The models folder contains only a link to the model.
    #[error("{path} is not in the models folder, only a link to it; remove the link yourself")]
    Outside { path: PathBuf },
    /// The model no longer exists.
    #[error("{path} no longer exists")]
    Gone { path: PathBuf },
    /// The system refused.
    #[error("{path} could not be removed: {reason}; {freed_bytes} bytes were freed before that")]
    Failed {
        path: PathBuf,
        reason: String,
        freed_bytes: u64,
    },
}

/// Returns what [`remove`] would delete, for a confirmation.
///
/// # Errors
/// Those of [`remove`]; nothing is deleted.
pub fn removal(model: &InstalledModel, places: &Places) -> Result<Removal, RemoveError> {
    let name = model.name().to_owned();
    match &model.origin {
        Origin::Starter => return Err(RemoveError::Starter { name }),
        Origin::Added { path } => {
            let path = path.clone();
            return Err(RemoveError::Added { name, path });
        }
        Origin::OtherApp { app } => return Err(RemoveError::OtherApp { name, app: *app }),
        Origin::ModelsFolder => {}
    }
    let root = places.models_folder();
    let outside = |path: &Path| RemoveError::Outside {
        path: path.to_owned(),
    };
    let root = root.ok_or_else(|| outside(&model.id))?;
    let mut files = Vec::new();
    for path in &model.files.paths {
        if !path.starts_with(&root) || *path == root {
            return Err(outside(path));
        }
        match path.is_dir() {
            true => add_folder(path, model, &mut files),
            false => {
                let parts = weight_files::parts(path).into_iter();
                files.extend(parts.filter(|part| part.symlink_metadata().is_ok()));
            }
        }
    }
    if files.is_empty() {
        let path = model.id.clone();
        return Err(RemoveError::Gone { path });
    }
    add_companions(&root, model, &mut files);
    files.sort();
    files.dedup();
    // If deleting fails half-way, the remaining files are still a model, so that it can be deleted.
    files.sort_by_key(|file| !weight_files::is_weights(file));
    let bytes = allocated_bytes(&files);
    Ok(Removal { files, bytes })
}

/// Deletes a model with all its variants and parts, and its folders if they are empty then. Returns the
/// bytes on the disk that this freed. If a program has the model loaded, they become free when it
/// unloads the model.
///
/// The part files of an unfinished download stay until that download is canceled.
///
/// # Errors
/// [`RemoveError`] for a model that is not ours to delete, or if the system refuses.
pub fn remove(model: &InstalledModel, places: &Places) -> Result<u64, RemoveError> {
    let removal = removal(model, places)?;
    for (n_removed, path) in removal.files.iter().enumerate() {
        let error = match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => error,
            _ => continue,
        };
        let left = allocated_bytes(&removal.files[n_removed..]);
        return Err(RemoveError::Failed {
            path: path.clone(),
            reason: error.to_string(),
            freed_bytes: removal.bytes.saturating_sub(left),
        });
    }
    if let Some(root) = places.models_folder() {
        let folders = removal.files.iter().filter_map(|file| file.parent());
        folders.for_each(|folder| remove_empty(folder, &root));
    }
    Ok(removal.bytes)
}

/// Adds all files of a model's folder, except GGUF files that are other models.
fn add_folder(folder: &Path, model: &InstalledModel, files: &mut Vec<PathBuf>) {
    let is_other = |path: &PathBuf| {
        let others = model_files::gguf_models(folder).into_iter();
        let mut others = others.filter(|other| !model.files.paths.contains(other));
        others.any(|other| weight_files::parts(&other).contains(path))
    };
    let all = all_files(folder).into_iter();
    files.extend(all.filter(|path| !weight_files::is_gguf(path) || !is_other(path)));
}

/// Adds the files that were downloaded with a GGUF file, if its repository has no other weights left.
fn add_companions(root: &Path, model: &InstalledModel, files: &mut Vec<PathBuf>) {
    let Some(repository) = &model.repository else {
        return;
    };
    let folder = root.join(repository);
    let left = all_files(&folder).into_iter();
    let left: Vec<PathBuf> = left.filter(|path| !files.contains(path)).collect();
    if left.iter().all(|path| is_companion(path)) {
        files.extend(left);
    }
}

/// Returns true for files that are useful only with weights. Other files of the user stay.
fn is_companion(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let ends = [".json", ".md", ".jinja", ".part", ".incomplete"];
    let names = [
        "license",
        "licence",
        "use_policy",
        "notice",
        ".gitattributes",
        ".ds_store",
    ];
    ends.iter().any(|end| name.ends_with(end))
        || names.iter().any(|start| name.starts_with(start))
        || (name.starts_with("mmproj") && name.ends_with(".gguf"))
}

/// Returns the files and links in `folder` and its subfolders. Links to folders are not followed.
fn all_files(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut files = Vec::new();
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(all_files(&entry.path())),
            _ => files.push(entry.path()),
        }
    }
    files
}

/// Returns the bytes that deleting `files` frees. A file with several names counts if all are deleted.
fn allocated_bytes(files: &[PathBuf]) -> u64 {
    let mut by_file: HashMap<(u64, u64), (u64, u64, u64)> = HashMap::new();
    for path in files {
        // The metadata of the link itself, not of its target.
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        let (file, n_names, bytes) = on_disk(&metadata);
        let counted = by_file.entry(file).or_insert((0, n_names, bytes));
        counted.0 += 1;
    }
    let freed = by_file
        .values()
        .filter(|(n_gone, n_names, _)| n_gone >= n_names);
    freed.map(|(.., bytes)| bytes).sum()
}

/// Returns the identity of a file, its number of names, and its bytes on the disk.
fn on_disk(metadata: &Metadata) -> ((u64, u64), u64, u64) {
    /// The unit of `blocks` on every file system.
    const BLOCK_BYTES: u64 = 512;
    let file = (metadata.dev(), metadata.ino());
    (file, metadata.nlink(), metadata.blocks() * BLOCK_BYTES)
}

/// Deletes `folder` and the folders above it, up to `root`, while they are empty.
fn remove_empty(folder: &Path, root: &Path) {
    let folders = folder.ancestors();
    for folder in folders.take_while(|folder| folder.starts_with(root) && *folder != root) {
        // Finder creates these files in every folder that it has shown.
        let only: Vec<PathBuf> = weight_files::paths_in(folder).collect();
        if let [one] = only.as_slice()
            && one.ends_with(".DS_Store")
        {
            let _ = fs::remove_file(one);
        }
        // The system refuses to delete a folder that is not empty, which is correct.
        if fs::remove_dir(folder).is_err() && folder.exists() {
            return;
        }
    }
}
