//! `transom models install ./path`: adds a model on the disk to the list, like a drop on a window of
//! the app.
//!
//! Rule: the model is used where it is; nothing is copied, moved or downloaded.

use std::path::Path;

use serde_json::json;
use transom_files::visible;
use transom_library::{AddedError, AddedModel, Library, is_path, usable_model_at};

use crate::output::tilde;
use crate::{Console, Failure, Result};

/// Returns true if `text` can only be a path, or if a file is there that no hub has.
pub(super) fn is_on_disk(text: &str) -> bool {
    text.starts_with(['/', '.', '~']) || (is_path(text) && Path::new(text).exists())
}

/// Adds the model at `path` to the list; with `dry_run` only shows what would be added.
pub(super) fn run(
    path: &Path,
    dry_run: bool,
    json: bool,
    library: &Library,
    console: &mut Console,
) -> Result {
    let failed = |error: AddedError| match error {
        AddedError::NoModel { .. } | AddedError::NotText { .. } => {
            Failure::Model(error.to_string())
        }
        error => Failure::failed(error),
    };
    if dry_run {
        let model = usable_model_at(path).map_err(failed)?;
        let (name, place) = (visible(model.name()), tilde(&model.id));
        let place = visible(&place);
        console.write_err(&format!("{name}: would be used where it is, in {place}\n"));
        return Ok(());
    }
    let AddedModel { model, is_new } = library.add(path).map_err(failed)?;
    // With the new model, because its name must be unique among all.
    let library = library.refreshed();
    let name = library.short_name(&model);
    if json {
        let state = if is_new { "added" } else { "known" };
        let path = model.id.to_string_lossy();
        return console.print_json(&json!({ "name": name, "path": path, "state": state }));
    }
    let place = tilde(&model.id);
    if is_new {
        console.note(&format!(
            "{name} was added and is used in place, in {place}."
        ));
        console.note(&format!("Try it: transom chat --model {name}"));
    } else {
        console.note(&format!("{name} was added earlier, in {place}."));
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
    fn a_path_is_not_a_name_or_an_address() {
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
    fn a_model_on_the_disk_is_listed_and_used_where_it_is() {
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
        let (_, text) = added(true, false);
        assert!(
            text.starts_with("mine: would be used where it is"),
            "{text}"
        );
        assert!(!data.exists(), "nothing was changed");
        let (_, text) = added(false, false);
        assert!(text.contains("mine was added and") && text.contains("chat --model mine"));
        let library = library(&data, computer());
        let model = library.find("mine").unwrap();
        assert_eq!(model.origin, Origin::Added { path: mine.clone() });
        assert_eq!(model.files.paths, [mine.canonicalize().unwrap()]);
        let (_, text) = added(false, false);
        assert!(text.contains("mine was added earlier"), "{text}");
        let (text, _) = added(false, true);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&json["name"], &json["state"]),
            (&"mine".into(), &"known".into())
        );
    }

    #[test]
    fn a_path_that_cannot_be_added_is_refused_with_the_reason() {
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
