//! Which entry of the list an installed model is, and so what it is called.
//!
//! Rule: where its files lie says it first, for that is where they came from; a name alone says it only
//! if the model's own numbers agree.

use super::{InstalledModel, Origin};
use crate::entries::{Catalog, Entry, Variant};
use crate::facts::{Format, ModelFacts};
use crate::model_files;

impl InstalledModel {
    /// The entry that this model is, with the variant that its files are where that can be told.
    pub fn entry<'a>(&self, of: &'a Catalog) -> Option<(&'a Entry, Option<&'a Variant>)> {
        if self.origin == Origin::Starter {
            let starter = of.entries.iter().find(|entry| entry.bundled.is_some());
            return starter.map(|entry| (entry, None));
        }
        self.by_repository(of).or_else(|| self.by_name(of))
    }

    /// How it is packed, in the words of the list where it is in there.
    pub fn packing(&self, of: &Catalog) -> String {
        self.packing_as(self.entry(of).and_then(|(_, variant)| variant))
    }

    /// The name by which people know it, wherever it is shown: its entry's with how it is packed,
    /// `Qwen3 4B · 4-bit`, else its folder's or file's own with control characters made visible.
    pub fn title(&self, of: &Catalog) -> String {
        match self.entry(of) {
            Some((entry, _)) if self.origin == Origin::Starter => entry.name.clone(),
            Some((entry, variant)) => entry.title(&self.packing_as(variant)),
            None => transom_files::visible(self.name()).into_owned(),
        }
    }

    fn packing_as(&self, variant: Option<&Variant>) -> String {
        match (variant, &self.facts) {
            (Some(variant), _) => variant.packing.clone(),
            (None, Ok(facts)) => facts.packing(),
            (None, Err(_)) => String::new(),
        }
    }

    /// Whether a program may have loaded it under this name: its title, or its folder's or file's
    /// name, as when it was not in the list yet.
    pub fn is_called(&self, name: &str, of: &Catalog) -> bool {
        name == self.name() || name == self.title(of)
    }

    /// Id of [`Self::entry`].
    pub fn entry_id(&self, of: &Catalog) -> Option<String> {
        self.entry(of).map(|(entry, _)| entry.id.clone())
    }

    /// Whether one of its forms has the files of this variant: it need not be fetched again.
    pub fn is_variant(&self, variant: &Variant) -> bool {
        let is_from = self
            .repository
            .as_ref()
            .is_some_and(|repository| repository.eq_ignore_ascii_case(&variant.repository));
        is_from && self.has_form_of(variant)
    }

    fn by_repository<'a>(&self, of: &'a Catalog) -> Option<(&'a Entry, Option<&'a Variant>)> {
        let repository = self.repository.as_ref()?;
        let is_from = |variant: &&Variant| variant.repository.eq_ignore_ascii_case(repository);
        let from = |entry: &'a Entry| entry.variants.iter().filter(is_from);
        // Files of two entries may lie in one repository.
        let exact = of.entries.iter().find_map(|entry| {
            let variant = from(entry).find(|variant| self.has_form_of(variant))?;
            Some((entry, Some(variant)))
        });
        let some = || {
            let entry = of
                .entries
                .iter()
                .find(|entry| from(entry).next().is_some() && self.is_shaped_as(entry));
            entry.map(|entry| (entry, None))
        };
        exact.or_else(some)
    }

    fn by_name<'a>(&self, of: &'a Catalog) -> Option<(&'a Entry, Option<&'a Variant>)> {
        let likely = of.entries.iter().filter(|entry| self.is_shaped_as(entry));
        let mut named = likely.filter_map(|entry| {
            let variant = entry
                .variants
                .iter()
                .find(|variant| self.is_named_as(variant))?;
            Some((entry, Some(variant)))
        });
        named.next()
    }

    /// Whether one of its forms is of the variant's format and, of a GGUF, its very file.
    fn has_form_of(&self, variant: &Variant) -> bool {
        let mut paths = self.files.paths.iter();
        paths.any(|path| {
            if model_files::format_of(path) != variant.format {
                return false;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            match variant.format {
                Format::Safetensors => true,
                Format::Gguf => is_file_of(&name, variant),
            }
        })
    }

    fn is_named_as(&self, variant: &Variant) -> bool {
        let mut paths = self.files.paths.iter();
        paths.any(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_of_form = model_files::format_of(path) == variant.format;
            let repository = variant.repository.rsplit('/').next().unwrap_or_default();
            is_of_form
                && match variant.format {
                    Format::Safetensors => name.eq_ignore_ascii_case(repository),
                    Format::Gguf => {
                        let mut files = variant.files.iter().map(|file| last(&file.name));
                        files.any(|file| file.eq_ignore_ascii_case(&name))
                    }
                }
        })
    }

    /// Whether the numbers of its files are those of the entry.
    fn is_shaped_as(&self, entry: &Entry) -> bool {
        let Ok(facts) = &self.facts else {
            return false;
        };
        let numbers = &entry.architecture;
        let shape = |facts: &ModelFacts| (facts.n_layers, facts.hidden_size, facts.n_heads);
        let gguf = model_files::gguf_architecture(&numbers.model_type);
        let is_family = model_files::gguf_architecture(&facts.architecture) == gguf;
        is_family
            && shape(facts)
                == (
                    Some(numbers.layers),
                    Some(numbers.hidden_size),
                    Some(numbers.heads),
                )
    }
}

impl Entry {
    /// What is shown of a variant with this packing: `Qwen3 4B · 4-bit`.
    pub fn title(&self, packing: &str) -> String {
        match packing.is_empty() {
            true => self.name.clone(),
            false => format!("{} · {packing}", self.name),
        }
    }
}

/// Whether a file of this name is one of the variant's, or the only one whose name says its packing.
fn is_file_of(name: &str, variant: &Variant) -> bool {
    if !variant.files.is_empty() {
        let mut files = variant.files.iter().map(|file| last(&file.name));
        // A cache may put more before the name.
        return files.any(|file| name.len() >= file.len() && ends_with(name, file));
    }
    let packing = variant.packing.to_lowercase();
    let name = name.to_lowercase();
    let mut places = name.match_indices(&packing);
    places.any(|(at, _)| {
        let after = name[at + packing.len()..].chars().next();
        let before = name[..at].chars().next_back();
        [before, after]
            .iter()
            .all(|c| c.is_none_or(|c| !c.is_alphanumeric() && c != '_'))
    })
}

fn ends_with(name: &str, file: &str) -> bool {
    let Some(at) = name.len().checked_sub(file.len()) else {
        return false;
    };
    let is_edge = at == 0 || name.as_bytes()[at - 1] == b'_';
    is_edge && name.as_bytes()[at..].eq_ignore_ascii_case(file.as_bytes())
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
