//! The dependencies between the crates, as `crates/README.md` draws them.
//!
//! A rule takes the workspace's packages and returns its violations. A new crate must be added to
//! [`ARROWS`] and to that page. A new dependency is a decision, so it must be added here as well.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use transom_tests::{SourceFile, cargo_metadata, files_with, root};

/// The lowest crate, on which every package may depend.
const LEAF: &str = "transom-files";

/// Each package, and the packages of the workspace that it may depend on besides [`LEAF`].
const ARROWS: &[(&str, &[&str])] = &[
    (LEAF, &[]),
    ("transom-fit", &[]),
    ("transom-engine", &["transom-fit"]),
    ("transom-engine-mlx", &["transom-catalog", "transom-engine"]),
    (
        "transom-engine-llama",
        &["transom-catalog", "transom-engine"],
    ),
    ("transom-signals", &["transom-fit"]),
    ("transom-keychain", &[]),
    ("transom-catalog", &["transom-fit"]),
    // The memory of the process that reads a document.
    ("transom-documents", &["transom-signals"]),
    ("transom-document-reader", &["transom-documents"]),
    // Free disk space, and a machine that stays awake.
    ("transom-hub", &["transom-keychain", "transom-signals"]),
    (
        "transom-engine-host",
        &["transom-engine", "transom-signals"],
    ),
    (
        "transom-supervisor",
        &[
            "transom-engine",
            "transom-engine-host",
            "transom-fit",
            "transom-keychain",
            "transom-signals",
        ],
    ),
    (
        "transom-library",
        &[
            // The results of benchmarks, which it keeps.
            "transom-bench",
            "transom-catalog",
            "transom-engine",
            "transom-hub",
            "transom-signals",
            "transom-supervisor",
        ],
    ),
    (
        "transom-server",
        &[
            "transom-engine",
            "transom-engine-host",
            "transom-library",
            "transom-signals",
            "transom-supervisor",
        ],
    ),
    ("transom-terminal", &[]),
    // Everything that a command may show; no engine and no client.
    (
        "transom-reports",
        &[
            "transom-catalog",
            "transom-engine",
            "transom-hub",
            "transom-library",
            "transom-signals",
            "transom-supervisor",
            "transom-terminal",
        ],
    ),
    (
        "transom-bench",
        &[
            "transom-engine",
            "transom-engine-host",
            "transom-signals",
            "transom-supervisor",
        ],
    ),
    (
        "transom-cli",
        &[
            "transom-bench",
            "transom-catalog",
            "transom-documents",
            "transom-engine",
            "transom-engine-host",
            "transom-engine-llama",
            "transom-engine-mlx",
            "transom-hub",
            "transom-library",
            "transom-reports",
            "transom-server",
            "transom-signals",
            "transom-supervisor",
            "transom-terminal",
        ],
    ),
    ("transom-store", &[]),
    (
        "transom-chat",
        &[
            "transom-engine",
            "transom-engine-host",
            "transom-signals",
            "transom-store",
            "transom-supervisor",
        ],
    ),
    (
        "transom-app",
        &[
            "transom-bench",
            "transom-chat",
            "transom-documents",
            "transom-engine",
            "transom-engine-host",
            "transom-hub",
            "transom-library",
            "transom-server",
            "transom-signals",
            "transom-store",
            "transom-supervisor",
        ],
    ),
    ("transom-tests", &["transom-engine", "transom-engine-mlx"]),
    (
        "transom-conformance",
        &[
            "transom-catalog",
            "transom-engine",
            "transom-engine-host",
            "transom-engine-llama",
            "transom-engine-mlx",
        ],
    ),
    // Uses the programs only from outside. Tests that need more memory are listed as skipped.
    ("transom-window-tests", &["transom-signals"]),
    ("xtask", &["transom-catalog"]),
];

/// Outside packages (or families, ending in `*`) and the only packages that may name them.
const KEPT_IN: &[(&str, &[&str])] = &[
    ("mlx-*", &["transom-engine-mlx"]),
    ("llama-cpp-*", &["transom-engine-llama"]),
    ("clap", &["transom-cli"]),
    // Both have one view of what a schema means.
    ("llguidance", &["transom-engine"]),
    ("jsonschema", &["transom-engine"]),
    ("comfy-table", &["transom-terminal"]),
    ("indicatif", &["transom-cli", "transom-terminal"]),
    ("bindgen", &["xtask"]),
    // The files of an app bundle.
    ("object", &["xtask"]),
    ("plist", &["xtask"]),
    ("rusqlite", &["transom-store"]),
    ("reqwest", &["transom-hub"]),
    ("axum*", &["transom-server"]),
    ("hyper*", &["transom-server", "transom-window-tests"]),
    ("keyring*", &["transom-keychain"]),
    // The tests of updates run a server.
    ("rustls*", &["transom-hub", "transom-app"]),
    // The encryption of saved KV caches.
    ("ring", &["transom-engine-host"]),
    ("zeroize", &["transom-hub", "transom-keychain"]),
    ("notify*", &["transom-catalog"]),
    // Readers of untrusted documents run only in the program of that crate.
    ("chardetng", &["transom-document-reader"]),
    ("encoding_rs", &["transom-document-reader"]),
    ("html2text", &["transom-document-reader"]),
    ("undoc", &["transom-document-reader"]),
    ("unpdf", &["transom-document-reader"]),
    ("ammonia", &["transom-chat"]),
    ("math-core", &["transom-chat"]),
    // Search results show text without Markdown.
    ("pulldown-cmark*", &["transom-chat", "transom-store"]),
    ("syntect", &["transom-chat"]),
    ("two-face", &["transom-chat"]),
    // Engines block. Only crates that talk to processes, sockets or the network are async.
    (
        "tokio",
        &[
            "transom-engine-host",
            "transom-supervisor",
            "transom-chat",
            "transom-hub",
            "transom-server",
            "transom-app",
            "transom-cli",
            "transom-conformance",
            "transom-window-tests",
        ],
    ),
    // The interfaces of macOS. The check for a Mac reads the declarations of two of the packages.
    ("objc2*", &["transom-signals", "xtask"]),
    ("dispatch2", &["transom-signals"]),
    // The app asks the session bus whether it runs already.
    ("zbus", &["transom-signals", "transom-app"]),
    ("tauri*", &["transom-app"]),
    ("arboard", &["transom-app"]),
    ("x11rb", &["transom-app", "transom-window-tests"]),
    // Every crate has its own error enum. Only the desktop app may use untyped errors.
    ("anyhow", &["transom-app"]),
];

/// Texts that only one file or folder of the pages may contain, and that path.
const SAID_IN: &[(&str, &str)] = &[
    // Tests and the gallery run without the app.
    ("@tauri-apps", "ui/src/ipc/"),
    // Only sanitized blocks become elements.
    ("innerHTML", "ui/src/state/elements.ts"),
    ("{@html", "ui/src/state/elements.ts"),
];

/// Names that no shell may use, because the library decides, and the files that may, with reasons.
const LIBRARY_DECIDES: &[(&str, &[&str])] = &[
    (
        "transom_catalog",
        &[
            // Describes one file, which need not be in the library.
            "crates/reports/src/model_files.rs",
        ],
    ),
    (
        "transom_hub",
        &[
            // Errors of the hub have exit codes.
            "crates/cli/src/failure.rs",
            // Search, downloads with their progress, and the token.
            "crates/cli/src/models/hub.rs",
            "crates/cli/src/models/install.rs",
            "crates/cli/src/models/install/display.rs",
            "crates/reports/src/download.rs",
            "crates/cli/src/models/install/download.rs",
            "crates/cli/src/models/install/plan.rs",
            "crates/cli/src/models/search.rs",
            "crates/cli/src/models/token.rs",
            // The same in the app.
            "src-tauri/src/catalog.rs",
            "src-tauri/src/commands/catalog.rs",
            "src-tauri/src/model_source.rs",
            "src-tauri/src/model_source/views.rs",
        ],
    ),
    // Which files of which repository are downloaded where.
    ("RequestedFile", &[]),
    ("DownloadRequest {", &[]),
];

struct Package {
    name: String,
    dependencies: BTreeSet<String>,
    is_default: bool,
    folder: String,
}

#[test]
fn the_arrows_are_those_of_the_map() {
    assert_nothing_wrong(&arrows(&packages(), ARROWS));
}

#[test]
fn native_libraries_stay_in_their_crates() {
    assert_nothing_wrong(&kept(&packages(), KEPT_IN));
}

#[test]
fn the_default_members_build_anywhere() {
    assert_nothing_wrong(&builds_anywhere(&packages()));
}

#[test]
fn the_map_names_every_crate() {
    let map = fs::read_to_string(root().join("crates/README.md")).unwrap();
    assert_nothing_wrong(&unmapped(&packages(), &map));
}

#[test]
fn the_pages_reach_the_app_and_write_markup_in_one_place_each() {
    let pages = files_with(&["ts", "svelte"]).unwrap();
    assert!(pages.iter().any(|page| page.path.starts_with("ui/src/")));
    assert_nothing_wrong(&said(&pages, SAID_IN));
}

#[test]
fn shells_leave_decisions_about_models_to_the_library() {
    let sources = files_with(&["rs"]).unwrap();
    assert!(sources.iter().any(|source| is_of_shell(&source.path)));
    assert_nothing_wrong(&decided(&sources, LIBRARY_DECIDES));
}

#[test]
fn every_exception_of_a_shell_is_needed() {
    let sources = files_with(&["rs"]).unwrap();
    for (text, exceptions) in LIBRARY_DECIDES {
        for path in *exceptions {
            let source = sources.iter().find(|source| source.path == *path);
            let is_needed = source.is_some_and(|source| source.text.contains(text));
            assert!(is_needed, "{path} needs no exception for {text}");
        }
    }
}

/// Returns true for product code of a shell. Tests may use what the library decides.
fn is_of_shell(path: &str) -> bool {
    let shells = [
        "crates/cli/src/",
        "crates/reports/src/",
        "crates/server/src/",
        "src-tauri/src/",
    ];
    shells.iter().any(|shell| path.starts_with(shell)) && !path.ends_with("tests.rs")
}

fn decided(sources: &[SourceFile], rules: &[(&str, &[&str])]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| is_of_shell(&source.path)) {
        let product = source.text.split("#[cfg(test)]\nmod tests {").next();
        for (text, exceptions) in rules {
            if product.is_some_and(|product| product.contains(text))
                && !exceptions.contains(&&*source.path)
            {
                let path = &source.path;
                wrong.push(format!("{path} says {text}, which crates/library decides"));
            }
        }
    }
    wrong
}

/// Checks product code only. Tests may look at the result.
fn said(pages: &[SourceFile], rules: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for page in pages {
        let is_product = page.path.starts_with("ui/src/") && !page.path.ends_with(".test.ts");
        for (words, home) in rules {
            if is_product && !page.path.starts_with(home) && page.text.contains(words) {
                wrong.push(format!("{} says {words}, which only {home} may", page.path));
            }
        }
    }
    wrong
}

fn arrows(packages: &[Package], allowed: &[(&str, &[&str])]) -> Vec<String> {
    let names: BTreeSet<&str> = packages.iter().map(|package| &*package.name).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let Some((_, to)) = allowed.iter().find(|(from, _)| *from == package.name) else {
            wrong.push(format!("{} has no entry in ARROWS", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            // A crate may depend on itself with other features, for its tests.
            let is_ours = names.contains(&**dependency) && *dependency != package.name;
            if is_ours && dependency != LEAF && !to.contains(&&**dependency) {
                wrong.push(format!("{} must not import {dependency}", package.name));
            }
        }
    }
    wrong
}

fn kept(packages: &[Package], rules: &[(&str, &[&str])]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (outside, homes) in rules {
        for package in packages {
            let named = package.dependencies.iter().find(|name| {
                let family = outside.strip_suffix('*');
                family.map_or(*name == outside, |family| name.starts_with(family))
            });
            if let Some(named) = named
                && !homes.contains(&&*package.name)
            {
                wrong.push(format!("{} must not name {named}", package.name));
            }
        }
    }
    wrong
}

/// Native libraries that can be built only after setup.
const NATIVE: [&str; 4] = ["mlx-sys", "mlx-rs", "llama-cpp-sys-2", "llama-cpp-2"];

/// Plain `cargo test` must pass before setup, so no default member may depend on a native library.
fn builds_anywhere(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|package| package.is_default) {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let mut waiting = vec![&*package.name];
        while let Some(name) = waiting.pop() {
            let found = packages.iter().find(|package| package.name == name);
            if let (true, Some(found)) = (reached.insert(name), found) {
                waiting.extend(found.dependencies.iter().map(|name| &**name));
            }
        }
        if NATIVE.iter().any(|library| reached.contains(library)) {
            wrong.push(format!(
                "{} is a default member and needs a native library",
                package.name
            ));
        }
    }
    wrong
}

fn unmapped(packages: &[Package], map: &str) -> Vec<String> {
    let missing = packages.iter().filter(|package| {
        let is_named = map.contains(&format!("`{}`", package.folder));
        package.folder.starts_with("crates/") && !is_named
    });
    missing
        .map(|package| format!("crates/README.md does not name `{}`", package.folder))
        .collect()
}

#[track_caller]
fn assert_nothing_wrong(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Returns the workspace's packages, from `cargo metadata`.
fn packages() -> Vec<Package> {
    let metadata = cargo_metadata(&["--no-deps"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let root = format!("{}/", text(&metadata["workspace_root"]));
    let packages = metadata["packages"].as_array();
    let defaults = &metadata["workspace_default_members"];
    let packages = packages.expect("cargo metadata lists packages").iter();
    packages
        .map(|package| Package {
            name: text(&package["name"]),
            dependencies: package["dependencies"]
                .as_array()
                .expect("a package lists its dependencies")
                .iter()
                .map(|dependency| text(&dependency["name"]))
                .collect(),
            is_default: defaults
                .as_array()
                .is_some_and(|defaults| defaults.contains(&package["id"])),
            folder: text(&package["manifest_path"])
                .trim_start_matches(&root)
                .trim_end_matches("/Cargo.toml")
                .to_owned(),
        })
        .collect()
}

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/rules_can_fail.rs"]
mod rules_can_fail;
