//! Paths in the home folder as people write them.

use std::path::{Path, PathBuf};

/// Returns a path for people, with `~` for the home folder.
pub fn tilde(path: &Path) -> String {
    let home = std::env::home_dir();
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Expands a leading `~/`, because no shell has expanded it.
pub fn expand_tilde(file: &str) -> PathBuf {
    match (file.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_tilde_is_the_home_folder() {
        let home = std::env::home_dir().unwrap();
        assert_eq!(expand_tilde("~/a.md"), home.join("a.md"));
        assert_eq!(expand_tilde("~a.md"), PathBuf::from("~a.md"));
    }
}
