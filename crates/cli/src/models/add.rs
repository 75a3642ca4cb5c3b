//! `transom models install ./path`: a model that is on the disk is put on the list, as when it is dropped
//! on a window of the app.
//!
//! Rule: it is used where it lies; nothing is copied, moved or fetched.

use std::path::Path;

use serde::Serialize;
use transom_files::visible;
use transom_library::{AddedError, AddedModel, Library, is_path, usable_model_at};

use crate::console::Console;
use crate::failure::Failure;
use crate::models::install::tilde;
use crate::output::json::write_line;

/// What programs are told, one JSON object a line.
#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    path: &'a Path,
    /// `added`, or `here` if it was on the list before.
    state: &'a str,
}

/// Whether `text` means a path and no name: it can be nothing else, or something lies there that no
/// hub has.
pub(super) fn is_on_disk(text: &str) -> bool {
    text.starts_with(['/', '.', '~']) || (is_path(text) && Path::new(text).exists())
}

/// Puts the model at `path` on the list; with `dry_run` it is only said what would be.
pub(super) fn run(
    path: &Path,
    dry_run: bool,
    json: bool,
    library: &Library,
    console: &mut Console,
) -> Result<(), Failure> {
    let failed = |error: AddedError| match error {
        AddedError::NoModel { .. } | AddedError::NotText { .. } => {
            Failure::Model(error.to_string())
        }
        AddedError::Damaged { .. }
        | AddedError::Newer { .. }
        | AddedError::Unreadable { .. }
        | AddedError::NotWritable { .. } => Failure::Instance(error.to_string()),
    };
    if dry_run {
        let model = usable_model_at(path).map_err(failed)?;
        let place = tilde(&model.id);
        console.note_plain(&format!(
            "{}: would be used where it lies, in {}\n",
            visible(model.name()),
            visible(&place)
        ));
        return Ok(());
    }
    let AddedModel { model, is_new } = library.add(path).map_err(failed)?;
    // With the new one, for its name must be the only one of its kind.
    let library = library.refreshed();
    let name = library.short_name(&model);
    if json {
        let told = Told {
            name: &name,
            path: &model.id,
            state: if is_new { "added" } else { "here" },
        };
        return write_line(console.out, &told).map_err(Failure::Output);
    }
    let place = tilde(&model.id);
    match is_new {
        false => console.note(&format!("{name} is here already, in {place}.")),
        true => {
            console.note(&format!(
                "{name} is on the list now, and used where it lies, in {place}."
            ));
            console.note(&format!("Try it: transom chat --model {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;
    use transom_catalog::test_support::TinyModel;
    use transom_library::test_support::{computer, install, library};
    use transom_library::{ADDED_FILE, Origin};

    #[test]
    fn a_path_is_told_from_names_and_addresses() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b.gguf");
        for text in [
            "./a",
            "../a.gguf",
            "/nowhere",
            "~/models/a",
            file.to_str().unwrap(),
        ] {
            assert!(is_on_disk(text), "{text}");
        }
        for text in [
            "qwen3-4b",
            "qwen3-4b@Q8_0",
            "owner/name",
            "owner/name:sub/c.gguf",
            "https://huggingface.co/a/b/blob/main/c.gguf",
            "hf.co/a/b:Q4_K_M",
            "nowhere.gguf",
        ] {
            assert!(!is_on_disk(text), "{text}");
        }
    }

    #[test]
    fn a_model_on_the_disk_is_listed_and_used_where_it_lies() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        let mine = root.path().join("mine.gguf");
        TinyModel::default().write(&mine);
        let added = |dry_run: bool, json: bool| {
            let mut streams = TestConsole::default();
            let library = library(&data, computer());
            run(&mine, dry_run, json, &library, &mut streams.console()).unwrap();
            (streams.out_text(), streams.err_text())
        };
        let (_, told) = added(true, false);
        assert!(
            told.starts_with("mine: would be used where it lies"),
            "{told}"
        );
        assert!(!data.exists(), "nothing was done");
        let (_, told) = added(false, false);
        assert!(told.contains("mine is on the list now") && told.contains("chat --model mine"));
        let library = library(&data, computer());
        let model = library.find("mine").unwrap();
        assert_eq!(model.origin, Origin::Added { path: mine.clone() });
        assert_eq!(model.files.paths, [mine.canonicalize().unwrap()]);
        let (_, told) = added(false, false);
        assert!(told.contains("mine is here already"), "{told}");
        let (told, _) = added(false, true);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(
            (&told["name"], &told["state"]),
            (&"mine".into(), &"here".into())
        );
    }

    #[test]
    fn what_cannot_be_added_is_refused_with_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        install(&data, "owner/other-GGUF", "other-F16.gguf");
        let library = library(&data, computer());
        let mut streams = TestConsole::default();
        let mut refused = |path: &Path| {
            let failure = run(path, false, false, &library, &mut streams.console());
            failure.unwrap_err()
        };
        let failure = refused(&root.path().join("gone.gguf"));
        assert_eq!(failure.exit_code(), 3);
        assert!(failure.to_string().contains("gone.gguf"), "{failure}");
        let mine = root.path().join("mine.gguf");
        TinyModel::default().write(&mine);
        std::fs::write(data.join(ADDED_FILE), "oops").unwrap();
        let failure = refused(&mine);
        assert_eq!(failure.exit_code(), 1);
        assert!(failure.to_string().contains("fix the file"), "{failure}");
    }
}
