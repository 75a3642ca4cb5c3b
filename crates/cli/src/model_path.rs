//! Which model a command uses when the user names none: `--model`, else `$TRANSOM_MODEL`, else the
//! starter model that ships with the program.
//!
//! Rule: the starter is found from the executable alone, never from the working folder, so that
//! the program acts the same wherever it is called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use transom_catalog::forms::Forms;
use transom_catalog::installed::starter_near;

use crate::failure::Failure;
use crate::library::{self, Library};

/// A model to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelPath {
    /// Its name and its forms.
    pub(crate) forms: Forms,
    /// The starter's folder, if the model is the bundled starter: its greeting says so.
    pub(crate) starter: Option<PathBuf>,
}

/// Looks in the order above. `from_environment` is the value of `$TRANSOM_MODEL`; `library` is asked
/// only about what is no path.
pub(crate) fn find(
    named: Option<&Path>,
    from_environment: Option<OsString>,
    executable: Option<&Path>,
    library: impl FnOnce() -> Result<Library, Failure>,
) -> Result<ModelPath, Failure> {
    let starter = executable.and_then(starter_near);
    let from_environment = from_environment.filter(|value| !value.is_empty());
    let wanted = named
        .map(Path::to_path_buf)
        .or(from_environment.map(PathBuf::from));
    let Some(path) = wanted.or_else(|| starter.clone()) else {
        return Err(Failure::Model(
            "the starter model is not beside the program; name a model with --model or in \
             TRANSOM_MODEL (`transom models list` shows those that are here)"
                .into(),
        ));
    };
    let forms = match library::forms_at(&path)? {
        Some(forms) => forms,
        // What is no path is text, for `forms_at` takes all else for one.
        None => library()?.forms(&path.to_string_lossy())?,
    };
    // Named itself, or one of its files.
    let is_starter = |starter: &PathBuf| forms.paths.iter().all(|form| form.starts_with(starter));
    Ok(ModelPath {
        starter: starter.filter(is_starter),
        forms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn find(
        named: Option<&Path>,
        from_environment: Option<OsString>,
        executable: Option<&Path>,
    ) -> Result<ModelPath, Failure> {
        let library = || panic!("only a path is looked for");
        super::find(named, from_environment, executable, library)
    }

    #[test]
    fn without_a_name_the_starter_is_taken_if_it_is_there() {
        let root = tempfile::tempdir().unwrap();
        let executable = root.path().join("transom");
        let failure = find(None, None, Some(&executable)).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        let starter = root.path().join("assets/starter");
        fs::create_dir_all(&starter).unwrap();
        fs::write(starter.join("config.json"), "{}").unwrap();
        let found = find(None, None, Some(&executable)).unwrap();
        let starter = starter.canonicalize().unwrap();
        assert_eq!(found.forms.paths, std::slice::from_ref(&starter));
        assert_eq!(found.starter, Some(starter));
    }

    #[test]
    fn a_folder_that_leaves_a_choice_is_a_bad_model() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.gguf", "b.gguf"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let failure = find(Some(root.path()), None, None).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        assert!(
            failure
                .to_string()
                .ends_with("name one of them: a.gguf, b.gguf")
        );
    }

    #[test]
    fn a_named_model_wins_over_the_environment_and_both_over_the_starter() {
        let named = Path::new("./a");
        let found = |named: Option<&Path>, environment: Option<&str>| {
            find(named, environment.map(OsString::from), None).map(|found| found.forms.name)
        };
        assert_eq!(found(Some(named), Some("./b")).unwrap(), "a");
        assert_eq!(found(None, Some("./b")).unwrap(), "b");
        assert!(
            found(None, Some("")).is_err(),
            "an empty variable names no model"
        );
    }

    #[test]
    fn the_starter_is_recognised_when_it_or_its_file_is_named() {
        let root = tempfile::tempdir().unwrap();
        let starter = root.path().join("assets/starter");
        fs::create_dir_all(&starter).unwrap();
        for name in ["config.json", "starter.gguf"] {
            fs::write(starter.join(name), "{}").unwrap();
        }
        let executable = root.path().join("transom");
        let is_starter = |path: &Path| {
            let found = find(Some(path), None, Some(&executable)).unwrap();
            found.starter.is_some()
        };
        assert!(is_starter(&starter));
        assert!(is_starter(&starter.join("starter.gguf")));
        assert!(!is_starter(root.path()));
    }
}
