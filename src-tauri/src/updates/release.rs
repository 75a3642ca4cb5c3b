//! What a release is: newer or not, how much disk space it needs, and its notes as lines.

use std::cmp::Ordering;

use semver::Version;
use serde_json::Value;
use tauri::Url;

use crate::wire::{ReleaseNote, UpdateProblem};

/// Limit of a download, far above every release.
const MAX_BYTES: u64 = 2_000_000_000;

/// Limits of the notes, which are not signed.
const MAX_NOTES: usize = 200;
const MAX_NOTE_CHARS: usize = 1000;

/// The archive for a Mac is unpacked beside the app before it is exchanged. It gets about four times
/// as large, most of it MLX's kernels.
const UNPACKED_RATIO: u64 = 5;

/// Space that stays free beside an update, for the chats and the system.
const SPARE_BYTES: u64 = 200_000_000;

/// Returns true if the offered version is newer. Build metadata does not make a version newer.
pub(super) fn is_newer(current: &Version, offered: &Version) -> bool {
    offered.cmp_precedence(current) == Ordering::Greater
}

/// Returns true if the offered version is older.
pub(super) fn is_older(current: &Version, offered: &Version) -> bool {
    offered.cmp_precedence(current) == Ordering::Less
}

/// Returns the size in bytes that the description of a release says for the file with this address.
///
/// # Errors
/// There is no size, or it is absurd.
pub(super) fn size_of(release: &Value, file: &Url) -> Result<u64, UpdateProblem> {
    let platforms = release["platforms"].as_object();
    let mut platforms = platforms.into_iter().flatten().map(|(_, one)| one);
    let is_of_file = |one: &&Value| {
        let url = one["url"].as_str().and_then(|url| Url::parse(url).ok());
        url.as_ref() == Some(file)
    };
    let size = platforms
        .find(is_of_file)
        .and_then(|one| one["size"].as_u64());
    size.filter(|size| (1..=MAX_BYTES).contains(size))
        .ok_or(UpdateProblem::Malformed)
}

/// Checks that the disk has space for an update of this size. An unknown free space is enough: the
/// installation itself fails safely.
///
/// # Errors
/// There is too little space.
pub(super) fn check_space(size_bytes: u64, free_bytes: Option<u64>) -> Result<(), UpdateProblem> {
    let needed_bytes = size_bytes * UNPACKED_RATIO + SPARE_BYTES;
    match free_bytes {
        Some(free_bytes) if free_bytes < needed_bytes => Err(UpdateProblem::DiskFull {
            needed_bytes,
            free_bytes,
        }),
        _ => Ok(()),
    }
}

/// Returns the section of the changelog as lines: its headings and its list items, without the marks
/// of Markdown.
pub(super) fn notes(markdown: &str) -> Vec<ReleaseNote> {
    let mut notes: Vec<ReleaseNote> = Vec::new();
    let mut is_in_paragraph = false;
    for line in markdown.lines() {
        let line = line.trim();
        let item = ["- ", "* "].iter().find_map(|mark| line.strip_prefix(mark));
        let (is_heading, text) = match (line.trim_start_matches('#'), item) {
            (_, Some(item)) => (false, item),
            (rest, None) if rest.len() < line.len() => (true, rest.trim_start()),
            _ => (false, line),
        };
        let text = text.replace(['`', '\u{0}'], "").replace("**", "");
        let continues = is_in_paragraph && item.is_none() && !is_heading;
        is_in_paragraph = !text.is_empty() && !is_heading;
        match notes.last_mut() {
            _ if text.is_empty() => {}
            Some(note) if continues => {
                note.text.push(' ');
                note.text.push_str(&text);
            }
            _ => notes.push(ReleaseNote { is_heading, text }),
        }
        if notes.len() == MAX_NOTES {
            break;
        }
    }
    for note in &mut notes {
        if let Some((end, _)) = note.text.char_indices().nth(MAX_NOTE_CHARS) {
            note.text.truncate(end);
            note.text.push('…');
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_greater_version_is_newer() {
        let version = |text: &str| Version::parse(text).unwrap();
        for (current, offered, expected) in [
            ("0.1.0", "0.1.1", (true, false)),
            ("0.9.0", "0.10.0", (true, false)),
            ("1.0.0-rc.1", "1.0.0", (true, false)),
            ("1.0.0", "1.0.0", (false, false)),
            ("1.0.0", "1.0.0+2", (false, false)),
            ("1.0.0", "1.0.0-rc.1", (false, true)),
            ("1.0.0", "0.9.9", (false, true)),
        ] {
            let (current, offered) = (version(current), version(offered));
            let found = (is_newer(&current, &offered), is_older(&current, &offered));
            assert_eq!(found, expected, "{current} {offered}");
        }
    }

    #[test]
    fn the_size_is_that_of_the_file_for_this_system() {
        let release = json!({ "platforms": {
            "darwin-aarch64": { "url": "https://example.org/a b", "size": 5 },
            "linux-x86_64": { "url": "https://example.org/c", "size": 7 },
            "zero": { "url": "https://example.org/zero", "size": 0 },
            "huge": { "url": "https://example.org/huge", "size": MAX_BYTES + 1 },
            "none": { "url": "https://example.org/none" },
        } });
        let size = |url: &str| size_of(&release, &Url::parse(url).unwrap());
        assert_eq!(size("https://example.org/a%20b"), Ok(5));
        assert_eq!(size("https://example.org/c"), Ok(7));
        for wrong in ["zero", "huge", "none", "other"] {
            let wrong = size(&format!("https://example.org/{wrong}"));
            assert_eq!(wrong, Err(UpdateProblem::Malformed));
        }
    }

    #[test]
    fn an_update_needs_space_for_the_unpacked_app() {
        assert_eq!(check_space(60_000_000, Some(500_000_000)), Ok(()));
        assert_eq!(check_space(60_000_000, None), Ok(()));
        let full = UpdateProblem::DiskFull {
            needed_bytes: 500_000_000,
            free_bytes: 499_999_999,
        };
        assert_eq!(check_space(60_000_000, Some(499_999_999)), Err(full));
    }

    #[test]
    fn notes_are_lines_without_markdown() {
        let notes =
            notes("\n### App\n\n- A **new** `transom update`\n  in two lines.\n* Old\n\nText\n");
        let line = |is_heading, text: &str| ReleaseNote {
            is_heading,
            text: text.to_owned(),
        };
        let expected = [
            line(true, "App"),
            line(false, "A new transom update in two lines."),
            line(false, "Old"),
            line(false, "Text"),
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn endless_notes_are_cut_off() {
        let text = format!("- {}\n", "ä".repeat(2 * MAX_NOTE_CHARS)).repeat(2 * MAX_NOTES);
        let notes = notes(&text);
        assert_eq!(notes.len(), MAX_NOTES);
        assert_eq!(notes[0].text.chars().count(), MAX_NOTE_CHARS + 1);
        let one = "word\n".repeat(2 * MAX_NOTE_CHARS);
        assert_eq!(
            super::notes(&one)[0].text.chars().count(),
            MAX_NOTE_CHARS + 1
        );
    }
}
