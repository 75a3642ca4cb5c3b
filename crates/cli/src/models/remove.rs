//! `transom models remove`: removes what was fetched, and says how much room that made; what was added
//! by path is only taken off the list.
//!
//! Rule: only what lies in the models folder goes, only after a yes, and never a model that is in
//! memory.

use std::path::Path;

use clap::Args;
use transom_files::visible;
use transom_library::{InstalledModel, Library, Origin, RemoveError};

use crate::console::Console;
use crate::failure::Failure;
use crate::link::Link;
use crate::models::install::tilde;
use crate::output::size::disk_text;

/// Remove models that were installed, and free their space
///
/// Only models in Transom's own folder are removed. What you added by path is taken off the list, and
/// its files stay where they are; what other apps have is left to them.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom models remove qwen3-4b
  transom models remove qwen3-4b@Q8_0 --yes     without asking
  transom models remove my-model                added by path: only forgotten, nothing is deleted

Exit codes: 0 removed, 1 it is loaded or the disk refused, 2 not confirmed or more than one is meant,
3 no such model.")]
pub(super) struct RemoveArgs {
    /// Name in `transom models list`
    #[arg(value_name = "MODEL", required = true)]
    pub(super) models: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

/// Runs the command.
pub(super) fn run(
    args: &RemoveArgs,
    library: &Library,
    link: &Link,
    console: &mut Console,
) -> Result<(), Failure> {
    for text in &args.models {
        let model = the_one(text, library)?;
        if let Origin::Added { path } = &model.origin {
            forget(model, path, library, console)?;
            continue;
        }
        check_unloaded(model, text, library, link)?;
        remove(model, args.yes, library, console)?;
    }
    Ok(())
}

/// The only model of this name that can be meant.
fn the_one<'a>(text: &str, library: &'a Library) -> Result<&'a InstalledModel, Failure> {
    let models = library.named(text);
    let is_removable = |model: &&InstalledModel| {
        matches!(model.origin, Origin::Added { .. }) || library.removal(model).is_ok()
    };
    let removable: Vec<&InstalledModel> = models.iter().copied().filter(is_removable).collect();
    match (removable.as_slice(), models.as_slice()) {
        ([only], _) => Ok(only),
        ([], [first, ..]) => match library.removal(first) {
            Err(error) => Err(Failure::Usage(error.to_string())),
            Ok(_) => Ok(first),
        },
        ([], []) => {
            let advice = "`transom models list` shows those that are here";
            Err(Failure::Model(format!(
                "no model here is called {text}; {advice}"
            )))
        }
        (several, _) => {
            let names = several.iter().map(|model| library.short_name(model));
            Err(Failure::Usage(format!(
                "{text} may be {}; name one of them",
                names.collect::<Vec<_>>().join(" or ")
            )))
        }
    }
}

/// A model in memory would lose the files that it is mapped from.
fn check_unloaded(
    model: &InstalledModel,
    text: &str,
    library: &Library,
    link: &Link,
) -> Result<(), Failure> {
    let Some(handle) = link.running()? else {
        return Ok(());
    };
    let status = handle.status().borrow().clone();
    let mut loaded = status.models.iter();
    let id = library.id_of(model);
    match loaded.find(|loaded| loaded.id == id) {
        None => Ok(()),
        Some(loaded) => Err(Failure::Restrained(format!(
            "{} is loaded; `transom unload {text}` gives its memory back first",
            loaded.name
        ))),
    }
}

/// Takes what was added at `path` off the list; nothing is deleted, so nobody is asked.
fn forget(
    model: &InstalledModel,
    path: &Path,
    library: &Library,
    console: &mut Console,
) -> Result<(), Failure> {
    let forgotten = library.forget(model);
    let n_others = forgotten.map_err(|error| Failure::Instance(error.to_string()))?;
    let with_others = match n_others.unwrap_or(0) {
        0 => String::new(),
        1 => ", with another model in the same folder".to_owned(),
        n => format!(", with {n} other models in the same folder"),
    };
    console.print(&format!(
        "{}: taken off the list{with_others}; its files stay in {}.\n",
        visible(&library.short_name(model)),
        visible(&tilde(path))
    ))
}

fn remove(
    model: &InstalledModel,
    yes: bool,
    library: &Library,
    console: &mut Console,
) -> Result<(), Failure> {
    let name = library.short_name(model);
    let wrong = |error: RemoveError| Failure::Instance(error.to_string());
    let removal = library.removal(model).map_err(wrong)?;
    if !yes && !confirmed(model, &name, removal.bytes, console)? {
        return Err(Failure::Usage(format!("{name} stays: nothing was removed")));
    }
    let freed = library.remove(model).map_err(wrong)?;
    console.print(&format!(
        "{}: removed, {} freed.\n",
        visible(&name),
        disk_text(freed.bytes)
    ))
}

fn confirmed(
    model: &InstalledModel,
    name: &str,
    bytes: u64,
    console: &mut Console,
) -> Result<bool, Failure> {
    if !console.terminals.stdin {
        return Err(Failure::Usage(format!(
            "{name} is removed only after a yes, and nobody can be asked; say --yes"
        )));
    }
    console.ask(&format!(
        "Remove {} ({}) from {}? [y/N] ",
        visible(name),
        disk_text(bytes),
        visible(&tilde(&model.id))
    ));
    let mut line = String::new();
    console.input.read_line(&mut line).map_err(Failure::Input)?;
    if line.is_empty() {
        // The end of the input ends the line that was asked on.
        console.ask("\n");
    }
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
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

    fn removed(
        streams: &mut TestConsole,
        text: &str,
        yes: bool,
        library: &Library,
    ) -> Result<(), Failure> {
        let args = RemoveArgs {
            models: vec![text.to_owned()],
            yes,
        };
        let link = TestEngine::answering(&[]).link();
        run(&args, library, &link, &mut streams.console())
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
    fn it_is_asked_first_and_anything_but_yes_keeps_the_model() {
        let data = tempfile::tempdir().unwrap();
        let path = install(data.path(), "owner/other-GGUF", "other-F16.gguf");
        for typed in ["n\n", "\n", "", "yesterday\n"] {
            let mut streams = at_terminal(typed);
            let library = library(data.path(), computer());
            let failure = removed(&mut streams, "other-F16", false, &library).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            assert!(path.is_file(), "{typed:?}");
            let asked = streams.err_text();
            assert!(
                asked.starts_with("Remove other-F16 (") && asked.contains("[y/N]"),
                "{asked}"
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
    fn without_a_person_it_takes_the_flag() {
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
    fn a_name_that_leaves_a_choice_or_names_nothing_is_refused() {
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
            "owner/other-GGUF may be other-F16 or other-F32; name one of them"
        );
        let failure = removed(&mut streams, "tiny", true, &library).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        assert_eq!(library.installed().len(), 2);
    }

    #[test]
    fn what_was_added_by_path_is_only_forgotten_and_that_is_said() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        // Nothing that is installed would be removed without a yes.
        install(&data, "owner/other-GGUF", "other-F16.gguf");
        let mine = root.path().join("mine.gguf");
        TinyModel::default().write(&mine);
        let mine = mine.canonicalize().unwrap();
        add_paths(&data, std::slice::from_ref(&mine)).unwrap();
        let library = library(&data, computer());
        assert_eq!(library.installed().len(), 2);
        let mut streams = TestConsole::default();
        removed(&mut streams, "mine", false, &library).unwrap();
        let told = streams.out_text();
        let expect = format!(
            "mine: taken off the list; its files stay in {}.\n",
            tilde(&mine)
        );
        assert_eq!(told, expect);
        assert!(mine.is_file());
        assert_eq!(read_added(&data).unwrap(), Vec::<PathBuf>::new());
        // A list that is damaged is no reason to forget what is in it.
        std::fs::write(data.join(ADDED_FILE), "oops").unwrap();
        let failure = removed(&mut streams, "mine", false, &library).unwrap_err();
        assert!(
            failure.to_string().contains("added.json, line 1"),
            "{failure}"
        );
    }
}
