//! Why a model cannot be used, found, added or removed, as codes that pages translate.

use transom_files::file_name;
use transom_library::download::{PlanError, UnknownModel};
use transom_library::{AddedError, FileError, LookupError, RemoveError};

use crate::catalog;
use crate::wire::{CommandError, ModelErrorView};

/// Returns the code of a file's error and the values for its sentence.
pub(crate) fn file_error(error: &FileError) -> ModelErrorView {
    ModelErrorView {
        code: catalog::code_of(&error.fault.code),
        file: file_name(&error.path),
        value: error.fault.value.clone(),
        detail: error.to_string(),
    }
}

/// Returns an error about the file or model called `file`; its sentence may also name `value`.
fn coded(code: &str, file: String, value: String, error: &impl ToString) -> CommandError {
    CommandError::Model {
        error: ModelErrorView {
            code: code.to_owned(),
            file,
            value,
            detail: error.to_string(),
        },
    }
}

impl From<FileError> for CommandError {
    fn from(error: FileError) -> Self {
        Self::Model {
            error: file_error(&error),
        }
    }
}

impl From<LookupError> for CommandError {
    fn from(error: LookupError) -> Self {
        let (code, model, value) = match &error {
            LookupError::Path(error) => return error.clone().into(),
            LookupError::NotInstalled { title, .. } => ("not_installed", title, ""),
            LookupError::NoVariant { entry, text, .. } => ("no_variant", entry, &**text),
            LookupError::Repository { text } | LookupError::Unknown { text } => {
                ("no_model", text, "")
            }
            LookupError::NoEstimate { id, .. } => ("no_estimate", id, ""),
        };
        coded(code, model.clone(), value.to_owned(), &error)
    }
}

impl From<UnknownModel> for CommandError {
    fn from(error: UnknownModel) -> Self {
        coded("no_model", error.text.clone(), String::new(), &error)
    }
}

impl From<PlanError> for CommandError {
    fn from(error: PlanError) -> Self {
        match &error {
            PlanError::Lookup(error) => error.clone().into(),
            PlanError::Hub(error) => error.clone().into(),
            PlanError::Bundled { entry } => coded("included", entry.clone(), String::new(), &error),
        }
    }
}

impl From<AddedError> for CommandError {
    fn from(error: AddedError) -> Self {
        let (code, path, value) = match &error {
            AddedError::NoModel(error) => return error.clone().into(),
            AddedError::Damaged { path, line, .. } => ("list_damaged", path, line.to_string()),
            AddedError::Newer { path, .. } => ("list_newer", path, String::new()),
            AddedError::Unreadable { path, .. } => ("unreadable", path, String::new()),
            AddedError::NotWritable { path, .. } => ("not_writable", path, String::new()),
            AddedError::NotText { path } => ("not_text", path, String::new()),
        };
        coded(code, file_name(path), value, &error)
    }
}

impl From<RemoveError> for CommandError {
    fn from(error: RemoveError) -> Self {
        let (code, file, value) = match &error {
            RemoveError::Starter { name } => ("included", name.clone(), ""),
            RemoveError::Added { name, .. } => ("yours", name.clone(), ""),
            RemoveError::OtherApp { name, app } => ("other_app", name.clone(), app.name()),
            RemoveError::Outside { path } => ("link", file_name(path), ""),
            RemoveError::Gone { path } => ("not_found", file_name(path), ""),
            RemoveError::Failed { path, .. } => ("not_removed", file_name(path), ""),
        };
        coded(code, file, value.to_owned(), &error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Checks the code and the values of an error, and that pages have a sentence for its code.
    #[track_caller]
    fn check(error: impl Into<CommandError>, code: &str, file: &str, value: &str) {
        let CommandError::Model { error } = error.into() else {
            panic!("{code} is not an error of a model");
        };
        assert_eq!(
            (&*error.code, &*error.file, &*error.value),
            (code, file, value)
        );
        let texts = include_str!("../../ui/src/i18n/en/models.json");
        let key = format!("\"model_error.{code}\"");
        assert!(texts.contains(&key), "{key}");
    }

    #[test]
    fn errors_of_models_have_codes_with_sentences() {
        let path = || Path::new("/data/added.json").to_owned();
        let reason = || "a reason".to_owned();
        let name = || "M".to_owned();
        let damaged = AddedError::Damaged {
            path: path(),
            line: 3,
            column: 1,
            reason: reason(),
        };
        check(damaged, "list_damaged", "added.json", "3");
        let newer = AddedError::Newer {
            path: path(),
            version: 2,
        };
        check(newer, "list_newer", "added.json", "");
        let unwritable = AddedError::NotWritable {
            path: path(),
            reason: reason(),
        };
        check(unwritable, "not_writable", "added.json", "");
        let unstorable = AddedError::NotText { path: path() };
        check(unstorable, "not_text", "added.json", "");
        let of_starter = RemoveError::Starter { name: name() };
        check(of_starter, "included", "M", "");
        let of_user = RemoveError::Added {
            name: name(),
            path: path(),
        };
        check(of_user, "yours", "M", "");
        let link = RemoveError::Outside { path: path() };
        check(link, "link", "added.json", "");
        let failed = RemoveError::Failed {
            path: path(),
            reason: reason(),
            freed_bytes: 0,
        };
        check(failed, "not_removed", "added.json", "");
        let absent = LookupError::NotInstalled {
            text: reason(),
            title: name(),
            quantizations: Vec::new(),
        };
        check(absent, "not_installed", "M", "");
        let variant = LookupError::NoVariant {
            entry: name(),
            text: "Q9".to_owned(),
            quantizations: Vec::new(),
        };
        check(variant, "no_variant", "M", "Q9");
        check(LookupError::Unknown { text: name() }, "no_model", "M", "");
        let unknown = LookupError::NoEstimate {
            id: name(),
            reason: reason(),
        };
        check(unknown, "no_estimate", "M", "");
    }
}
