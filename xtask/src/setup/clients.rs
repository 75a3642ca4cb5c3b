//! The official Python clients of OpenAI, Anthropic and Ollama, which drive `transom serve` in a test.
//!
//! pip unpacks them into a folder of the cache, checked against the SHA-256 in
//! `crates/cli/tests/fixtures/clients/requirements.txt`. Nothing is installed into any Python. Rule:
//! the folder is complete and has the requirements that it was made from, which the test compares.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cache::{self, Cache};
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::wheel;

/// The folder in the cache. The test looks for this name beside the MLX of this machine.
const FOLDER: &str = "python-clients";

/// The file in the folder with the requirements that it was made from.
const MADE_FROM: &str = "requirements.txt";

const REQUIREMENTS: &str = "crates/cli/tests/fixtures/clients/requirements.txt";

/// A program that ends without an error if this Python can use the clients: it imports the parts that
/// are compiled for one version of Python.
const IMPORTS: &str = "import jiter, pydantic_core";

/// A program that ends without an error if this Python is new enough for the clients.
const IS_NEW_ENOUGH: &str = "import sys; sys.exit(sys.version_info < (3, 11))";

/// Unpacks the clients unless they are there. With an older Python, as on a Mac, it does nothing, and
/// the test is skipped.
pub(crate) fn unpack(cache: &Cache) -> Result<(), Problem> {
    if !process::succeeds("python3", &["-c", IS_NEW_ENOUGH]) {
        return Ok(());
    }
    let requirements = process::workspace().join(REQUIREMENTS);
    let wanted = fs::read(&requirements).map_err(Problem::io("read", &requirements))?;
    let folder = cache.folder.join(FOLDER);
    if is_current(&folder, &wanted) && import(&folder).is_ok() {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Problem::io("clear", &folder))?;
    }
    cache.get_or_build_folder(FOLDER, |part| {
        progress::step("Downloading the Python clients for a test", || {
            let mut pip = wheel::pip()?;
            pip.args(["install", "--require-hashes", "--no-deps"])
                .args(["--only-binary=:all:", "--disable-pip-version-check"])
                .args(["--retries", "2"])
                .arg("--requirement")
                .arg(&requirements)
                .arg("--target")
                .arg(part)
                .env("PIP_REQUIRE_VIRTUALENV", "false")
                .env("PIP_USER", "false");
            let action = "download the Python clients";
            process::run_logged(&mut pip, action, &cache.log("clients"))?;
            import(part)?;
            cache::write_atomically(&part.join(MADE_FROM), &wanted)
        })
    })?;
    Ok(())
}

/// Returns true if the folder was made from these requirements.
fn is_current(folder: &Path, wanted: &[u8]) -> bool {
    fs::read(folder.join(MADE_FROM)).is_ok_and(|made_from| made_from == wanted)
}

/// Checks that this Python can use the clients in a folder, without the packages that it has itself.
fn import(folder: &Path) -> Result<(), Problem> {
    let mut python = Command::new("python3");
    python.args(["-S", "-c", IMPORTS]).env("PYTHONPATH", folder);
    process::output_of(&mut python, "use the Python clients").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_requirements_make_a_folder_old() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_current(folder.path(), b"openai==1"), "nothing is there");
        fs::write(folder.path().join(MADE_FROM), "openai==1").unwrap();
        assert!(is_current(folder.path(), b"openai==1"));
        assert!(!is_current(folder.path(), b"openai==2"));
    }

    #[test]
    fn a_folder_without_the_clients_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(import(folder.path()).is_err());
    }

    #[test]
    fn every_requirement_has_a_version_and_a_checksum() {
        let path = process::workspace().join(REQUIREMENTS);
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let mut n_packages = 0;
        for (number, line) in lines.iter().enumerate() {
            if line.starts_with(' ') {
                assert!(line.starts_with("    --hash=sha256:"), "{line}");
            } else {
                n_packages += 1;
                assert!(line.contains("==") && line.ends_with('\\'), "{line}");
                assert!(lines[number + 1].starts_with(' '), "{line}");
            }
        }
        assert!(n_packages > 3);
    }
}
