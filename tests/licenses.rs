//! Checks that `src-tauri/licenses.txt`, which the About pane shows and bundles contain, lists everything
//! in the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;
use transom_tests::{cargo_metadata, root};

/// The app, the program that runs models, and the one that reads documents.
const PROGRAMS: [&str; 3] = ["transom-app", "transom-cli", "transom-document-reader"];

const TARGET: &str = match cfg!(target_os = "macos") {
    true => "aarch64-apple-darwin",
    false => "x86_64-unknown-linux-gnu",
};

#[test]
fn every_package_in_the_programs_is_in_the_list_of_licenses() {
    let list =
        fs::read_to_string(root().join("src-tauri/licenses.txt")).expect("the list is there");
    let packages = packages_in_programs();
    assert!(packages.len() > 100, "{packages:?}");
    let missing = packages
        .iter()
        .filter(|package| !list.contains(&format!("\n{package} (")));
    let missing: Vec<_> = missing.collect();
    assert!(
        missing.is_empty(),
        "licenses.txt lacks {missing:?}; run `python3 src-tauri/licenses.py`"
    );
}

#[test]
fn every_native_work_is_in_the_list_of_licenses() {
    let folder = root().join("src-tauri");
    let list = fs::read_to_string(folder.join("licenses.txt")).expect("the list is there");
    let files = fs::read_dir(folder.join("native-licenses")).expect("the folder is there");
    let texts = files.map(|file| {
        let path = file.expect("the folder can be read").path();
        fs::read_to_string(path).expect("the file can be read")
    });
    let missing: Vec<String> = texts
        .filter_map(|text| Some(text.lines().next()?.to_owned()))
        .filter(|name| !list.contains(&format!("\n{name}\n")))
        .collect();
    assert!(
        missing.is_empty(),
        "licenses.txt lacks {missing:?}; run `python3 src-tauri/licenses.py`"
    );
}

/// Returns name and version of every package from a registry that the programs contain, as cargo
/// resolves them for this system.
fn packages_in_programs() -> BTreeSet<String> {
    let metadata = cargo_metadata(&["--all-features", "--filter-platform", TARGET]);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let by_id = |values: &Value| -> BTreeMap<String, Value> {
        let values = list(values).into_iter();
        values.map(|value| (text(&value["id"]), value)).collect()
    };
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let mut pending: Vec<String> = packages
        .iter()
        .filter(|(_, package)| PROGRAMS.contains(&text(&package["name"]).as_str()))
        .map(|(id, _)| id.clone())
        .collect();
    let mut seen: BTreeSet<String> = pending.iter().cloned().collect();
    while let Some(id) = pending.pop() {
        for dependency in list(&nodes[&id]["deps"]) {
            // Build and test dependencies have a kind.
            let kinds = list(&dependency["dep_kinds"]);
            let id = text(&dependency["pkg"]);
            if kinds.iter().any(|kind| kind["kind"].is_null()) && seen.insert(id.clone()) {
                pending.push(id);
            }
        }
    }
    let from_registry = seen.iter().map(|id| &packages[id]);
    from_registry
        .filter(|package| !package["source"].is_null())
        .map(|package| format!("{} {}", text(&package["name"]), text(&package["version"])))
        .collect()
}
