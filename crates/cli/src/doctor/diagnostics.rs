//! `transom doctor --report`: one text with what a maintainer needs to find a problem on a computer that
//! they cannot see.
//!
//! Rule: it contains no text of a chat, no token, and no path of this person's folders. Whatever a part
//! of it says, [`clean`] goes over the whole text, and the log is limited to our own short lines.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use transom_library::Library;
use transom_supervisor::Status;

use crate::output::disk_text;

/// Lines of the log, at most, and characters of each.
const MAX_LOG_LINES: usize = 200;
const MAX_LINE_CHARS: usize = 300;

/// Bytes at the end of the log that are read.
const MAX_LOG_BYTES: u64 = 256 << 10;

/// Variables that change what Transom does. Only whether they are set is reported.
const VARIABLES: [&str; 8] = [
    "TRANSOM_MODEL",
    "TRANSOM_DATA",
    "TRANSOM_LOG",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "HTTPS_PROXY",
];

/// What the report is made of.
pub(super) struct Parts<'a> {
    /// The text of `transom doctor`.
    pub(super) doctor: String,
    pub(super) library: &'a Library,
    /// Mistakes in files that the person may edit.
    pub(super) library_problems: &'a [String],
    pub(super) status: Option<&'a Status>,
    /// The end of the app's log; empty if there is none.
    pub(super) log: String,
    pub(super) system: String,
    pub(super) is_set: fn(&str) -> bool,
    pub(super) data_folder: &'a Path,
    pub(super) home: Option<PathBuf>,
}

/// Returns the report.
pub(super) fn text(parts: &Parts<'_>) -> String {
    let mut text = String::new();
    let mut section = |title: &str, body: &str| {
        let body = match body.trim_end() {
            "" => "(nothing)",
            body => body,
        };
        let _ = writeln!(text, "== {title} ==\n{body}\n");
    };
    let set = VARIABLES.into_iter().filter(|name| (parts.is_set)(name));
    let set = set.collect::<Vec<&str>>().join(", ");
    let versions = format!(
        "transom {}, {} {}\nsystem: {}\nvariables that are set: {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        parts.system,
        if set.is_empty() { "none" } else { &set },
    );
    section("Versions", &versions);
    section("Computer", &parts.doctor);
    section("Models", &models(parts.library));
    section("Problems of lists", &parts.library_problems.join("\n"));
    section("Running instance", &status(parts.status));
    section("Log", &own_lines(&parts.log));
    clean(&text, parts.data_folder, parts.home.as_deref())
}

/// Returns the installed models by name, without their paths.
fn models(library: &Library) -> String {
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

fn status(status: Option<&Status>) -> String {
    match status {
        None => "none".to_owned(),
        Some(status) => {
            serde_json::to_string_pretty(status).unwrap_or_else(|error| error.to_string())
        }
    }
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
fn clean(text: &str, data_folder: &Path, home: Option<&Path>) -> String {
    let data_folder = data_folder.to_string_lossy();
    let mut text = text.to_owned();
    if data_folder.len() > 1 {
        text = text.replace(&*data_folder, "(data)");
        text = text.replace(&transom_terminal::tilde(Path::new(&*data_folder)), "(data)");
    }
    if let Some(home) = home.filter(|home| home.components().count() > 1) {
        text = text.replace(&*home.to_string_lossy(), "~");
        let name = home.file_name().unwrap_or_default().to_string_lossy();
        if name != "root" && name.len() > 2 {
            text = text.replace(&*name, "(user)");
        }
    }
    let lines = text
        .lines()
        .map(|line| without_tokens(&without_path(line)) + "\n");
    lines.collect()
}

/// Replaces everything from the first path of a person's folder on: its end is unknown, because names
/// may contain spaces.
fn without_path(line: &str) -> String {
    let starts = [
        "~/", "/Users", "/home", "/Volumes", "/media", "/mnt", "file:",
    ];
    let first = starts.iter().filter_map(|start| line.find(start)).min();
    match first {
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

/// Reads the end of the app's log.
pub(super) fn log_tail(data_folder: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = transom_files::open(&data_folder.join("logs/transom-app.log"))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Returns the name and version of the system.
pub(super) fn system() -> String {
    let read = |file: &str| {
        let opened = transom_files::open(Path::new(file)).ok()?;
        std::io::read_to_string(std::io::Read::take(opened, 64 << 10)).ok()
    };
    let mac = read("/System/Library/CoreServices/SystemVersion.plist");
    let linux = || read("/etc/os-release");
    let named = match mac {
        Some(plist) => mac_version(&plist),
        None => linux().and_then(|text| linux_name(&text)),
    };
    named.unwrap_or_else(|| "unknown".to_owned())
}

fn mac_version(plist: &str) -> Option<String> {
    let (_, rest) = plist.split_once("<key>ProductVersion</key>")?;
    let (_, rest) = rest.split_once("<string>")?;
    let (version, _) = rest.split_once("</string>")?;
    Some(format!("macOS {version}"))
}

fn linux_name(os_release: &str) -> Option<String> {
    let mut lines = os_release.lines();
    let name = lines.find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that must not be in a report.
    const SECRETS: [&str; 6] = [
        "maria.private",
        "Divorce",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "sk-abcdefghijklmnop",
        "dear diary",
        "Backup Disk",
    ];

    const LOG: &str = "\
2026-11-26T21:00:00Z  INFO transom_app::start: opened /people/maria.private/Library/x
2026-11-26T21:00:01Z  WARN transom_hub::token: the token hf_abcdefghijklmnopqrstuvwxyz is refused
2026-11-26T21:00:02Z DEBUG transom_chat: dear diary
2026-11-26T21:00:03Z  INFO hyper::client: dear diary
dear diary, a second line
2026-11-26T21:00:04Z ERROR transom_supervisor: key=sk-abcdefghijklmnop at /Volumes/Backup Disk/a.gguf
2026-11-26T21:00:05Z  INFO transom_engine_mlx: model loaded model=\"Qwen3\"
";

    #[test]
    fn nothing_private_is_in_the_report() {
        let data = Path::new("/people/maria.private/Library/Application Support/Transom");
        let library = transom_library::test_support::library(
            Path::new("/nowhere"),
            transom_library::test_support::computer(),
        );
        let parts = Parts {
            doctor: format!(
                "  settings           defaults; the app writes yours to {}/supervisor.json\n",
                data.display()
            ),
            library: &library,
            library_problems: &["/mnt/other/Divorce/models.toml: line 3: unknown key".to_owned()],
            status: None,
            log: LOG.to_owned(),
            system: "macOS 15.1".to_owned(),
            is_set: |name| name == "HF_TOKEN",
            data_folder: data,
            home: Some("/people/maria.private".into()),
        };
        let text = text(&parts);
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret:?} is in:\n{text}");
        }
        for fact in [
            "macOS 15.1",
            "variables that are set: HF_TOKEN",
            "(data)/supervisor.json",
            "the token (token) is refused",
            "ERROR transom_supervisor: key=(token) at (path)",
            "model loaded model=\"Qwen3\"",
            env!("CARGO_PKG_VERSION"),
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
    fn ordinary_words_stay() {
        let line = "sk-learn and hf_hub: /usr/lib/transom, 12.5 GB — ok";
        assert_eq!(without_tokens(&without_path(line)), line);
    }

    #[test]
    fn the_system_is_named() {
        let plist = "<dict><key>ProductVersion</key>\n<string>15.1</string></dict>";
        assert_eq!(mac_version(plist).unwrap(), "macOS 15.1");
        assert_eq!(mac_version("<dict/>"), None);
        let release = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n";
        assert_eq!(linux_name(release).unwrap(), "Debian GNU/Linux 12");
    }
}
