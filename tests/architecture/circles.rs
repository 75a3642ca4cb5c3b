//! Modules directly below a crate's root don't import each other in a circle.
//!
//! A module counts with all files below it. Only paths that begin with `crate::` are read, because
//! `super` and `self` rarely leave a module. Tests may import anything.

use std::collections::{BTreeMap, BTreeSet};

use transom_tests::{SourceFile, files_with};

use super::assert_nothing_wrong;

/// The modules that each module of one crate imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_do_not_import_each_other_in_a_circle() {
    let sources = files_with(&["rs"]).unwrap();
    assert!(sources.len() > 100);
    assert_nothing_wrong(&circles(&sources));
}

fn circles(sources: &[SourceFile]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Imports> = BTreeMap::new();
    for source in sources {
        let Some((folder, path)) = source.path.split_once("/src/") else {
            continue;
        };
        let module = path.trim_end_matches(".rs").split('/').next();
        let is_root = ["lib.rs", "main.rs"].contains(&path);
        if let Some(module) = module.filter(|_| !is_root && !path.contains("test")) {
            let modules = crates.entry(folder).or_default();
            let imports = modules.entry(module.to_owned()).or_default();
            imports.extend(imported(&source.text));
        }
    }
    let mut wrong = Vec::new();
    for (folder, modules) in &crates {
        for (module, imports) in modules {
            let back = |import: &&String| *import != module && reaches(modules, import, module);
            for import in imports.iter().filter(back) {
                wrong.push(format!(
                    "{folder}: {module} imports {import}, and that leads back"
                ));
            }
        }
    }
    wrong
}

/// Returns true if the imports of `from` lead to `to`.
fn reaches(modules: &Imports, from: &str, to: &str) -> bool {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(module) = waiting.pop() {
        if module == to {
            return true;
        }
        if let Some(imports) = modules.get(module).filter(|_| reached.insert(module)) {
            waiting.extend(imports.iter().map(|import| &**import));
        }
    }
    false
}

/// Returns the modules in the paths of `text` that begin with `crate::`, up to its tests.
fn imported(text: &str) -> BTreeSet<String> {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let lines = product.lines();
    let code: String = lines
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let paths = code.split("crate::").skip(1);
    paths
        .flat_map(|path| match path.strip_prefix('{') {
            Some(group) => first_names(group),
            None => vec![name(path)],
        })
        .collect()
}

/// Returns the first name of each path in a group of imports, without those of inner groups.
fn first_names(group: &str) -> Vec<String> {
    let mut names = vec![name(group.trim_start())];
    let mut depth = 0;
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name(group[at + 1..].trim_start())),
            _ => {}
        }
    }
    names
}

fn name(path: &str) -> String {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    path.split(|character| !is_part(character))
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_circle_is_found() {
    let source = |path: &str, text: &str| SourceFile {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let sources = [
        source("crates/x/src/a.rs", "use crate::{b::{c, d}, lock};\n"),
        source("crates/x/src/b.rs", "// crate::a is above.\nmod deep;\n"),
        source("crates/x/src/b/deep.rs", "fn f() { crate::c::g() }\n"),
        source(
            "crates/x/src/c.rs",
            "use crate::c::own;\nuse crate::a::A;\n",
        ),
        source(
            "crates/x/src/d.rs",
            "use crate::a::A;\n#[cfg(test)]\nmod tests {}\n",
        ),
        source("crates/x/src/lib.rs", "use crate::a::A;\n"),
        source("crates/y/src/a.rs", "use crate::b::B;\n"),
        source(
            "crates/y/src/b.rs",
            "#[cfg(test)]\nmod tests { use crate::a::A; }\n",
        ),
    ];
    assert_eq!(
        circles(&sources),
        [
            "crates/x: a imports b, and that leads back",
            "crates/x: b imports c, and that leads back",
            "crates/x: c imports a, and that leads back",
        ]
    );
}
