//! The starter model as a GGUF file, for machines without a GPU for MLX, where llama.cpp is more
//! than ten times faster. It is converted from the folder in the repository and ignored by git.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use transom_catalog::convert::{Quantization, convert};

use crate::problem::Problem;
use crate::process;
use crate::progress::Step;

/// Path of the file in the workspace.
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
    let step = Step::start("Writing the starter model as GGUF");
    let folder = file.parent().unwrap_or(&file);
    convert(folder, &file, PACKING, &mut |_, _| {})
        .map_err(|error| Problem::new(format!("could not write {}: {error}", file.display())))?;
    step.done();
    Ok(())
}

/// Returns true if the file is newer than its sources and than the program that converts them.
fn is_current(file: &Path, writer: &Path) -> bool {
    let newest = sources(file).map(|sources| {
        let times = sources.iter().map(|path| modified(path));
        times
            .chain([modified(writer)])
            .collect::<io::Result<Vec<_>>>()
    });
    match (modified(file), newest) {
        (Ok(written), Ok(Ok(times))) => times.iter().all(|time| *time < written),
        _ => false,
    }
}

/// Returns the other files of its folder.
fn sources(file: &Path) -> io::Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(file.parent().unwrap_or(file))? {
        let path = entry?.path();
        if path.is_file() && path != file {
            sources.push(path);
        }
    }
    Ok(sources)
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;

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
