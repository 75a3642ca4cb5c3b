//! The library of models, in the terms of the commands: which one a text names, and what is said of it.

use std::ffi::OsString;
use std::path::Path;

use transom_library::download::{PlanError, PlanFit, UnknownModel};
use transom_library::{InstalledModel, Library, LookupError, ThisMachine, is_path};
use transom_signals::Hardware;

use crate::console::Console;
use crate::failure::Failure;
use crate::link::Link;
use crate::output::progress::Progress;
use crate::output::stats::bytes_text;
use crate::output::verdict::verdict_text;

/// Opens the library of the data folder. Mistakes in files that the user may edit are notes.
pub(crate) fn open(link: &Link, console: &mut Console) -> Result<Library, Failure> {
    let (library, problems) = read(link)?;
    note(&problems, console);
    Ok(library)
}

fn read(link: &Link) -> Result<(Library, Vec<String>), Failure> {
    Ok(Library::open(link.folder()?, &Hardware::detect()))
}

fn note(problems: &[String], console: &mut Console) {
    for problem in problems {
        console.note(problem);
    }
}

/// Returns this machine with the speed of its memory, which may be measured for half a second.
pub(crate) fn timed(machine: ThisMachine, console: &mut Console) -> ThisMachine {
    machine.with_bandwidth(|| Progress::new(console).show("Measuring the memory …"))
}

/// Opens the library and returns the model that a command uses: the named one, else the one in
/// `$TRANSOM_MODEL`, else the starter. A path and the starter need no lists, so mistakes in those are
/// not noted then.
///
/// # Errors
/// What to do about a model that isn't there.
pub(crate) fn open_for(
    named: Option<&Path>,
    link: &Link,
    console: &mut Console,
) -> Result<(Library, InstalledModel), Failure> {
    let text = wanted(named, std::env::var_os("TRANSOM_MODEL"));
    let (library, problems) = read(link)?;
    if text.as_ref().is_some_and(|text| !is_path(text)) {
        note(&problems, console);
    }
    let model = chosen(&library, text.as_deref())?;
    Ok((library, model))
}

/// The text that names a model; an empty variable names none.
fn wanted(named: Option<&Path>, from_environment: Option<OsString>) -> Option<String> {
    let from_environment = from_environment.filter(|value| !value.is_empty());
    let text = named
        .map(|path| path.as_os_str().to_owned())
        .or(from_environment);
    text.map(|text| text.to_string_lossy().into_owned())
}

/// The model that `text` names, else the starter.
fn chosen(library: &Library, text: Option<&str>) -> Result<InstalledModel, Failure> {
    if let Some(text) = text {
        return Ok(library.resolve(text)?);
    }
    library.starter().ok_or_else(|| {
        Failure::Model(
            "the starter model is not beside the program; name a model with --model or in \
             TRANSOM_MODEL (`transom models list` shows the installed ones)"
                .to_owned(),
        )
    })
}

/// Returns whether a model fits, with the numbers.
pub(crate) fn fit_text(fit: &PlanFit) -> String {
    let (need, room) = (bytes_text(fit.need_bytes), bytes_text(fit.room_bytes));
    let context = match fit.context_length {
        Some(n) => format!(" with a context of {n} tokens"),
        None => " for the weights alone".to_owned(),
    };
    verdict_text(fit.verdict, &format!("needs {need} of {room}{context}"))
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        let advice = match &error {
            LookupError::NotInstalled {
                text,
                quantizations,
                ..
            } if quantizations.is_empty() => {
                format!("; `transom models install {text}` downloads it")
            }
            LookupError::NotInstalled {
                text,
                quantizations,
                ..
            } => format!(
                " as {text}; choose {}, or download it with `transom models install {text}`",
                quantizations.join(", ")
            ),
            LookupError::Repository { text } => {
                format!("; `transom models install {text}` downloads it if the hub has it")
            }
            LookupError::Unknown { text } => format!(
                "; `transom models list` shows the installed ones, `transom models search {text}` \
                 others"
            ),
            LookupError::NoVariant { .. } | LookupError::Path(_) => String::new(),
        };
        Self::Model(format!("{error}{advice}"))
    }
}

impl From<UnknownModel> for Failure {
    fn from(error: UnknownModel) -> Self {
        let advice = match error.similar.as_slice() {
            [] => format!("`transom models search {}` looks on the hub", error.text),
            similar => format!("there is {}", similar.join(", ")),
        };
        Self::Model(format!("{error}; {advice}"))
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Lookup(error) => error.into(),
            PlanError::Hub(error) => error.into(),
            PlanError::Bundled { .. } => Self::Usage(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::Arc;
    use transom_library::test_support::{computer, library};
    use transom_library::{Catalog, Origin, Places};

    fn near(executable: &Path) -> Library {
        let places = Places {
            executable: Some(executable.to_owned()),
            ..Places::default()
        };
        let machine = ThisMachine::simulated(computer());
        Library::new(Arc::new(Catalog::default()), places, machine)
    }

    #[test]
    fn without_a_name_the_starter_is_used_if_it_is_there() {
        let root = tempfile::tempdir().unwrap();
        let library = near(&root.path().join("transom"));
        let failure = chosen(&library, None).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        let starter = root.path().join("assets/starter");
        fs::create_dir_all(&starter).unwrap();
        fs::write(starter.join("config.json"), "{}").unwrap();
        let found = chosen(&library, None).unwrap();
        assert_eq!(found.id, starter.canonicalize().unwrap());
        assert_eq!(found.origin, Origin::Starter);
    }

    #[test]
    fn a_named_model_goes_before_the_environment() {
        let library = near(Path::new("/nowhere/transom"));
        let name = |named: Option<&str>, environment: Option<&str>| {
            let text = wanted(named.map(Path::new), environment.map(OsString::from));
            let found = chosen(&library, text.as_deref());
            found.map(|found| found.name().to_owned())
        };
        assert_eq!(name(Some("./a"), Some("./b")).unwrap(), "a");
        assert_eq!(name(None, Some("./b")).unwrap(), "b");
        assert!(
            name(None, Some("")).is_err(),
            "an empty variable names no model"
        );
    }

    #[test]
    fn a_folder_with_several_models_must_be_narrowed_down() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.gguf", "b.gguf"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let library = near(Path::new("/nowhere/transom"));
        let failure = chosen(&library, root.path().to_str()).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        assert!(
            failure
                .to_string()
                .ends_with("name one of them: a.gguf, b.gguf")
        );
    }

    #[test]
    fn a_model_that_is_not_installed_comes_with_the_command_that_helps() {
        let library = library(Path::new("/nowhere"), computer());
        let told = |text: &str| {
            let failure = chosen(&library, Some(text)).unwrap_err();
            assert_eq!(failure.exit_code(), 3);
            failure.to_string()
        };
        assert_eq!(
            told("tiny"),
            "Tiny 1B is not installed; `transom models install tiny` downloads it"
        );
        assert!(told("owner/name").contains("`transom models install owner/name`"));
        assert!(told("nothing").contains("`transom models search nothing`"));
    }
}
