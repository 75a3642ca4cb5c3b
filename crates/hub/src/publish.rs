//! Moves a complete model from the parts folder to its final folder.
//!
//! Rule: programs that list models never see an incomplete one. A new folder appears in one step.
//! In an existing folder, the file that makes it a model (`config.json`, or the first GGUF file)
//! moves last; an old version of it is removed first. An interrupted move can be continued.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::HubError;
use crate::disk::{disk_error, is_full, sync_folder};
use crate::plan::Plan;

/// Moves all verified files to the model's folder. Blocks.
pub(crate) fn publish(parts: &Path, plan: &Plan) -> Result<(), HubError> {
    let whole = parts.join("whole");
    let folder = &plan.request.folder;
    let at = |error: io::Error| disk_error(folder, &error);
    let mut moves: Vec<(PathBuf, PathBuf)> = plan
        .files
        .iter()
        .map(|file| (Plan::verified_path(parts, file), plan.final_path(file)))
        .filter(|(from, _)| from.exists())
        .collect();
    let above = folder.parent().unwrap_or(folder);
    fs::create_dir_all(above).map_err(at)?;
    if moves.len() == plan.files.len() && !folder.exists() && fs::rename(&whole, folder).is_ok() {
        return sync_folder(above).map_err(at);
    }
    fs::create_dir_all(folder).map_err(at)?;
    moves.sort_by_key(|(_, to)| move_order(to));
    if let [_, .., (_, last)] = &*moves
        && last.exists()
    {
        fs::remove_file(last).map_err(|error| disk_error(last, &error))?;
    }
    for (from, to) in &moves {
        move_file(from, to)?;
    }
    sync_folder(folder).map_err(at)
}

/// Returns the order of moves: other files first, then the weights, then the file that makes the
/// folder a model.
fn move_order(path: &Path) -> (u8, std::cmp::Reverse<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let place = match &*name {
        "config.json" => 3,
        name if name.ends_with(".gguf") => 2,
        name if name.ends_with(".safetensors") => 1,
        _ => 0,
    };
    // Of split files, the first moves last, because programs open that one.
    (place, std::cmp::Reverse(path.to_owned()))
}

fn move_file(from: &Path, to: &Path) -> Result<(), HubError> {
    let at = |error: io::Error| disk_error(to, &error);
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).map_err(at)?;
    match fs::rename(from, to) {
        Ok(()) => sync_folder(folder).map_err(at),
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy(from, to),
        Err(error) => Err(at(error)),
    }
}

/// Copies to another disk, under a hidden name until the copy is complete.
fn copy(from: &Path, to: &Path) -> Result<(), HubError> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let folder = to.parent().unwrap_or(to);
    let partial = folder.join(format!(".{name}.coming"));
    let copied = fs::copy(from, &partial)
        .and_then(|_| fs::File::open(&partial)?.sync_all())
        .and_then(|()| fs::rename(&partial, to))
        .and_then(|()| sync_folder(folder));
    if let Err(error) = copied {
        let _ = fs::remove_file(&partial);
        if is_full(&error) {
            let space = rustix::fs::statvfs(folder);
            return Err(HubError::DiskFull {
                folder: folder.to_owned(),
                needed_bytes: fs::metadata(from).map_or(0, |metadata| metadata.len()),
                free_bytes: space.map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize)),
            });
        }
        return Err(disk_error(to, &error));
    }
    fs::remove_file(from).map_err(|error| disk_error(from, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DownloadRequest;
    use crate::digest::Digest;
    use crate::part_file::FileIdentity;

    fn plan(folder: &Path, names: &[&str]) -> Plan {
        Plan {
            request: DownloadRequest {
                key: "k".to_owned(),
                name: "n".to_owned(),
                repository: "o/n".to_owned(),
                revision: "main".to_owned(),
                files: Vec::new(),
                folder: folder.to_owned(),
            },
            commit: "c".to_owned(),
            files: names
                .iter()
                .map(|name| FileIdentity {
                    name: (*name).to_owned(),
                    size_bytes: 1,
                    digest: Digest::Sha256(String::new()),
                })
                .collect(),
        }
    }

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_new_model_appears_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let (parts, folder) = (folder.path().join("p"), folder.path().join("owner/name"));
        put(&parts.join("whole/config.json"), "new");
        put(&parts.join("whole/sub/a.gguf"), "new");
        publish(&parts, &plan(&folder, &["config.json", "sub/a.gguf"])).unwrap();
        assert_eq!(
            fs::read_to_string(folder.join("sub/a.gguf")).unwrap(),
            "new"
        );
        assert!(!parts.join("whole").exists());
    }

    #[test]
    fn an_interrupted_move_continues_and_keeps_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let (parts, folder) = (folder.path().join("p"), folder.path().join("m"));
        put(&folder.join("mine.txt"), "mine");
        put(&folder.join("b.safetensors"), "moved before");
        put(&parts.join("whole/config.json"), "new");
        publish(&parts, &plan(&folder, &["config.json", "b.safetensors"])).unwrap();
        for (name, text) in [
            ("mine.txt", "mine"),
            ("b.safetensors", "moved before"),
            ("config.json", "new"),
        ] {
            assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), text);
        }
    }

    #[test]
    fn the_file_that_makes_it_a_model_moves_last() {
        let mut names = [
            "config.json",
            "m-00001-of-00002.gguf",
            "tokenizer.json",
            "m-00002-of-00002.gguf",
            "model.safetensors",
        ];
        names.sort_by_key(|name| move_order(Path::new(name)));
        assert_eq!(
            names,
            [
                "tokenizer.json",
                "model.safetensors",
                "m-00002-of-00002.gguf",
                "m-00001-of-00002.gguf",
                "config.json"
            ]
        );
    }

    #[test]
    fn an_incomplete_replacement_has_no_config() {
        let folder = tempfile::tempdir().unwrap();
        let (parts, folder) = (folder.path().join("p"), folder.path().join("m"));
        put(&folder.join("config.json"), "old");
        // A folder with the name of a file makes the move fail midway.
        fs::create_dir_all(folder.join("model.safetensors/x")).unwrap();
        put(&parts.join("whole/config.json"), "new");
        put(&parts.join("whole/model.safetensors"), "new");
        let plan = plan(&folder, &["config.json", "model.safetensors"]);
        assert!(publish(&parts, &plan).is_err());
        assert!(
            !folder.join("config.json").exists(),
            "half a model is no model"
        );
        fs::remove_dir_all(folder.join("model.safetensors")).unwrap();
        publish(&parts, &plan).unwrap();
        assert_eq!(
            fs::read_to_string(folder.join("config.json")).unwrap(),
            "new"
        );
    }

    #[test]
    fn a_copy_to_another_disk_is_hidden_until_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("m/b"));
        put(&from, "text");
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "text");
        assert!(!from.exists());
        assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1);
    }
}
