//! Checks names of repositories and files from outside.
//!
//! Rule: names are checked before they become part of a path or an address, so none leaves its
//! folder or its host.

use reqwest::Url;

use crate::HubError;

/// Checks a repository name: `owner/name`, or one word as old repositories have.
pub(crate) fn check_repository(name: &str) -> Result<(), HubError> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.len() <= 96
            && !word.starts_with('.')
            && word
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    let n_words = name.split('/').count();
    if n_words > 2 || !name.split('/').all(is_word) {
        return Err(bad(name));
    }
    Ok(())
}

/// Checks a file name: a relative path with `/` that stays in its folder and has no control
/// characters.
pub(crate) fn check_file(name: &str) -> Result<(), HubError> {
    let is_part =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':']);
    if name.len() > 1024
        || name.contains(transom_files::is_control)
        || !name.split('/').all(is_part)
    {
        return Err(bad(name));
    }
    Ok(())
}

fn bad(name: &str) -> HubError {
    HubError::BadName {
        name: name.to_owned(),
    }
}

/// Appends segments to the path of an address and encodes each of them, so the slash in `refs/pr/1`
/// does not separate segments.
pub(crate) fn push<'a>(url: &mut Url, segments: impl Iterator<Item = &'a str>) {
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_their_folder_are_rejected() {
        for name in ["mlx-community/Qwen3-4B-4bit", "gpt2", "a/b.c_d"] {
            assert_eq!(check_repository(name), Ok(()), "{name}");
        }
        for name in ["", "a/", "/a", "a/b/c", "a b/c", "../x", "a/..", "a?x/b"] {
            assert!(check_repository(name).is_err(), "{name}");
        }
        for name in ["config.json", "Q4/model 1.gguf", "ä.txt"] {
            assert_eq!(check_file(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "/etc/x",
            "a//b",
            "a/../../b",
            "..",
            "a\\b",
            "a\0b",
            "a/",
            "a\n.json",
            "a\u{1b}[31m.json",
            "a\u{202e}nosj",
        ] {
            assert!(check_file(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_slash_in_a_revision_is_encoded() {
        let mut url = Url::parse("https://hub.example/mirror").unwrap();
        push(
            &mut url,
            ["owner", "name", "resolve", "refs/pr/1"].into_iter(),
        );
        assert_eq!(url.path(), "/mirror/owner/name/resolve/refs%2Fpr%2F1");
    }
}
