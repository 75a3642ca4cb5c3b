//! Reads the variants of a model: their repositories, files and sizes.
//!
//! Rule: a file name can't point outside of the variant's folder.

use std::collections::HashSet;

use super::{keys, unverified};
use crate::entries::quantization::{self, Quantization};
use crate::entries::table::{Located, Table, displayable, suggestion};
use crate::entries::{Architecture, CatalogErrorCode, RemoteFile, Variant};
use crate::facts::Format;

const MAX_BYTES: u64 = 1 << 50;

/// Bytes of files beside the weights, and of layers with more bits than the others.
const ON_TOP_BYTES: f64 = 1e9;

/// Returns the variants without errors. The model's numbers, if known, limit their sizes.
pub(super) fn read_all(model: &Table<'_>, numbers: Option<&Architecture>) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    for table in model.tables("variant", "[[model.variant]]", "this variant") {
        let Some(variant) = read(&table, numbers) else {
            continue;
        };
        let same = |other: &Variant| {
            (other.format, &other.quantization) == (variant.format, &variant.quantization)
                && other.repository == variant.repository
        };
        if variants.iter().any(same) {
            let reason = format!(
                "{} is already a variant of this model, from the same repository",
                variant.quantization
            );
            let code = CatalogErrorCode::Duplicate;
            table.document.report(code, table.at, "variant", reason);
            continue;
        }
        variants.push(variant);
    }
    variants
}

fn read(table: &Table<'_>, numbers: Option<&Architecture>) -> Option<Variant> {
    table.allow_only(&keys::VARIANT);
    let format = format(table);
    let quantization = format.and_then(|format| quantization_of(table, format));
    let repository = repository(table);
    let revision = revision(table);
    let stated = table.number("size_bytes", 1..=MAX_BYTES);
    let files = files(table);
    let unverified = unverified(table, &keys::of_variant());
    let (format, (name, quantization)) = (format?, quantization?);
    let variant = Variant {
        format,
        quantization: name,
        repository: repository?.value,
        revision: revision.map_or_else(|| "main".to_owned(), |revision| revision.value),
        stated_size_bytes: stated.map(|stated| stated.value),
        files: files?,
        unverified,
    };
    check_files(&variant, table);
    if let Some(numbers) = numbers {
        check_size(&variant, numbers, quantization, table);
    }
    Some(variant)
}

fn format(table: &Table<'_>) -> Option<Format> {
    let found = table.required_text("format", "\"mlx\"")?;
    match &*found.value {
        "mlx" => Some(Format::Safetensors),
        "gguf" => Some(Format::Gguf),
        other => {
            let shown = displayable(other);
            let reason = format!("`format` must be \"mlx\" or \"gguf\", not \"{shown}\"");
            table.wrong(found.at, "format", reason);
            None
        }
    }
}

fn quantization_of(table: &Table<'_>, format: Format) -> Option<(String, Quantization)> {
    let (example, form) = match format {
        Format::Safetensors => ("\"4-bit\"", "MLX"),
        Format::Gguf => ("\"Q4_K_M\"", "GGUF"),
    };
    let Located { value, at } = table.required_text("quantization", example)?;
    if let Some(quantization) = quantization::of(format, &value) {
        return Some((value, quantization));
    }
    let names = quantization::names(format);
    let all = || format!("; there are {}", names.join(", "));
    let hint = suggestion(&value, &names).unwrap_or_else(all);
    let shown = displayable(&value);
    let reason = format!("there is no quantization `{shown}` of {form}{hint}");
    table.wrong(at, "quantization", reason);
    None
}

fn repository(table: &Table<'_>) -> Option<Located<String>> {
    let is_part = |part: &str| {
        let is_right = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        !part.is_empty() && part.len() <= 96 && part.bytes().all(is_right) && !is_hidden(part)
    };
    let found = table.required_text("repository", "\"owner/name\"");
    let reason = "`repository` must be \"owner/name\" as on the hub";
    table.check("repository", found, reason, |text| {
        let parts = text.split_once('/');
        parts.is_some_and(|(owner, name)| is_part(owner) && is_part(name))
    })
}

fn revision(table: &Table<'_>) -> Option<Located<String>> {
    let is_right = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    let reason = "`revision` must be the name of a branch or tag, or a commit";
    table.check("revision", table.text("revision"), reason, |text| {
        text.len() <= 200 && text.bytes().all(is_right) && !text.split('/').any(is_hidden)
    })
}

fn files(table: &Table<'_>) -> Option<Vec<RemoteFile>> {
    let n_before = table.document.n_errors();
    let mut names = HashSet::new();
    let mut files = Vec::new();
    for table in table.tables("files", "[[model.variant.files]]", "this file") {
        table.allow_only(&keys::FILE);
        let name = file_name(&table);
        let size = table.number("size_bytes", 1..=MAX_BYTES);
        let sha256 = sha256(&table);
        let Some(name) = name else { continue };
        if !names.insert(name.value.to_lowercase()) {
            let reason = format!("the file `{}` is listed twice", displayable(&name.value));
            table.wrong(name.at, "name", reason);
        }
        files.push(RemoteFile {
            name: name.value,
            size_bytes: size.map(|size| size.value),
            sha256,
        });
    }
    (table.document.n_errors() == n_before).then_some(files)
}

/// Returns the name of a file if it is inside the download folder on every system.
fn file_name(table: &Table<'_>) -> Option<Located<String>> {
    let found = table.required_text("name", "\"model.safetensors\"")?;
    let reason = format!(
        "the name of a file must be a path inside the repository, without `..`, and `{}` is not",
        displayable(&found.value)
    );
    table.check("name", Some(found), &reason, |text| {
        let mut parts = text.split('/');
        text.len() <= 300
            && !text.contains(['\\', ':'])
            && parts.all(|part| !part.is_empty() && !is_hidden(part))
    })
}

/// Returns true for names such as `..`, and for those that listing models skips.
fn is_hidden(part: &str) -> bool {
    part.starts_with('.')
}

fn sha256(table: &Table<'_>) -> Option<String> {
    let found = table.text("sha256")?;
    let reason = format!(
        "`sha256` must have 64 hexadecimal digits, not {} characters",
        found.value.chars().count()
    );
    let found = table.check("sha256", Some(found), &reason, |text| {
        text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
    });
    Some(found?.value.to_ascii_lowercase())
}

/// Checks that listed files have the variant's format and are not larger than its stated size.
fn check_files(variant: &Variant, table: &Table<'_>) {
    if variant.files.is_empty() {
        return;
    }
    if !variant.files.iter().any(|file| variant.is_weights(file)) {
        let reason = match variant.format {
            Format::Gguf => "none of the files is a *.gguf file",
            Format::Safetensors => "none of the files is a *.safetensors file",
        };
        table.wrong(table.position_of("files"), "files", reason);
    }
    let sizes = variant.files.iter().filter_map(|file| file.size_bytes);
    let sum = sizes.fold(0, u64::saturating_add);
    if let Some(stated) = variant.stated_size_bytes.filter(|&stated| sum > stated) {
        let reason =
            format!("the files have {sum} bytes together, more than the `size_bytes` of {stated}");
        table.wrong(table.position_of("size_bytes"), "size_bytes", reason);
    }
}

/// Reports a size that this many parameters in this quantization can't have, such as a wrong digit.
fn check_size(
    variant: &Variant,
    numbers: &Architecture,
    quantization: Quantization,
    table: &Table<'_>,
) {
    let usual = numbers.parameters as f64 * quantization.bits / 8.0;
    let beside = numbers.vision_parameters as f64 * 2.0;
    let likely = usual * 0.5..usual * 3.0 + beside + ON_TOP_BYTES;
    let sizes = [
        ("size_bytes", variant.stated_size_bytes),
        ("files", variant.weight_files_bytes()),
    ];
    let mut known = sizes
        .into_iter()
        .filter_map(|(key, size)| Some((key, size?)));
    let wrong = known.find(|(_, size)| !likely.contains(&(*size as f64)));
    if let Some((key, size)) = wrong {
        let reason = format!(
            "{size} bytes are not the size of {} parameters in {}; about {usual:.0} would be",
            numbers.parameters, variant.quantization
        );
        table.wrong(table.position_of(key), key, reason);
    }
}
