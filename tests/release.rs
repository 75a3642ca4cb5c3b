//! The scripts of the release workflow, as far as they run on this system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(script: &str, arguments: &[&str], folder: &Path) -> Output {
    Command::new("bash")
        .arg(checkout().join(".github/scripts").join(script))
        .args(arguments)
        .current_dir(folder)
        .env_remove("CERTIFICATE")
        .output()
        .expect("bash runs")
}

fn succeeds(script: &str, arguments: &[&str], folder: &Path) -> String {
    let output = run(script, arguments, folder);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {errors}");
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

fn fails(script: &str, arguments: &[&str], folder: &Path) -> String {
    let output = run(script, arguments, folder);
    assert!(!output.status.success(), "{script} succeeds");
    String::from_utf8(output.stderr).expect("the errors are UTF-8")
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).expect("a file can be written");
    }
    folder
}

const CARGO: &str = "[workspace]\n[workspace.package]\nversion = \"1.2.3\"\n[workspace.lints]\n\
                     version = \"9.9.9\"\n";
const CHANGELOG: &str = "# Changelog\n\n## Unreleased\n\n- Later\n\n## 1.2.3 (2026-11-30)\n\n\
                         - New\n\n### App\n\n- More\n\n## 1.2\n\n- Old\n";

#[test]
fn a_tag_must_fit_the_version_and_the_changelog() {
    let checkout = folder(&[("Cargo.toml", CARGO), ("CHANGELOG.md", CHANGELOG)]);
    assert_eq!(
        succeeds("version.sh", &["v1.2.3"], checkout.path()),
        "1.2.3\n"
    );
    let wrong = fails("version.sh", &["v1.2.4"], checkout.path());
    assert!(
        wrong.contains("v1.2.4") && wrong.contains("v1.2.3"),
        "{wrong}"
    );
    fs::write(checkout.path().join("CHANGELOG.md"), "## Unreleased\n").unwrap();
    let unwritten = fails("version.sh", &["v1.2.3"], checkout.path());
    assert!(unwritten.contains("no heading for 1.2.3"), "{unwritten}");
}

#[test]
fn the_version_of_this_checkout_is_read() {
    let error = fails("version.sh", &["v0"], &checkout());
    let version = env!("CARGO_PKG_VERSION");
    assert!(error.contains(&format!("v{version}.")), "{error}");
}

#[test]
fn release_notes_are_the_section_of_the_version() {
    let checkout = folder(&[("CHANGELOG.md", CHANGELOG)]);
    let notes = |version| succeeds("notes.sh", &[version], checkout.path());
    assert_eq!(notes("1.2.3"), "- New\n\n### App\n\n- More\n\n");
    assert_eq!(notes("1.2"), "- Old\n");
    assert_eq!(notes("1"), "");
}

#[test]
fn checksums_cover_every_file_and_can_be_made_again() {
    let release = folder(&[("a b.dmg", "abc"), ("c.deb", "")]);
    for _ in 0..2 {
        succeeds("checksums.sh", &["."], release.path());
        let sums = fs::read_to_string(release.path().join("SHA256SUMS")).unwrap();
        // The SHA-256 of "abc", from FIPS 180-2.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sums.lines().next().unwrap(), format!("{abc}  a b.dmg"));
        assert_eq!(sums.lines().count(), 2);
    }
    let empty = folder(&[]);
    assert!(fails("checksums.sh", &["."], empty.path()).contains("no files"));
}

#[test]
fn the_cask_gets_the_version_and_the_checksum_of_the_dmg() {
    let cask = fs::read_to_string(checkout().join("Casks/transom.rb")).unwrap();
    let sum = "ab".repeat(32);
    let sums = format!("{sum}  Transom_1.2.3_arm64.dmg\n");
    let tap = folder(&[("transom.rb", &cask), ("SHA256SUMS", &sums)]);
    let arguments = |version| [version, "SHA256SUMS", "me/transom", "transom.rb"];
    succeeds("cask.sh", &arguments("1.2.3"), tap.path());
    let text = fs::read_to_string(tap.path().join("transom.rb")).unwrap();
    for line in [
        "  version \"1.2.3\"",
        &format!("  sha256 \"{sum}\""),
        "  homepage \"https://github.com/me/transom\"",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("OWNER"), "{text}");
    let missing = fails("cask.sh", &arguments("1.2.4"), tap.path());
    assert!(missing.contains("Transom_1.2.4_arm64.dmg"), "{missing}");
    assert_eq!(
        fs::read_to_string(tap.path().join("transom.rb")).unwrap(),
        text
    );
}

#[test]
fn an_installed_program_must_respond() {
    let program = |answer: &str| {
        let script = format!(
            "[ -d \"$TRANSOM_DATA\" ] || exit 3\n[ \"$1\" != ask ] || printf '%s' '{answer}'\n"
        );
        let folder = folder(&[("transom", &format!("#!/bin/sh\n{script}"))]);
        let mut chmod = Command::new("chmod");
        chmod.arg("755").arg(folder.path().join("transom"));
        assert!(chmod.status().unwrap().success());
        folder
    };
    let good = program("A short poem.");
    assert_eq!(
        succeeds("try.sh", &["./transom"], good.path()),
        "A short poem.\n"
    );
    let silent = program(" ");
    let error = fails("try.sh", &["./transom"], silent.path());
    assert!(error.contains("did not respond"), "{error}");
    fails("try.sh", &["./missing"], silent.path());
}

/// What the script does with a package needs a network and root, so the release workflow runs it.
#[test]
fn only_packages_that_exist_are_tried() {
    let bundle = folder(&[("a.dmg", ""), ("a.deb", "")]);
    for (arguments, expected) in [
        (&["tried"][..], "Usage: try-packages.sh FOLDER PACKAGE..."),
        (&["tried", "a.deb", "a.dmg"], "a.dmg is neither"),
        (
            &["tried", "a.deb", "b.AppImage"],
            "b.AppImage does not exist",
        ),
    ] {
        let error = fails("try-packages.sh", arguments, bundle.path());
        assert!(error.contains(expected), "{error}");
    }
    assert!(!bundle.path().join("tried").exists());
}

#[test]
fn without_a_certificate_nothing_is_signed() {
    let folder = folder(&[]);
    assert_eq!(succeeds("keychain.sh", &[], folder.path()), "");
}
