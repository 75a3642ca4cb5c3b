//! A model that is not installed, according to the catalog: what it is good for and its variants.
//!
//! Rule: values that nobody verified are listed.

use serde::Serialize;
use transom_library::{Entry, EstimatedFit, Library, LookupError, variant_text};
use transom_terminal::{Layout, Rows, Table, numbers, parameters_text, size_text, words};

use crate::text::fit_short;

/// A variant, and whether it fits here.
#[derive(Serialize)]
struct VariantRow {
    name: String,
    form: String,
    size_bytes: Option<u64>,
    repository: String,
    #[serde(flatten)]
    fit: Option<EstimatedFit>,
}

#[derive(Serialize)]
/// The entry, and whether each of its variants fits.
pub struct CatalogEntry {
    #[serde(flatten)]
    entry: Entry,
    /// Whether each variant fits this computer.
    estimates: Vec<VariantRow>,
}

impl CatalogEntry {
    /// Finds the entry called `name`, or the one of this variant.
    ///
    /// # Errors
    /// [`LookupError`], with suggestions.
    pub fn find(name: &str, library: &Library) -> Result<Self, LookupError> {
        let id = name.split('@').next().unwrap_or(name);
        let Some(entry) = library.catalog().find(id) else {
            return Err(library.not_found(name));
        };
        let estimates = entry.variants.iter().map(|variant| {
            let estimate = library.estimate_variant(entry, variant);
            VariantRow {
                name: Library::id_of_variant(entry, variant),
                form: variant_text(variant.format, &variant.quantization),
                size_bytes: variant.size_bytes(),
                repository: variant.repository.clone(),
                fit: estimate.map(|estimate| estimate.fit),
            }
        });
        Ok(Self {
            estimates: estimates.collect(),
            entry: entry.clone(),
        })
    }

    /// Returns what to do to use the model.
    pub fn advice(&self) -> String {
        let id = &self.entry.id;
        format!("It is not installed; `transom models install {id}` downloads it.")
    }

    /// Returns the entry for people. Every line ends with a newline.
    pub fn text(&self, layout: Layout) -> String {
        let entry = &self.entry;
        let mut rows = Rows::new(15, layout);
        let family = match entry.family.as_str() {
            "" => String::new(),
            family => format!(", {family} family"),
        };
        rows.row("model", &format!("{}{family}", entry.name));
        rows.row("description", &entry.description);
        let tags = entry.tags.iter().map(|tag| tag.name()).collect::<Vec<_>>();
        rows.row("good for", &tags.join(", "));
        let all = parameters_text(entry.architecture.parameters);
        let active = entry.architecture.active_parameters.map(parameters_text);
        let active = active.map(|n| format!(", of which a token uses {n}"));
        rows.row("parameters", &(all + &active.unwrap_or_default()));
        rows.row("context", &format!("{} tokens", entry.context_length));
        rows.row("license", &entry.license);
        rows.row("model card", entry.source.as_deref().unwrap_or(""));
        rows.row("not verified", &entry.unverified.join(", "));
        if self.estimates.is_empty() {
            return rows.finish();
        }
        let table = Table::new([
            words("VARIANT", |row: &VariantRow| row.name.clone()),
            words("FORM", |row| row.form.clone()),
            numbers("SIZE", "", |row| size_text(row.size_bytes)),
            words("MEMORY", |row| fit_short(row.fit)),
        ]);
        rows.finish() + "\n" + &table.with(&self.estimates).text(layout)
    }
}
