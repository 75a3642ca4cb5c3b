//! Names of models: one stable id each, and the names that people may type instead.
//!
//! An id says what a model is, and not where its files are: `qwen3-4b@Q4_K_M` for a variant of the
//! catalog, `owner/name` or `owner/name:Q4_K_M` for a repository of the hub. A model that neither
//! knows, and a second copy, have their path. Settings, status, the wire protocol and commands use
//! the id.

use std::path::Path;

use transom_catalog::{Entry, FileError, Format, InstalledModel, Origin, Variant, model_files};

use crate::Library;

/// Why no installed model has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LookupError {
    /// It is in the catalog, but not installed.
    #[error("{title} is not installed")]
    NotInstalled {
        text: String,
        title: String,
        /// Quantizations that can be installed, if another one is installed; else empty.
        quantizations: Vec<String>,
    },
    /// The entry has no such quantization or format.
    #[error("{entry} is not available as {text}; choose {}", quantizations.join(", "))]
    NoVariant {
        entry: String,
        text: String,
        quantizations: Vec<String>,
    },
    /// The text may be a repository of the hub.
    #[error("nothing is at {text}, and no model of that name is installed")]
    Repository { text: String },
    /// No model has this name.
    #[error("no model is called {text}")]
    Unknown { text: String },
    /// The text is a path without a model.
    #[error(transparent)]
    Path(#[from] FileError),
    /// There is such a model, but its memory can't be estimated.
    #[error("{reason}")]
    NoEstimate { id: String, reason: String },
}

impl Library {
    /// Returns the id of a model. It stays the same while the model is installed.
    pub fn id_of(&self, model: &InstalledModel) -> String {
        let path = || model.id.to_string_lossy().into_owned();
        let Some(id) = self.id_by_origin(model) else {
            return path();
        };
        if model.origin == Origin::Starter {
            return id;
        }
        // The first of several copies has the id.
        let mut copies = self.installed().iter();
        let holder = copies.find(|other| self.id_by_origin(other).as_ref() == Some(&id));
        match holder {
            Some(holder) if holder.id != model.id => path(),
            _ => id,
        }
    }

    /// Returns the name to show for the id of a model that may no longer be installed: the catalog's if
    /// it knows the id, else the id itself.
    pub fn title_of(&self, id: &str) -> String {
        if let Ok(model) = self.resolve(id) {
            return model.title(&self.catalog);
        }
        let (entry, quantization) = id.split_once('@').unwrap_or((id, ""));
        match self.catalog.find(entry) {
            Some(entry) => entry.title(quantization),
            None => id.to_owned(),
        }
    }

    /// Returns the id from the catalog or the hub; `None` if neither knows the model.
    fn id_by_origin(&self, model: &InstalledModel) -> Option<String> {
        match (model.entry(&self.catalog), &model.repository) {
            (Some((entry, _)), _) if model.origin == Origin::Starter => Some(entry.id.clone()),
            (Some((entry, Some(variant))), _) => Some(Self::id_of_variant(entry, variant)),
            (_, Some(repository)) => match model.quantization(&self.catalog) {
                quantization if !quantization.is_empty() && model.formats() == [Format::Gguf] => {
                    Some(format!("{repository}:{quantization}"))
                }
                _ => Some(repository.clone()),
            },
            (_, None) => None,
        }
    }

    /// Returns the installed model with this id, at this path, or with this name. Ids have priority over
    /// paths. Of several models with the name, the one in this machine's preferred format wins.
    pub fn find(&self, text: &str) -> Option<&InstalledModel> {
        let has_id = |model: &&InstalledModel| {
            let id = self.id_by_origin(model);
            id.is_some_and(|id| id.eq_ignore_ascii_case(text))
        };
        // The first of several copies has the id.
        let by_id = self.installed().iter().find(has_id);
        let by_path = || {
            let path = model_files::of(Path::new(text)).ok()?.paths.swap_remove(0);
            self.installed().iter().find(|model| model.id == path)
        };
        by_id
            .or_else(by_path)
            .or_else(|| self.named(text).into_iter().next())
    }

    /// Returns the model at the path `text`, else the model that [`Self::find`] returns. If nothing is at
    /// a path, returns a model with a problem, so that a chosen model is shown after it was deleted.
    ///
    /// # Errors
    /// [`LookupError`], with suggestions.
    pub fn resolve(&self, text: &str) -> Result<InstalledModel, LookupError> {
        if is_path(text) || Path::new(text).exists() {
            return Ok(InstalledModel::of_places(Path::new(text), &self.places)?);
        }
        let found = self.find(text).cloned();
        found.ok_or_else(|| self.not_found(text))
    }

    /// Returns a short name that no other model has.
    pub fn short_name(&self, model: &InstalledModel) -> String {
        let entry = model.entry(&self.catalog);
        let entry = entry.map(|(entry, _)| [entry.id.clone(), self.id_of(model)]);
        let names = entry.into_iter().flatten().chain([model.name().to_owned()]);
        let is_unique = |name: &String| self.named(name).len() == 1;
        names
            .into_iter()
            .find(is_unique)
            .unwrap_or_else(|| self.id_of(model))
    }

    /// Returns the installed models with this name: the id of an entry, also with `@quantization`, a
    /// repository, also with `:quantization`, the name of a file or folder, or the display name. A format
    /// may replace the quantization. Models in this machine's preferred format come first.
    pub fn named(&self, text: &str) -> Vec<&InstalledModel> {
        let is = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        let (base, quantization) = match text.split_once(['@', ':']) {
            Some((base, quantization)) => (base, Some(quantization)),
            None => (text, None),
        };
        let goes_by = |model: &&InstalledModel| {
            if is(model.name(), text) || is(&model.title(&self.catalog), text) {
                return true;
            }
            let has_quantization = quantization.is_none_or(|wanted| {
                let formats = model.formats();
                is(&model.quantization(&self.catalog), wanted)
                    || formats
                        .iter()
                        .any(|format| is(format_name(*format), wanted))
            });
            let id = model.entry(&self.catalog).map(|(entry, _)| &*entry.id);
            let repository = model.repository.as_deref();
            has_quantization
                && (id.is_some_and(|id| is(id, base)) || repository.is_some_and(|r| is(r, base)))
        };
        let mut models: Vec<&InstalledModel> = self.installed().iter().filter(goes_by).collect();
        let first = self.machine.specs().preferred_format();
        models.sort_by_key(|model| {
            let is_of_other_app = matches!(model.origin, Origin::OtherApp { .. });
            (!model.formats().contains(&first), is_of_other_app)
        });
        models
    }

    /// Returns the error for a `text` that no installed model has as its name, with suggestions.
    pub fn not_found(&self, text: &str) -> LookupError {
        let base = text.split(['@', ':']).next().unwrap_or(text);
        let text = text.to_owned();
        if let Some(entry) = self.catalog.find(base) {
            return LookupError::NotInstalled {
                quantizations: match self.named(base).is_empty() {
                    true => Vec::new(),
                    false => quantizations_of(entry),
                },
                title: entry.name.clone(),
                text,
            };
        }
        match is_repository(base) {
            true => LookupError::Repository { text },
            false => LookupError::Unknown { text },
        }
    }

    /// Returns the variant of an entry with this quantization or format; of several the one that suits
    /// this machine.
    ///
    /// # Errors
    /// [`LookupError::NoVariant`], with the available quantizations.
    pub fn variant_named<'a>(
        &self,
        entry: &'a Entry,
        text: &str,
    ) -> Result<&'a Variant, LookupError> {
        let is = |name: &str| name.eq_ignore_ascii_case(text);
        let with = |suits: &dyn Fn(&Variant) -> bool| {
            let variants = entry.variants.iter().filter(|variant| suits(variant));
            self.variant_among(entry, variants)
        };
        let found = with(&|variant| is(&variant.quantization) || is(&with_format(variant)));
        let found = found.or_else(|| with(&|variant| is(format_name(variant.format))));
        found.ok_or_else(|| LookupError::NoVariant {
            entry: entry.id.clone(),
            text: text.to_owned(),
            quantizations: quantizations_of(entry),
        })
    }
}

/// Returns the quantizations of an entry, each once.
pub fn quantizations_of(entry: &Entry) -> Vec<String> {
    let mut quantizations: Vec<String> = Vec::new();
    for variant in &entry.variants {
        if !quantizations.contains(&variant.quantization) {
            quantizations.push(variant.quantization.clone());
        }
    }
    quantizations
}

/// Returns the usual name of a format: `GGUF` or `MLX`.
pub fn format_name(format: Format) -> &'static str {
    match format {
        Format::Gguf => "GGUF",
        Format::Safetensors => "MLX",
    }
}

/// Returns a format and a quantization: `GGUF Q4_K_M`.
pub fn variant_text(format: Format, quantization: &str) -> String {
    format!("{} {quantization}", format_name(format))
        .trim_end()
        .to_owned()
}

/// Returns a quantization with its format: `MXFP4-GGUF`.
pub(crate) fn with_format(variant: &Variant) -> String {
    format!("{}-{}", variant.quantization, format_name(variant.format))
}

/// Returns true if `text` can be `owner/name` of a hub.
pub fn is_repository(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let parts: Vec<&str> = text.split('/').collect();
    matches!(parts.as_slice(), [owner, name] if is_name(owner) && is_name(name))
}

/// Returns true if `text` can only be a path.
pub fn is_path(text: &str) -> bool {
    let is_file = text.to_ascii_lowercase().ends_with(".gguf") && !text.contains(':');
    is_file || text.starts_with(['/', '.', '~']) || text.split('/').count() > 2
}
