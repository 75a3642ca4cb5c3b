//! The list of commands compared with the calls of pages and with the permissions of windows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::names::COMMANDS;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join(path)).unwrap()
}

/// Returns the names that `commands.ts` calls.
fn called() -> BTreeSet<String> {
    let text = read("../ui/src/ipc/commands.ts");
    let calls = text.split("invoke").skip(1).filter_map(|rest| {
        // A type may be between the function and its arguments.
        let arguments = &rest[rest.find('(')? + 1..];
        let name = arguments.trim_start().strip_prefix('"')?;
        Some(name[..name.find('"')?].to_owned())
    });
    calls.collect()
}

fn known() -> BTreeSet<String> {
    COMMANDS.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn pages_call_every_command_and_no_other() {
    let (called, known) = (called(), known());
    let unknown: Vec<_> = called.difference(&known).collect();
    let unused: Vec<_> = known.difference(&called).collect();
    assert!(
        unknown.is_empty(),
        "commands.ts calls {unknown:?}, names.rs lacks them"
    );
    assert!(
        unused.is_empty(),
        "names.rs has {unused:?}, commands.ts does not call them"
    );
}

#[test]
fn windows_are_allowed_commands_that_there_are_and_each_is_allowed_somewhere() {
    let mut allowed = BTreeSet::new();
    for window in ["chat", "prompt", "settings"] {
        let text = read(&format!("capabilities/{window}.json"));
        let capability: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(capability["windows"], serde_json::json!([window]));
        for permission in capability["permissions"].as_array().unwrap() {
            let permission = permission.as_str().unwrap();
            match permission.strip_prefix("allow-") {
                Some(command) => allowed.insert(command.replace('-', "_")),
                None => {
                    // Apart from our commands, pages may listen to events and move their window.
                    let may = ["core:event:allow-", "core:window:allow-start-"];
                    assert!(
                        may.iter().any(|may| permission.starts_with(may)),
                        "{permission}"
                    );
                    continue;
                }
            };
        }
    }
    assert_eq!(allowed, known());
}
