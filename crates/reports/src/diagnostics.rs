//! `transom doctor --report`: one text with what a maintainer needs to find a problem on a computer that
//! they cannot see.
//!
//! Rule: it contains no text of a chat, no token, and no path of this person's folders. Whatever a part
//! of it says, [`diagnostics::clean`] goes over the whole text.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use transom_library::{Library, diagnostics};
use transom_supervisor::Status;

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
pub struct ReportParts<'a> {
    /// The text of `transom doctor`.
    pub doctor: String,
    /// The models of this person.
    pub library: &'a Library,
    /// Mistakes in files that the person may edit.
    pub library_problems: &'a [String],
    /// The status of the running instance, if there is one.
    pub status: Option<&'a Status>,
    /// The end of the app's log, see [`diagnostics::log_lines`].
    pub log: String,
    /// The name and version of the system, see [`system`].
    pub system: String,
    /// Tells whether an environment variable is set.
    pub is_set: fn(&str) -> bool,
    /// The data folder, which is replaced by `(data)`.
    pub data_folder: &'a Path,
    /// The home folder of this person, which is replaced by `~`.
    pub home: Option<PathBuf>,
}

/// Returns the report.
pub fn text(parts: &ReportParts<'_>) -> String {
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
    section("Models", &diagnostics::models(parts.library));
    section("Problems of lists", &parts.library_problems.join("\n"));
    section("Running instance", &status(parts.status));
    section("Log", &parts.log);
    diagnostics::clean(&text, parts.data_folder, parts.home.as_deref())
}

fn status(status: Option<&Status>) -> String {
    match status {
        None => "none".to_owned(),
        Some(status) => {
            serde_json::to_string_pretty(status).unwrap_or_else(|error| error.to_string())
        }
    }
}

/// Returns the name and version of the system.
pub fn system() -> String {
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
    use transom_library::test_support::{SECRETS, computer, folder_with_private_log, library};

    #[test]
    fn nothing_private_is_in_the_report() {
        let data = Path::new("/people/maria.private/Library/Application Support/Transom");
        let library = library(Path::new("/nowhere"), computer());
        let folder = folder_with_private_log();
        let parts = ReportParts {
            doctor: format!(
                "  settings           defaults; the app writes yours to {}/supervisor.json\n",
                data.display()
            ),
            library: &library,
            library_problems: &["/mnt/other/Divorce/models.toml: line 3: unknown key".to_owned()],
            status: None,
            log: diagnostics::log_lines(folder.path()),
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
    fn the_system_is_named() {
        let plist = "<dict><key>ProductVersion</key>\n<string>15.1</string></dict>";
        assert_eq!(mac_version(plist).unwrap(), "macOS 15.1");
        assert_eq!(mac_version("<dict/>"), None);
        let release = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n";
        assert_eq!(linux_name(release).unwrap(), "Debian GNU/Linux 12");
    }
}
