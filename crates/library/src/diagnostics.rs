//! What the reports about a problem have in common: the app's and the one of `transom doctor`.
//!
//! Rule: a report contains no text of a chat, no token, and no path of this person's folders. Whatever a
//! part of it says, [`clean`] goes over the whole text, and the log is limited to our own short lines.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use transom_files::disk_text;

use crate::Library;

/// The app's log, in the data folder.
pub const LOG_FILE: &str = "logs/transom-app.log";

/// Lines of the log, at most, and characters of each.
const MAX_LOG_LINES: usize = 200;
const MAX_LINE_CHARS: usize = 300;

/// Bytes at the end of the log that are read.
const MAX_LOG_BYTES: u64 = 256 << 10;

/// Folders of the system and routes of the local API, which say nothing about a person.
const PUBLIC_PATHS: [&str; 9] = [
    "/Applications/",
    "/System/",
    "/api/",
    "/dev/",
    "/opt/homebrew/",
    "/proc/",
    "/sys/",
    "/usr/",
    "/v1/",
];

/// Returns the installed models by name, without their paths.
pub fn models(library: &Library) -> String {
    let lines = library.installed().iter().map(|model| {
        let state = match &model.facts {
            Ok(facts) => format!("{}, {}", facts.architecture, facts.quantization()),
            Err(error) => format!("cannot be used: {error}"),
        };
        // The name of a model that was added by path is that of its file.
        let name = model.title(library.catalog());
        let (size, n_forms) = (disk_text(model.size_bytes), model.files.paths.len());
        format!("{name}: {size}, {n_forms} forms, {state}\n")
    });
    lines.collect()
}

/// Returns the last lines of the app's log that our own code wrote about what happened; nothing if there
/// is no log.
pub fn log_lines(data_folder: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = transom_files::open(&data_folder.join(LOG_FILE))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    own_lines(&String::from_utf8_lossy(&read().unwrap_or_default()))
}

/// Returns the last lines of the log that our own code wrote about what happened. Other code may write
/// anything, and so may the details that are for developers.
fn own_lines(log: &str) -> String {
    let is_own = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let is_level = matches!(words.next(), Some("ERROR" | "WARN" | "INFO"));
        is_level && words.any(|word| word.starts_with("transom") && word.ends_with(':'))
    };
    let lines: Vec<&str> = log.lines().filter(is_own).collect();
    let last = &lines[lines.len().saturating_sub(MAX_LOG_LINES)..];
    let short = last.iter().map(|line| {
        let line: String = line.chars().take(MAX_LINE_CHARS).collect();
        line + "\n"
    });
    short.collect()
}

/// Removes paths of this person's folders and tokens.
pub fn clean(text: &str, data_folder: &Path, home: Option<&Path>) -> String {
    let mut text = text.to_owned();
    let below_home = home.and_then(|home| data_folder.strip_prefix(home).ok());
    let short = below_home.map(|below| Path::new("~").join(below));
    for folder in [Some(data_folder), short.as_deref()].into_iter().flatten() {
        if folder.components().count() > 1 {
            text = text.replace(&*folder.to_string_lossy(), "(data)");
        }
    }
    if let Some(home) = home.filter(|home| home.components().count() > 1) {
        text = text.replace(&*home.to_string_lossy(), "~");
        let name = home.file_name().unwrap_or_default().to_string_lossy();
        if name != "root" && name.len() > 2 {
            text = without_word(&text, &name, "(user)");
        }
    }
    let lines = text
        .lines()
        .map(|line| without_tokens(&without_path(line)) + "\n");
    lines.collect()
}

/// Replaces `word` where it is not a part of a longer one.
fn without_word(text: &str, word: &str, replacement: &str) -> String {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let mut replaced = String::with_capacity(text.len());
    let mut end = 0;
    for (at, _) in text.match_indices(word) {
        let after = at + word.len();
        if !text[..at].ends_with(is_part) && !text[after..].starts_with(is_part) {
            replaced.push_str(&text[end..at]);
            replaced.push_str(replacement);
            end = after;
        }
    }
    replaced + &text[end..]
}

/// Replaces everything from the first path on: its end is unknown, because names may contain spaces.
/// [`PUBLIC_PATHS`] stay.
fn without_path(line: &str) -> String {
    let is_start = |at: usize| {
        let (before, path) = line.split_at(at);
        let begins = match before.chars().next_back() {
            Some(last) => last.is_whitespace() || "\"'`([{<=:,;|".contains(last),
            None => true,
        };
        let has_name = path[1..].starts_with(|next: char| next != '/' && !next.is_whitespace());
        begins && has_name && !PUBLIC_PATHS.iter().any(|system| path.starts_with(system))
    };
    let slashes = line.match_indices('/').map(|(at, _)| at);
    let absolute = slashes.filter(|at| is_start(*at)).min();
    let others = ["~/", "file:/"]
        .into_iter()
        .filter_map(|start| line.find(start));
    match others.chain(absolute).min() {
        Some(at) => format!("{}(path)", &line[..at]),
        None => line.to_owned(),
    }
}

/// Replaces words that look like tokens of a hub or a server.
fn without_tokens(line: &str) -> String {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    let mut cleaned = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest
            .find(|character| !is_part(character))
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let is_token = ["hf_", "sk-", "sk_", "ghp_"].iter().any(|start| {
            word.strip_prefix(start)
                .is_some_and(|rest| rest.len() >= 12)
        });
        cleaned.push_str(match is_token {
            true => "(token)",
            false => word,
        });
        let next = rest[end..].chars().next().map_or(0, char::len_utf8);
        cleaned.push_str(&rest[end..end + next]);
        rest = &rest[end + next..];
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{SECRETS, folder_with_private_log};

    #[test]
    fn nothing_private_is_left_of_the_log_or_of_a_text() {
        assert_eq!(log_lines(Path::new("/nowhere")), "");
        let data = folder_with_private_log();
        let home = Path::new("/people/maria.private");
        let folder = home.join("Library/Application Support/Transom");
        let text = format!(
            "{}{}/supervisor.json\n~/Library/Application Support/Transom/a\n\"/mnt/Divorce/m\": 1\n\
             of maria.private\n",
            log_lines(data.path()),
            folder.display()
        );
        let text = clean(&text, &folder, Some(home));
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret:?} is in:\n{text}");
        }
        for fact in [
            "(data)/supervisor.json\n(data)/a\n\"(path)\nof (user)",
            "INFO transom_app::start: opened (path)",
            "the token (token) is refused",
            "ERROR transom_supervisor: key=(token) at (path)",
            "model loaded model=\"Qwen3\"",
            "can't read path=(path)",
        ] {
            assert!(text.contains(fact), "{fact:?} is not in:\n{text}");
        }
    }

    #[test]
    fn only_the_last_lines_of_the_log_are_reported_and_none_is_long() {
        let line = |n: usize| format!("t INFO transom: {n} {}\n", "x".repeat(1000));
        let log: String = (0..MAX_LOG_LINES + 5).map(line).collect();
        let own = own_lines(&log);
        assert_eq!(own.lines().count(), MAX_LOG_LINES);
        assert!(own.starts_with("t INFO transom: 5 "));
        assert!(
            own.lines()
                .all(|line| line.chars().count() <= MAX_LINE_CHARS)
        );
    }

    #[test]
    fn the_name_of_the_person_is_replaced_but_not_in_longer_words() {
        let text = "max, max_tokens, maximum and Max's max.";
        let expect = "(user), max_tokens, maximum and Max's (user).";
        assert_eq!(without_word(text, "max", "(user)"), expect);
        assert_eq!(without_word("", "max", "(user)"), "");
    }

    #[test]
    fn ordinary_words_stay() {
        let line = "sk-learn and hf_hub: /usr/lib/transom, 12.5 GB/s — and/or https://a.example/b (data)/c";
        assert_eq!(without_tokens(&without_path(line)), line);
    }
}
