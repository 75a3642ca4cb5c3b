//! Opens the library of models, and finds the model that a command line names.

use std::ffi::OsString;
use std::path::Path;

use transom_library::download::{PlanError, UnknownModel};
use transom_library::{InstalledModel, Library, LookupError, is_path};
use transom_signals::Hardware;

use crate::{Client, Console, Failure, Result};

/// Opens the library of the data folder. Mistakes in files that the user may edit are noted.
pub(crate) fn open(client: &Client, console: &mut Console) -> Result<Library> {
    open_to_find("", client, console)
}

/// Opens the library to find the model that `text` names. A path needs no lists, so mistakes in lists
/// are noted only if it is not a path.
pub(crate) fn open_to_find(text: &str, client: &Client, console: &mut Console) -> Result<Library> {
    let (library, problems) = Library::open(client.data_folder()?, &Hardware::detect());
    for problem in problems.iter().filter(|_| !is_path(text)) {
        console.note(problem);
    }
    Ok(library)
}

/// Opens the library and returns the model that a command uses: the named one, else the one in
/// `$TRANSOM_MODEL`, else the default one.
///
/// # Errors
/// The model is not there; the message says what to do.
pub(crate) fn open_for(
    named: Option<&Path>,
    client: &Client,
    console: &mut Console,
) -> Result<(Library, InstalledModel)> {
    let text = name_of_model(named, std::env::var_os("TRANSOM_MODEL"));
    // The starter, which is the default, needs no lists either.
    let library = open_to_find(text.as_deref().unwrap_or("."), client, console)?;
    let model = find_or_default(&library, text.as_deref())?;
    Ok((library, model))
}

/// Returns the text that names a model; an empty variable names none.
fn name_of_model(named: Option<&Path>, from_environment: Option<OsString>) -> Option<String> {
    let from_environment = from_environment.filter(|value| !value.is_empty());
    let text = named.map(|path| path.as_os_str().to_owned());
    Some(text.or(from_environment)?.to_string_lossy().into_owned())
}

/// Returns the model that `text` names, else the default one.
fn find_or_default(library: &Library, text: Option<&str>) -> Result<InstalledModel> {
    if let Some(text) = text {
        return Ok(library.resolve(text)?);
    }
    library.default_model().ok_or_else(|| {
        Failure::Model(
            "no model is installed, and the starter is not beside the program; download one with \
             `transom models install NAME` (`transom inspect` recommends some), or name a file \
             with --model or in TRANSOM_MODEL"
                .to_owned(),
        )
    })
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        let advice = match &error {
            LookupError::NotInstalled {
                text,
                quantizations,
                ..
            } => match quantizations.as_slice() {
                [] => format!("; `transom models install {text}` downloads it"),
                others => format!(
                    " as {text}; choose {}, or download it with `transom models install {text}`",
                    others.join(", ")
                ),
            },
            LookupError::Repository { text } => {
                format!("; `transom models install {text}` downloads it if the hub has it")
            }
            LookupError::Unknown { text } => format!(
                "; `transom models list` shows the installed ones, `transom models search {text}` \
                 others"
            ),
            LookupError::NoVariant { .. }
            | LookupError::Path(_)
            | LookupError::NoEstimate { .. } => String::new(),
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
    use transom_library::{Catalog, Origin, Places, ThisMachine};

    fn near(executable: &Path) -> Library {
        let places = Places {
            executable: Some(executable.to_owned()),
            ..Places::default()
        };
        let machine = ThisMachine::simulated(computer());
        Library::new(Arc::new(Catalog::default()), places, machine)
    }

    #[test]
    fn without_a_name_the_default_model_is_used() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("transom");
        let failure = find_or_default(&near(&program), None).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        let starter = root.path().join("assets/starter");
        fs::create_dir_all(&starter).unwrap();
        fs::write(starter.join("config.json"), "{}").unwrap();
        let found = find_or_default(&near(&program), None).unwrap();
        assert_eq!(found.id, starter.canonicalize().unwrap());
        assert_eq!(found.origin, Origin::Starter);
    }

    #[test]
    fn a_named_model_takes_precedence_over_the_environment() {
        let library = near(Path::new("/nowhere/transom"));
        let name = |named: Option<&str>, environment: Option<&str>| {
            let text = name_of_model(named.map(Path::new), environment.map(OsString::from));
            let found = find_or_default(&library, text.as_deref());
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
    fn a_folder_with_several_models_is_refused_with_their_names() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.gguf", "b.gguf"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let library = near(Path::new("/nowhere/transom"));
        let failure = find_or_default(&library, root.path().to_str()).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        assert!(
            failure
                .to_string()
                .ends_with("name one of them: a.gguf, b.gguf")
        );
    }

    #[test]
    fn the_error_for_a_model_that_is_not_installed_names_a_command() {
        let library = library(Path::new("/nowhere"), computer());
        let message = |text: &str| {
            let failure = find_or_default(&library, Some(text)).unwrap_err();
            assert_eq!(failure.exit_code(), 3);
            failure.to_string()
        };
        assert_eq!(
            message("tiny"),
            "Tiny 1B is not installed; `transom models install tiny` downloads it"
        );
        assert!(message("owner/name").contains("`transom models install owner/name`"));
        assert!(message("nothing").contains("`transom models search nothing`"));
    }
}
