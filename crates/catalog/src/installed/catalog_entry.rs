//! Finds the catalog entry of an installed model, and so its display name.
//!
//! Rule: the repository in the path of its files decides first. A name counts only if the numbers in
//! the model's files match the entry.

use super::{InstalledModel, Origin};
use crate::entries::{Catalog, Entry, Variant};
use crate::facts::{Format, gguf_architecture};
use crate::model_files;

impl InstalledModel {
    /// Returns the entry of this model, with the variant if that is known.
    pub fn entry<'a>(&self, of: &'a Catalog) -> Option<(&'a Entry, Option<&'a Variant>)> {
        if self.origin == Origin::Starter {
            let starter = of.entries.iter().find(|entry| entry.bundled.is_some());
            return starter.map(|entry| (entry, None));
        }
        self.by_repository(of).or_else(|| self.by_name(of))
    }

    /// Returns the quantization: the catalog's name for it, else that of the files.
    pub fn quantization(&self, of: &Catalog) -> String {
        self.quantization_as(self.entry(of).and_then(|(_, variant)| variant))
    }

    /// Returns the display name: the entry's name with the quantization, such as `Qwen3 4B · 4-bit`, else
    /// the name of its folder or file with control characters made visible.
    pub fn title(&self, of: &Catalog) -> String {
        match self.entry(of) {
            Some((entry, _)) if self.origin == Origin::Starter => entry.name.clone(),
            Some((entry, variant)) => entry.title(&self.quantization_as(variant)),
            None => transom_files::visible(self.name()).into_owned(),
        }
    }

    fn quantization_as(&self, variant: Option<&Variant>) -> String {
        match (variant, &self.facts) {
            (Some(variant), _) => variant.quantization.clone(),
            (None, Ok(facts)) => facts.quantization(),
            (None, Err(_)) => String::new(),
        }
    }

    fn by_repository<'a>(&self, of: &'a Catalog) -> Option<(&'a Entry, Option<&'a Variant>)> {
        let repository = self.repository.as_ref()?;
        let is_from = |variant: &&Variant| variant.repository.eq_ignore_ascii_case(repository);
        let from = |entry: &'a Entry| entry.variants.iter().filter(is_from);
        // One repository may contain files of two entries.
        let exact = of.entries.iter().find_map(|entry| {
            let variant = from(entry).find(|variant| self.has_files_of(variant))?;
            Some((entry, Some(variant)))
        });
        let is_likely = |entry: &&Entry| {
            entry.variants.iter().any(|v| is_from(&v)) && self.has_numbers_of(entry)
        };
        exact.or_else(|| Some((of.entries.iter().find(is_likely)?, None)))
    }

    fn by_name<'a>(&self, of: &'a Catalog) -> Option<(&'a Entry, Option<&'a Variant>)> {
        let likely = of.entries.iter().filter(|entry| self.has_numbers_of(entry));
        let mut named = likely.filter_map(|entry| {
            let variant = entry
                .variants
                .iter()
                .find(|variant| self.is_named_as(variant))?;
            Some((entry, Some(variant)))
        });
        named.next()
    }

    /// Returns true if one of its paths has the catalog variant's format and, for GGUF, is its file.
    fn has_files_of(&self, variant: &Variant) -> bool {
        self.has_path(variant, |name| match variant.format {
            Format::Safetensors => true,
            Format::Gguf => is_file_of(name, variant),
        })
    }

    fn is_named_as(&self, variant: &Variant) -> bool {
        self.has_path(variant, |name| match variant.format {
            Format::Safetensors => name.eq_ignore_ascii_case(file_name_of(&variant.repository)),
            Format::Gguf => {
                let mut files = variant.files.iter().map(|file| file_name_of(&file.name));
                files.any(|file| file.eq_ignore_ascii_case(name))
            }
        })
    }

    /// Returns true if one of its paths has the format of `variant` and a name that `is_right`.
    fn has_path(&self, variant: &Variant, is_right: impl Fn(&str) -> bool) -> bool {
        let mut paths = self.files.paths.iter();
        paths.any(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            model_files::format_of(path) == variant.format && is_right(&name)
        })
    }

    fn has_numbers_of(&self, entry: &Entry) -> bool {
        let Ok(facts) = &self.facts else {
            return false;
        };
        let numbers = &entry.architecture;
        let architectures = [
            gguf_architecture(&numbers.model_type),
            entry.gguf_architecture(),
        ];
        architectures.contains(&gguf_architecture(&facts.architecture))
            && facts.n_layers == Some(numbers.layers)
            && facts.hidden_size == Some(numbers.hidden_size)
            && facts.n_heads == Some(numbers.heads)
    }
}

impl Entry {
    /// Returns the display name of a variant with this quantization: `Qwen3 4B · 4-bit`.
    pub fn title(&self, quantization: &str) -> String {
        match quantization.is_empty() {
            true => self.name.clone(),
            false => format!("{} · {quantization}", self.name),
        }
    }
}

/// Returns true if a file of this name is one of the variant's, or if the variant lists no files and
/// the name contains its quantization.
fn is_file_of(name: &str, variant: &Variant) -> bool {
    if !variant.files.is_empty() {
        let mut files = variant.files.iter().map(|file| file_name_of(&file.name));
        // A cache may add a prefix to the name.
        return files.any(|file| ends_with(name, file));
    }
    let quantization = variant.quantization.to_lowercase();
    let name = name.to_lowercase();
    let mut places = name.match_indices(&quantization);
    places.any(|(at, _)| {
        let after = name[at + quantization.len()..].chars().next();
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

fn file_name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
