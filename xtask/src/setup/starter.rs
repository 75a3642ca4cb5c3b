//! The starter model as a GGUF file, for machines without a GPU for MLX, where llama.cpp is more
//! than ten times faster. It is converted from the folder in the repository and ignored by git.

use std::path::{Path, PathBuf};

use transom_catalog::test_support::convert::{Quantization, convert};

use crate::cache;
use crate::problem::Problem;
use crate::process;
use crate::progress;

const FILE: &str = "assets/starter/starter.gguf";

/// The weights are 4-bit in groups, which Q4_1 stores without loss.
const PACKING: Quantization = Quantization::Q4_1;

/// Writes the file if it is missing or out of date.
pub(crate) fn write() -> Result<(), Problem> {
    let file = process::workspace().join(FILE);
    let writer = std::env::current_exe()
        .map_err(|error| Problem::new(format!("could not find the running program: {error}")))?;
    if is_current(&file, &writer) {
        return Ok(());
    }
    progress::step("Writing the starter model as GGUF", || {
        let folder = file.parent().unwrap_or(&file);
        convert(folder, &file, PACKING)
            .map_err(|error| Problem::new(format!("could not write {}: {error}", file.display())))
    })
}

/// Returns true if the file is newer than its sources and than the program that converts them.
fn is_current(file: &Path, writer: &Path) -> bool {
    sources(file).is_ok_and(|mut sources| {
        sources.push(writer.to_owned());
        cache::is_newer(file, &sources)
    })
}

/// Returns the other files of its folder.
fn sources(file: &Path) -> Result<Vec<PathBuf>, Problem> {
    let mut sources = cache::entries(file.parent().unwrap_or(file))?;
    sources.retain(|path| path.is_file() && path != file);
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    /// Creates files of the given age in seconds.
    fn aged(folder: &Path, files: &[(&str, u64)]) {
        for (name, age) in files {
            let file = File::create(folder.join(name)).unwrap();
            let time = SystemTime::now() - Duration::from_secs(*age);
            file.set_modified(time).unwrap();
        }
    }

    #[test]
    fn the_file_is_written_again_when_a_source_or_the_converter_is_newer() {
        let root = tempfile::tempdir().unwrap();
        let starter = root.path().join("starter");
        fs::create_dir(&starter).unwrap();
        let (file, writer) = (starter.join("starter.gguf"), root.path().join("xtask"));
        let check = |expect| assert_eq!(is_current(&file, &writer), expect);

        aged(root.path(), &[("xtask", 90)]);
        aged(&starter, &[("config.json", 80), ("model.safetensors", 70)]);
        check(false);
        aged(&starter, &[("starter.gguf", 60)]);
        check(true);
        aged(&starter, &[("config.json", 50)]);
        check(false);
        aged(&starter, &[("starter.gguf", 40)]);
        check(true);
        aged(root.path(), &[("xtask", 30)]);
        check(false);
    }
}
