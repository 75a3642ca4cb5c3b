//! `transom models remove`: removes installed models and shows the freed space. Models that were added
//! by path are only removed from the list.
//!
//! Rule: only files in the models folder are removed, only after a yes, and never a model that is
//! loaded.

use std::path::Path;

use clap::Args;
use transom_files::visible;
use transom_library::{InstalledModel, Library, Origin};

use crate::output::{disk_text, tilde};
use crate::{Client, Console, Failure, Result};

/// Remove models that were installed, and free their space
///
/// Only models in Transom's own folder are removed. A model that you added by path is taken off the
/// list, and its files stay where they are. Models of other apps are never removed.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("../help/models-remove.txt"))]
pub(super) struct RemoveArgs {
    /// Name in `transom models list`
    #[arg(value_name = "MODEL", required = true)]
    pub(super) models: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

pub(super) fn run(
    args: &RemoveArgs,
    library: &Library,
    client: &Client,
    console: &mut Console,
) -> Result {
    for text in &args.models {
        let model = find_removable(text, library)?;
        if let Origin::Added { path } = &model.origin {
            take_off_list(model, path, library, console)?;
        } else {
            check_unloaded(model, text, library, client)?;
            remove(model, args.yes, library, console)?;
        }
    }
    Ok(())
}

/// Returns the only removable model of this name.
fn find_removable<'a>(text: &str, library: &'a Library) -> Result<&'a InstalledModel> {
    let mut models = library.named(text);
    let Some(&first) = models.first() else {
        return Err(Failure::Model(format!(
            "no installed model is called {text}; `transom models list` shows all"
        )));
    };
    models.retain(|model| {
        matches!(model.origin, Origin::Added { .. }) || library.removal(model).is_ok()
    });
    match models.as_slice() {
        [] => library
            .removal(first)
            .map(|_| first)
            .map_err(Failure::usage),
        [only] => Ok(only),
        several => {
            let names = several.iter().map(|model| library.short_name(model));
            let names = names.collect::<Vec<_>>().join(" or ");
            Err(Failure::usage(format!(
                "{text} can be {names}; name one of them"
            )))
        }
    }
}

/// Refuses to remove a loaded model, which would lose the files that it is mapped from.
fn check_unloaded(
    model: &InstalledModel,
    text: &str,
    library: &Library,
    client: &Client,
) -> Result {
    let Some(handle) = client.running()? else {
        return Ok(());
    };
    let status = handle.status().borrow().clone();
    let id = library.id_of(model);
    match status.models.iter().find(|loaded| loaded.id == id) {
        None => Ok(()),
        Some(loaded) => Err(Failure::failed(format!(
            "{} is loaded; unload it first with `transom unload {text}`",
            loaded.name
        ))),
    }
}

/// Takes a model that was added by `path` off the list. Nothing is deleted, so no yes is needed.
fn take_off_list(
    model: &InstalledModel,
    path: &Path,
    library: &Library,
    console: &mut Console,
) -> Result {
    let n_others = library.forget(model).map_err(Failure::failed)?;
    let others = match n_others.unwrap_or(0) {
        0 => String::new(),
        1 => ", with another model in the same folder".to_owned(),
        n => format!(", with {n} other models in the same folder"),
    };
    console.print(&format!(
        "{}: removed from the list{others}; its files stay in {}.\n",
        visible(&library.short_name(model)),
        visible(&tilde(path))
    ))
}

fn remove(model: &InstalledModel, yes: bool, library: &Library, console: &mut Console) -> Result {
    let name = library.short_name(model);
    let removal = library.removal(model).map_err(Failure::failed)?;
    if !yes {
        let (size, place) = (disk_text(removal.bytes), tilde(&model.id));
        confirm(&name, &size, &place, console)?;
    }
    let freed_bytes = library.remove(model).map_err(Failure::failed)?;
    let (name, freed) = (visible(&name), disk_text(freed_bytes));
    console.print(&format!("{name}: removed, {freed} freed.\n"))
}

/// Asks whether to remove the model called `name`, and fails without a yes.
fn confirm(name: &str, size: &str, place: &str, console: &mut Console) -> Result {
    if !console.terminals.stdin {
        return Err(Failure::usage(format!(
            "{name} is removed only after a yes, and standard input is not a terminal; add --yes"
        )));
    }
    let (shown, place) = (visible(name), visible(place));
    console.write_err(&format!("Remove {shown} ({size}) from {place}? [y/N] "));
    let mut line = String::new();
    console.input.read_line(&mut line).map_err(Failure::input)?;
    if line.is_empty() {
        // At the end of the input no newline follows the question.
        console.write_err("\n");
    }
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::usage(format!(
            "{name} was not removed, because you did not type y or yes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Terminals;
    use crate::test_console::TestConsole;
    use crate::test_engine::TestEngine;
    use std::path::PathBuf;
    use transom_catalog::test_support::TinyModel;
    use transom_library::test_support::{computer, install, library};
    use transom_library::{ADDED_FILE, add_paths, read_added};

    fn removed(streams: &mut TestConsole, text: &str, yes: bool, library: &Library) -> Result {
        let args = RemoveArgs {
            models: vec![text.to_owned()],
            yes,
        };
        let client = TestEngine::answering(&[]).client();
        run(&args, library, &client, &mut streams.console())
    }

    fn at_terminal(typed: &str) -> TestConsole {
        let mut streams = TestConsole::typing(typed);
        streams.terminals = Terminals {
            stdin: true,
            stdout: true,
            stderr: true,
        };
        streams
    }

    #[test]
    fn only_a_yes_removes_the_model() {
        let data = tempfile::tempdir().unwrap();
        let path = install(data.path(), "owner/other-GGUF", "other-F16.gguf");
        for typed in ["n\n", "\n", "", "yesterday\n"] {
            let mut streams = at_terminal(typed);
            let library = library(data.path(), computer());
            let failure = removed(&mut streams, "other-F16", false, &library).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            assert!(path.is_file(), "{typed:?}");
            let question = streams.err_text();
            assert!(
                question.starts_with("Remove other-F16 (") && question.contains("[y/N]"),
                "{question}"
            );
        }
        let size = path.metadata().unwrap().len();
        let mut streams = at_terminal("y\n");
        removed(
            &mut streams,
            "other-F16",
            false,
            &library(data.path(), computer()),
        )
        .unwrap();
        assert!(!path.exists());
        assert_eq!(
            streams.out_text(),
            format!("other-F16: removed, {} freed.\n", disk_text(size))
        );
    }

    #[test]
    fn without_a_terminal_the_option_yes_is_needed() {
        let data = tempfile::tempdir().unwrap();
        let path = install(data.path(), "owner/other-GGUF", "other-F16.gguf");
        let library = library(data.path(), computer());
        let mut streams = TestConsole::default();
        let failure = removed(&mut streams, "other-F16", false, &library).unwrap_err();
        assert!(failure.to_string().contains("--yes"), "{failure}");
        assert!(path.is_file());
        removed(&mut streams, "owner/other-GGUF", true, &library).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn an_ambiguous_or_unknown_name_is_refused() {
        let data = tempfile::tempdir().unwrap();
        for file in ["other-F16.gguf", "other-F32.gguf"] {
            install(data.path(), "owner/other-GGUF", file);
        }
        let library = library(data.path(), computer());
        let mut streams = TestConsole::default();
        let failure = removed(&mut streams, "owner/other-GGUF", true, &library).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert_eq!(
            failure.to_string(),
            "owner/other-GGUF can be other-F16 or other-F32; name one of them"
        );
        let failure = removed(&mut streams, "tiny", true, &library).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        assert_eq!(library.installed().len(), 2);
    }

    #[test]
    fn a_model_added_by_path_is_taken_off_the_list_only() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        // An installed model is not removed without a yes.
        install(&data, "owner/other-GGUF", "other-F16.gguf");
        let mine = root.path().join("mine.gguf");
        TinyModel::default().write(&mine);
        let mine = mine.canonicalize().unwrap();
        add_paths(&data, std::slice::from_ref(&mine)).unwrap();
        let library = library(&data, computer());
        assert_eq!(library.installed().len(), 2);
        let mut streams = TestConsole::default();
        removed(&mut streams, "mine", false, &library).unwrap();
        let text = streams.out_text();
        let expect = format!(
            "mine: removed from the list; its files stay in {}.\n",
            tilde(&mine)
        );
        assert_eq!(text, expect);
        assert!(mine.is_file());
        assert_eq!(read_added(&data).unwrap(), Vec::<PathBuf>::new());
        // A damaged list is not replaced.
        std::fs::write(data.join(ADDED_FILE), "oops").unwrap();
        let failure = removed(&mut streams, "mine", false, &library).unwrap_err();
        assert!(
            failure.to_string().contains("added.json, line 1"),
            "{failure}"
        );
    }
}
