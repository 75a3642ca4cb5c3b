//! What the list says of a model that is not here: what it is good for, and how it may be had.
//!
//! Rule: it is told that this is the list's word, and what in it nobody could verify.

use serde::Serialize;
use transom_library::Entry;
use transom_library::EstimatedFit;
use transom_library::{Library, variant_text};

use crate::console::Console;
use crate::failure::Failure;
use crate::output::json::write_line;
use crate::output::rows::Rows;
use crate::output::size::disk_text;
use crate::output::stats::parameters_text;
use crate::output::table::{Table, numbers, words};
use crate::output::verdict::verdict_short;

/// A variant and how it would fare here.
#[derive(Serialize)]
struct Variant {
    name: String,
    form: String,
    size_bytes: Option<u64>,
    repository: String,
    #[serde(flatten)]
    verdict: Option<EstimatedFit>,
}

/// What is written as JSON.
#[derive(Serialize)]
struct Card<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    here: Vec<Variant>,
}

/// Shows the entry called `name`.
///
/// # Errors
/// What to do if there is none.
pub(super) fn show(
    name: &str,
    json: bool,
    library: &Library,
    console: &mut Console,
) -> Result<(), Failure> {
    let id = name.split('@').next().unwrap_or(name);
    let Some(entry) = library.catalog().find(id) else {
        return Err(library.not_found(name).into());
    };
    let variants = entry.variants.iter().map(|variant| Variant {
        name: Library::id_of_variant(entry, variant),
        form: variant_text(variant.format, &variant.quantization),
        size_bytes: variant.size_bytes(),
        repository: variant.repository.clone(),
        verdict: library
            .estimate_variant(entry, variant)
            .map(|estimate| estimate.verdict),
    });
    let variants: Vec<Variant> = variants.collect();
    if json {
        let here = variants;
        return write_line(console.out, &Card { entry, here }).map_err(Failure::Output);
    }
    let columns = console.result_columns();
    let is_dimmed = console.dims_results();
    let text = text(entry, columns, is_dimmed) + &table(&variants, columns, is_dimmed);
    console.print(&text)?;
    let advice = format!(
        "It is not installed; `transom models install {}` fetches it.",
        entry.id
    );
    console.note(&advice);
    Ok(())
}

fn text(entry: &Entry, columns: Option<usize>, is_dimmed: bool) -> String {
    let mut rows = Rows::new(15, is_dimmed).within(columns);
    let family = match entry.family.as_str() {
        "" => String::new(),
        family => format!(", {family} family"),
    };
    rows.row("model", &format!("{}{family}", entry.name));
    if !entry.description.is_empty() {
        rows.row("description", &entry.description);
    }
    let tags = entry.tags.iter().map(|tag| tag.name()).collect::<Vec<_>>();
    if !tags.is_empty() {
        rows.row("good for", &tags.join(", "));
    }
    let numbers = &entry.architecture;
    let active = numbers.active_parameters;
    let active = active.map(|n| format!(", of which a token uses {}", parameters_text(n)));
    rows.row(
        "parameters",
        &format!(
            "{}{}",
            parameters_text(numbers.parameters),
            active.unwrap_or_default()
        ),
    );
    rows.row("context", &format!("{} tokens", entry.context_length));
    if !entry.license.is_empty() {
        rows.row("licence", &entry.license);
    }
    if let Some(source) = &entry.source {
        rows.row("model card", source);
    }
    if !entry.unverified.is_empty() {
        rows.row("not verified", &entry.unverified.join(", "));
    }
    rows.finish()
}

fn table(variants: &[Variant], columns: Option<usize>, is_dimmed: bool) -> String {
    if variants.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        words("VARIANT"),
        words("FORM"),
        numbers("SIZE", ""),
        words("MEMORY"),
    ]);
    for variant in variants {
        table.add([
            variant.name.clone(),
            variant.form.clone(),
            variant.size_bytes.map_or("unknown".to_owned(), disk_text),
            variant.verdict.map_or(String::new(), verdict_short),
        ]);
    }
    format!("\n{}", table.text(columns, is_dimmed))
}
