//! Each rule fails on a bad sample.

use super::*;

fn package(name: &str, dependencies: &[&str]) -> Package {
    Package {
        name: name.to_owned(),
        dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        is_default: true,
        folder: format!("crates/{name}"),
    }
}

#[test]
fn an_arrow_that_is_not_on_the_map() {
    let packages = [package("a", &["b", "a", "serde"]), package("b", &[])];
    let wrong = arrows(&packages, &[("a", &[]), ("b", &[])]);
    assert_eq!(wrong, ["a must not import b"]);
    assert!(arrows(&packages, &[("a", &["b"]), ("b", &[])]).is_empty());
    let packages = [package("a", &[LEAF]), package(LEAF, &[])];
    assert!(arrows(&packages, &[("a", &[]), (LEAF, &[])]).is_empty());
}

#[test]
fn a_crate_without_an_entry() {
    let wrong = arrows(&[package("a", &[])], &[]);
    assert_eq!(wrong, ["a has no entry in ARROWS"]);
    assert_eq!(
        unmapped(&[package("a", &[])], "`crates/b`"),
        ["crates/README.md does not name `crates/a`"]
    );
}

#[test]
fn a_native_library_outside_its_crate() {
    let packages = [package("cli", &["mlx-sys"]), package("mlx", &["mlx-rs"])];
    let wrong = kept(&packages, &[("mlx-*", &["mlx"]), ("tokio", &[])]);
    assert_eq!(wrong, ["cli must not name mlx-sys"]);
}

#[test]
fn a_page_that_reaches_the_app_by_itself() {
    let page = |path: &str| SourceFile {
        path: path.to_owned(),
        text: "import { invoke } from \"@tauri-apps/api/core\";".to_owned(),
    };
    let wrong = said(&[page("ui/src/chat/a.ts")], SAID_IN);
    assert_eq!(
        wrong,
        ["ui/src/chat/a.ts says @tauri-apps, which only ui/src/ipc/ may"]
    );
    let allowed = [page("ui/src/ipc/a.ts"), page("ui/src/chat/a.test.ts")];
    assert!(said(&allowed, SAID_IN).is_empty());
}

#[test]
fn a_shell_that_decides_what_the_library_does() {
    let source = |path: &str| SourceFile {
        path: path.to_owned(),
        text: "use transom_catalog::choice;".to_owned(),
    };
    let wrong = decided(&[source("src-tauri/src/a.rs")], LIBRARY_DECIDES);
    assert_eq!(
        wrong,
        ["src-tauri/src/a.rs says transom_catalog, which crates/library decides"]
    );
    let allowed = [
        "crates/reports/src/model_files.rs",
        "crates/library/src/lib.rs",
    ];
    assert!(decided(&allowed.map(source), LIBRARY_DECIDES).is_empty());
}

#[test]
fn a_default_member_that_reaches_a_native_library_through_another() {
    for library in NATIVE {
        let packages = [package("a", &["b"]), package("b", &[library])];
        assert_eq!(builds_anywhere(&packages).len(), 2);
    }
    let packages = [package("a", &["b"])];
    assert!(builds_anywhere(&packages).is_empty());
}
