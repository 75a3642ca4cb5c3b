//! The scripts of the release workflow, as far as they run on this system.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(script: &str, arguments: &[&str], folder: &Path) -> Output {
    run_with(script, arguments, folder, &[])
}

fn run_with(script: &str, arguments: &[&str], folder: &Path, variables: &[(&str, &str)]) -> Output {
    let program = match script.ends_with(".py") {
        true => "python3",
        false => "bash",
    };
    Command::new(program)
        .arg(checkout().join(".github/scripts").join(script))
        .args(arguments)
        .current_dir(folder)
        .env_remove("CERTIFICATE")
        .env_remove("TAURI_SIGNING_PRIVATE_KEY")
        .env_remove("TRANSOM_UPDATE_KEY")
        .env_remove("TAP")
        .envs(variables.iter().copied())
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

/// Writes programs into the folder `bin` of a folder, and returns a `PATH` that begins with it.
fn programs(folder: &Path, programs: &[(&str, &str)]) -> String {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).expect("a folder can be made");
    for (name, script) in programs {
        let program = bin.join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}")).expect("a file can be written");
        fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
    }
    let path = std::env::var("PATH").expect("there is a PATH");
    format!("{}:{path}", bin.display())
}

#[test]
fn each_program_has_a_list_of_its_packages() {
    let checkout = folder(&[]);
    for package in ["src-tauri", "crates/cli", "crates/document-reader", "sums"] {
        fs::create_dir_all(checkout.path().join(package)).unwrap();
    }
    // The real one writes a file beside the manifest, named after the package.
    let cargo = "[ \"$1 $2 $4 $5\" = 'cyclonedx --manifest-path --format json' ] || exit 2\n\
                 echo \"{}\" >\"$(dirname \"$3\")/of-a-package.cdx.json\"\n";
    let path = programs(checkout.path(), &[("cargo", cargo)]);
    let arguments = ["1.2.3", "sums"];
    let listed = run_with("sbom.sh", &arguments, checkout.path(), &[("PATH", &path)]);
    assert!(listed.status.success(), "{listed:?}");
    for name in ["src-tauri", "cli", "document-reader"] {
        let list = format!("sums/Transom_1.2.3_{name}.cdx.json");
        assert!(checkout.path().join(&list).is_file(), "{list}");
    }
}

#[test]
fn a_draft_has_the_notes_and_every_file() {
    let checkout = folder(&[("CHANGELOG.md", CHANGELOG)]);
    let release = checkout.path().join("release");
    fs::create_dir(&release).unwrap();
    for name in ["SHA256SUMS", "a.dmg"] {
        fs::write(release.join(name), name).unwrap();
    }
    let gh = "while [ $# -gt 0 ]; do\n\
              if [ \"$1\" = --notes-file ]; then cat \"$2\"; shift; else echo \"$1\"; fi\n\
              shift\ndone\n";
    let path = programs(checkout.path(), &[("gh", gh)]);
    let arguments = ["v1.2.3", "release"];
    let drafted = run_with("draft.sh", &arguments, checkout.path(), &[("PATH", &path)]);
    assert!(drafted.status.success(), "{drafted:?}");
    let expected = "release\ncreate\nv1.2.3\n--draft\n--verify-tag\n--title\nTransom 1.2.3\n\
                    - New\n\n### App\n\n- More\n\nrelease/SHA256SUMS\nrelease/a.dmg\n";
    assert_eq!(String::from_utf8_lossy(&drafted.stdout), expected);
}

#[test]
fn a_release_is_pushed_to_the_tap_once() {
    let checkout = folder(&[]);
    fs::create_dir(checkout.path().join("Casks")).unwrap();
    let cask = "Casks/transom.rb";
    fs::copy(self::checkout().join(cask), checkout.path().join(cask)).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(checkout.path());
        let output = git.output().expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("the output is UTF-8")
    };
    git(&["init", "--quiet", "--bare", "--initial-branch=main", "bare"]);
    let gh = format!(
        "echo '{}  Transom_1.2.3_arm64.dmg' >SHA256SUMS\n",
        "ab".repeat(32)
    );
    let path = programs(checkout.path(), &[("gh", &gh)]);
    let bare = format!("url.file://{}/bare.insteadOf", checkout.path().display());
    let variables = [
        ("PATH", &*path),
        ("TAP", "me/homebrew-tap"),
        ("TAP_TOKEN", "secret"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", &bare),
        (
            "GIT_CONFIG_VALUE_0",
            "https://x-access-token:secret@github.com/me/homebrew-tap",
        ),
    ];
    let arguments = ["v1.2.3", "me/transom"];
    let without = run("tap.sh", &arguments, checkout.path());
    assert!(without.status.success(), "{without:?}");
    assert!(!checkout.path().join("tap").exists(), "there is no tap");
    for _ in 0..2 {
        let pushed = run_with("tap.sh", &arguments, checkout.path(), &variables);
        assert!(pushed.status.success(), "{pushed:?}");
        fs::remove_dir_all(checkout.path().join("tap")).unwrap();
    }
    let of_tap = |arguments: &[&str]| git(&[&["-C", "bare"], arguments].concat());
    assert_eq!(of_tap(&["log", "--format=%s", "main"]), "transom 1.2.3\n");
    let pushed = of_tap(&["show", &format!("main:{cask}")]);
    assert!(pushed.contains("version \"1.2.3\""), "{pushed}");
    assert!(!pushed.contains("secret"), "{pushed}");
}

/// A public key and a signature of one key for version 1.1.0, made by `tauri signer`.
const UPDATE_KEY: &str = include_str!("../src-tauri/src/updates/tests/signed.pub");
const UPDATE_SIGNATURE: &str = include_str!("../src-tauri/src/updates/tests/signed.txt.sig");
const ARCHIVE: &str = "Transom_1.1.0_arm64.app.tar.gz";
const APPIMAGE: &str = "Transom_1.1.0_amd64.AppImage";

#[test]
fn the_app_is_packed_with_its_folder() {
    let mac = folder(&[]);
    let programs = mac.path().join("Transom/Transom.app/Contents/MacOS");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("transom-app"), "program").unwrap();
    let arguments = ["Transom/Transom.app", ARCHIVE];
    succeeds("app-archive.sh", &arguments, mac.path());
    let mut tar = Command::new("tar");
    let listed = tar.arg("-tzf").arg(mac.path().join(ARCHIVE)).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let names: Vec<&str> = listed.lines().collect();
    // The updater leaves out the first folder.
    assert_eq!(names.first(), Some(&"Transom.app/"));
    assert_eq!(
        names.last(),
        Some(&"Transom.app/Contents/MacOS/transom-app")
    );
    let missing = ["Transom/Other.app", ARCHIVE];
    fails("app-archive.sh", &missing, mac.path());
}

#[test]
fn the_files_for_updates_are_signed_for_the_version() {
    let npm = "#!/bin/sh\nprintf '%s\\n' \"$*\" >>called\n[ -f \"${11}\" ]\n";
    let release = folder(&[
        (ARCHIVE, "a"),
        (APPIMAGE, "b"),
        ("c.deb", "c"),
        ("npm", npm),
    ]);
    let mut chmod = Command::new("chmod");
    chmod.arg("755").arg(release.path().join("npm"));
    assert!(chmod.status().unwrap().success());
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", release.path().display());
    let unsigned = run_with(
        "sign.sh",
        &["1.1.0", "."],
        release.path(),
        &[("PATH", &path)],
    );
    assert!(unsigned.status.success());
    let called = release.path().join("called");
    assert!(!called.exists(), "nothing is signed without a key");
    let variables = [("PATH", &*path), ("TAURI_SIGNING_PRIVATE_KEY", "secret")];
    let signed = run_with("sign.sh", &["1.1.0", "."], release.path(), &variables);
    assert!(signed.status.success());
    let calls = fs::read_to_string(&called).unwrap();
    let bundler = fs::read_to_string(checkout().join("xtask/src/bundle/linux.rs")).unwrap();
    for (call, file) in calls.lines().zip([ARCHIVE, APPIMAGE]) {
        let end = format!(" -- tauri signer sign --app-version 1.1.0 ./{file}");
        assert!(call.ends_with(&end) && !call.contains("secret"), "{call}");
        let tauri = call
            .split(' ')
            .find(|word| word.starts_with("@tauri-apps/"));
        let tauri = format!("\"{}\"", tauri.unwrap());
        assert!(
            bundler.contains(&tauri),
            "another version than in the bundle"
        );
    }
    assert_eq!(calls.lines().count(), 2);
    fs::remove_file(release.path().join(APPIMAGE)).unwrap();
    let missing = run_with("sign.sh", &["1.1.0", "."], release.path(), &variables);
    assert!(!missing.status.success(), "a file is missing");
}

/// Makes the description of a release with these signatures and this key, in a checkout with a
/// changelog.
fn manifest(signatures: &[(&str, &str)], key: &str) -> (TempDir, Output) {
    let changelog = "## 1.1.0\n\n- A \"new\" thing\n\n## 1.0\n\n- Old\n";
    let checkout = folder(&[("CHANGELOG.md", changelog)]);
    let release = checkout.path().join("release");
    fs::create_dir(&release).expect("a new folder");
    for (file, signature) in signatures {
        let write =
            |name: &str, text| fs::write(release.join(name), text).expect("room on the disk");
        write(file, "12345");
        write(&format!("{file}.sig"), *signature);
    }
    let arguments = ["1.1.0", "me/transom", "release"];
    let variables = [("TRANSOM_UPDATE_KEY", key)];
    let output = run_with("manifest.py", &arguments, checkout.path(), &variables);
    (checkout, output)
}

#[test]
fn the_description_of_a_release_has_its_files_and_notes() {
    let signatures = [(ARCHIVE, UPDATE_SIGNATURE), (APPIMAGE, UPDATE_SIGNATURE)];
    let (checkout, output) = manifest(&signatures, UPDATE_KEY);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let release = checkout.path().join("release");
    let text = fs::read_to_string(release.join("latest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    let platform = |file: &str| {
        serde_json::json!({
            "url": format!("https://github.com/me/transom/releases/download/v1.1.0/{file}"),
            "signature": UPDATE_SIGNATURE.trim(),
            "size": 5,
        })
    };
    let expected = serde_json::json!({
        "version": "1.1.0",
        "notes": "- A \"new\" thing",
        "platforms": { "darwin-aarch64": platform(ARCHIVE), "linux-x86_64": platform(APPIMAGE) },
    });
    assert_eq!(manifest, expected);
    assert!(!release.join(format!("{ARCHIVE}.sig")).exists());
}

#[test]
fn a_release_that_no_copy_would_accept_is_not_described() {
    let decoded = |text: &str| {
        let mut decode = Command::new("python3");
        let program = "import base64,sys; sys.stdout.buffer.write(base64.b64decode(sys.argv[1]))";
        let output = decode.args(["-c", program, text.trim()]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let encoded = |text: &str| {
        let mut encode = Command::new("python3");
        let program = "import base64,sys; print(base64.b64encode(sys.argv[1].encode()).decode())";
        let output = encode.args(["-c", program, text]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let other_version = encoded(&decoded(UPDATE_SIGNATURE).replace("version:1.1.0", "version:1.0"));
    let other_key = encoded(&decoded(UPDATE_KEY).replace("RWS5Nr09", "RWS5Nr08"));
    let both = |signature| [(ARCHIVE, signature), (APPIMAGE, signature)];
    for (signatures, key, reason) in [
        (&both(UPDATE_SIGNATURE)[..], &*other_key, "another key"),
        (
            &both(&other_version),
            UPDATE_KEY,
            "not signed for version 1.1.0",
        ),
        (&both(UPDATE_SIGNATURE), "", "no public key"),
        (
            &both(UPDATE_SIGNATURE)[..1],
            UPDATE_KEY,
            "no signed file for linux-x86_64",
        ),
        (
            &[("c.deb", UPDATE_SIGNATURE)],
            UPDATE_KEY,
            "not the one file",
        ),
    ] {
        let (checkout, output) = manifest(signatures, key);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(reason),
            "{errors}"
        );
        assert!(!checkout.path().join("release/latest.json").exists());
    }
    let (checkout, output) = manifest(&[], UPDATE_KEY);
    assert!(output.status.success());
    assert!(!checkout.path().join("release/latest.json").exists());
}
