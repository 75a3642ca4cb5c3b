//! What the commands know of models: the lists, what is here, and this machine.
//!
//! Rule: a mistake in the user's own list is told once, with its place, and stops nothing: the rest
//! of the list stays in force.

pub(crate) mod judge;
mod lists;
#[cfg(test)]
pub(crate) mod tests;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transom_catalog::entries::FILE_NAME;
use transom_catalog::estimate::Machine;
use transom_catalog::forms::{self, Forms};
use transom_catalog::installed::{self, Elsewhere, MODELS_FOLDER, elsewhere};
use transom_catalog::measured::{self, Measured};
use transom_catalog::{
    Catalogue, Entry, Format, Installed, ModelFacts, Origin, Places, Variant, read_list,
};
use transom_signals::Hardware;

use crate::console::Console;
use crate::failure::Failure;
use crate::link::Link;
use crate::model_path::ModelPath;

/// See the head of this file.
pub(crate) struct Library {
    /// The built-in list with the user's own over it.
    pub(crate) catalogue: Arc<Catalogue>,
    /// Where models may be.
    pub(crate) places: Places,
    /// This machine.
    pub(crate) machine: Machine,
    /// The data folder.
    pub(crate) data_folder: PathBuf,
    installed: OnceCell<Vec<Installed>>,
    measured: OnceCell<Measured>,
}

impl Library {
    /// Reads the lists. A mistake in the user's own is a note, and so is one in what they added.
    pub(crate) fn open(link: &Link, console: &mut Console) -> Result<Self, Failure> {
        let data_folder = link.folder()?.to_path_buf();
        let (catalogue, mistake) = catalogue(&data_folder);
        if let Some(mistake) = mistake {
            console.note(&mistake);
        }
        if let Err(error) = installed::read_added(&data_folder) {
            console.note(&format!("{error}; until then what you added is left out"));
        }
        Ok(Self::new(
            catalogue,
            data_folder,
            judge::machine_of(&Hardware::detect(), None),
            elsewhere(),
        ))
    }

    /// As [`Self::open`], from what is given.
    pub(crate) fn new(
        catalogue: Arc<Catalogue>,
        data_folder: PathBuf,
        machine: Machine,
        elsewhere: Vec<Elsewhere>,
    ) -> Self {
        Self {
            catalogue,
            places: Places {
                elsewhere,
                ..Places::of(&data_folder)
            },
            machine,
            data_folder,
            installed: OnceCell::new(),
            measured: OnceCell::new(),
        }
    }

    /// The same with the models that are here now.
    pub(crate) fn read_again(&self) -> Self {
        Self {
            catalogue: self.catalogue.clone(),
            places: self.places.clone(),
            machine: self.machine.clone(),
            data_folder: self.data_folder.clone(),
            installed: OnceCell::new(),
            measured: OnceCell::new(),
        }
    }

    /// The folder that downloads go to.
    pub(crate) fn models_folder(&self) -> PathBuf {
        self.data_folder.join(MODELS_FOLDER)
    }

    /// Every model that is here. Read once.
    pub(crate) fn installed(&self) -> &[Installed] {
        self.installed.get_or_init(|| installed::list(&self.places))
    }

    /// The entry and the variant that an installed model is, where that can be told.
    pub(crate) fn entry_of(&self, model: &Installed) -> Option<(&Entry, Option<&Variant>)> {
        model.entry(&self.catalogue)
    }

    /// How an installed model is packed, in the words of the list where it is in there.
    pub(crate) fn packing(&self, model: &Installed) -> String {
        model.packing(&self.catalogue)
    }

    /// What earlier uses measured. Read once.
    pub(crate) fn measured(&self) -> &Measured {
        let path = || self.data_folder.join(measured::FILE_NAME);
        self.measured.get_or_init(|| Measured::read(&path()))
    }

    /// What the form of an installed model is that goes first on this machine.
    pub(crate) fn facts_that_run(&self, model: &Installed) -> Option<Arc<ModelFacts>> {
        let first = self.first_format();
        let mut paths: Vec<&PathBuf> = model.forms.paths.iter().collect();
        paths.sort_by_key(|path| forms::format_of(path) != first);
        paths.into_iter().find_map(|path| model.facts_of(path).ok())
    }

    /// What a person may call this model: short, and nothing else has that name.
    pub(crate) fn name_of(&self, model: &Installed) -> String {
        let names = [
            self.entry_of(model).map(|(entry, _)| entry.id.clone()),
            self.entry_of(model)
                .map(|(entry, _)| format!("{}@{}", entry.id, self.packing(model))),
            Some(model.name().to_owned()),
        ];
        let is_only = |name: &String| self.named(name).len() == 1;
        let short = names.into_iter().flatten().find(is_only);
        short.unwrap_or_else(|| model.id.display().to_string())
    }

    /// The models here that go by this name: an id of the list, perhaps with `@packing`, a
    /// repository, perhaps with `:packing`, the name of a file or folder, or what windows call it.
    /// Those whose form goes first on this machine come first.
    pub(crate) fn named(&self, text: &str) -> Vec<&Installed> {
        let is = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        let (base, packing) = match text.split_once(['@', ':']) {
            Some((base, packing)) => (base, Some(packing)),
            None => (text, None),
        };
        let goes_by = |model: &&Installed| {
            if is(model.name(), text) || is(&model.title(&self.catalogue), text) {
                return true;
            }
            let has_packing = packing.is_none_or(|wanted| {
                is(&self.packing(model), wanted)
                    || model
                        .formats()
                        .iter()
                        .any(|format| is(word(*format), wanted))
            });
            let id = self.entry_of(model).map(|(entry, _)| &*entry.id);
            let repository = model.repository.as_deref();
            has_packing
                && (id.is_some_and(|id| is(id, base)) || repository.is_some_and(|r| is(r, base)))
        };
        let mut models: Vec<&Installed> = self.installed().iter().filter(goes_by).collect();
        let first = self.first_format();
        models.sort_by_key(|model| {
            let is_elsewhere = matches!(model.origin, Origin::Elsewhere { .. });
            (!model.formats().contains(&first), is_elsewhere)
        });
        models
    }

    /// The forms of the model that `text` names, here or at a path.
    ///
    /// # Errors
    /// What to do about a model that is not here.
    pub(crate) fn forms(&self, text: &str) -> Result<Forms, Failure> {
        if let Some(model) = self.named(text).first() {
            return Ok(model.forms.clone());
        }
        Err(self.not_here(text))
    }

    /// The variant of an entry with the packing `named`, or in the form that it names; of several in
    /// the form that goes first on this machine.
    ///
    /// # Errors
    /// Which there are.
    pub(crate) fn variant_named<'a>(
        &self,
        entry: &'a Entry,
        named: &str,
    ) -> Result<&'a Variant, Failure> {
        let is = |text: &str| text.eq_ignore_ascii_case(named);
        let with = |fits: &dyn Fn(&Variant) -> bool| {
            let variants = entry.variants.iter().filter(|variant| fits(variant));
            self.variant_among(entry, &variants.collect::<Vec<_>>())
        };
        let found = with(&|variant| is(&variant.packing));
        let found = found.or_else(|| with(&|variant| is(word(variant.format))));
        found.ok_or_else(|| {
            Failure::Model(format!(
                "{} is not there as {named}; there is {}",
                entry.id,
                packings_of(entry).join(", ")
            ))
        })
    }

    /// Says how to get the model that `text` names.
    pub(crate) fn not_here(&self, text: &str) -> Failure {
        let base = text.split(['@', ':']).next().unwrap_or(text);
        if let Some(entry) = self.catalogue.find(base) {
            let about = match packings_of(entry).is_empty() {
                true => String::new(),
                false => format!("; there is {}", packings_of(entry).join(", ")),
            };
            let is_here = !self.named(base).is_empty();
            return Failure::Model(match is_here {
                true => format!(
                    "{text} is not installed{about}; `transom models install {text}` fetches it"
                ),
                false => format!(
                    "{} is not installed; `transom models install {text}` fetches it",
                    entry.name
                ),
            });
        }
        if is_repository(base) {
            return Failure::Model(format!(
                "nothing is at {text}, and no model of that name is installed; `transom models \
                 install {text}` fetches it if the hub has it"
            ));
        }
        Failure::Model(format!(
            "no model is called {text}; `transom models list` shows those that are here, `transom \
             models search {text}` others"
        ))
    }
}

/// The packings of an entry, as `id@` takes them.
pub(crate) fn packings_of(entry: &Entry) -> Vec<String> {
    let variants = entry.variants.iter();
    let mut packings: Vec<String> = variants.map(|variant| variant.packing.clone()).collect();
    let mut seen = std::collections::HashSet::new();
    packings.retain(|packing| seen.insert(packing.clone()));
    packings
}

/// A form in one word.
pub(crate) fn word(format: Format) -> &'static str {
    match format {
        Format::Gguf => "GGUF",
        Format::Safetensors => "MLX",
    }
}

/// A form and a packing: `GGUF Q4_K_M`.
pub(crate) fn form_text(format: Format, packing: &str) -> String {
    format!("{} {packing}", word(format)).trim_end().to_owned()
}

/// Whether `text` can be `owner/name` of a hub.
pub(crate) fn is_repository(text: &str) -> bool {
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

/// Whether `text` can only be a path.
pub(crate) fn is_path(text: &Path) -> bool {
    let Some(text) = text.to_str() else {
        return true;
    };
    let has_extension = text.to_ascii_lowercase().ends_with(".gguf");
    has_extension || text.starts_with(['/', '.', '~']) || text.split('/').count() > 2
}

/// The forms at `path` if something is there, or if it can only be a path.
pub(crate) fn forms_at(path: &Path) -> Result<Option<Forms>, Failure> {
    if !path.exists() && !is_path(path) {
        return Ok(None);
    }
    let forms = forms::of(path).map_err(|error| Failure::Model(error.to_string()))?;
    Ok(Some(forms))
}

/// What windows call the model that was found, so that it has one name whoever loads it. It is asked
/// for with every answer, so mistakes in the user's list are told by other commands.
pub(crate) fn title_of(found: &ModelPath, data_folder: &Path) -> String {
    let model = Installed::of_places(&found.forms.paths[0], &Places::of(data_folder));
    match model {
        Ok(model) => model.title(&catalogue(data_folder).0),
        Err(_) => found.forms.name.clone(),
    }
}

/// The lists merged, and the mistake in the user's own.
fn catalogue(data_folder: &Path) -> (Arc<Catalogue>, Option<String>) {
    let built_in = Catalogue::built_in();
    let file = data_folder.join(FILE_NAME);
    let merged = read_list(&file).and_then(|text| match text {
        Some(text) => built_in.merged_with(&text, &file).map(Arc::new),
        None => Ok(built_in.clone()),
    });
    match merged {
        Ok(merged) => (merged, None),
        Err(mistake) => {
            let problem = format!("{mistake}; until it is mended your own list is left out");
            (built_in, Some(problem))
        }
    }
}
