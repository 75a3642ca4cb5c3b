//! Reads the variants of a model: their repositories, files and sizes.
//!
//! Rule: a file name can't point outside of the variant's folder.

use std::collections::HashSet;

use super::{keys, unverified};
use crate::entries::quantization::{self, Quantization};
use crate::entries::table::{Document, Located, Table, displayable, suggestion};
use crate::entries::{Architecture, RemoteFile, Variant};
use crate::facts::Format;

const MAX_BYTES: u64 = 1 << 50;

/// Bytes of files beside the weights, and of layers with more bits than the others.
const ON_TOP_BYTES: f64 = 1e9;

/// Returns the variants without errors. The model's numbers, if known, limit their sizes.
pub(super) fn read_all(
    model: &Table<'_>,
    numbers: Option<&Architecture>,
    document: &mut Document<'_>,
) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    let tables = model.tables("variant", "[[model.variant]]", "this variant", document);
    for table in tables {
        let Some(variant) = read(&table, numbers, document) else {
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
            document.wrong(table.at, reason);
            continue;
        }
        variants.push(variant);
    }
    variants
}

fn read(
    table: &Table<'_>,
    numbers: Option<&Architecture>,
    document: &mut Document<'_>,
) -> Option<Variant> {
    table.allow_only(&keys::VARIANT, document);
    let format = format(table, document);
    let quantization = format.and_then(|format| quantization_of(table, format, document));
    let repository = repository(table, document);
    let revision = revision(table, document);
    let stated = table.number("size_bytes", 1..=MAX_BYTES, document);
    let files = files(table, document);
    let unverified = unverified(table, &keys::of_variant(), document);
    let (format, quantization) = (format?, quantization?);
    let variant = Variant {
        format,
        quantization: quantization.0,
        repository: repository?,
        revision: revision.unwrap_or_else(|| "main".to_owned()),
        stated_size_bytes: stated.map(|stated| stated.value),
        files: files?,
        unverified,
    };
    check_files(&variant, table, document);
    if let Some(numbers) = numbers {
        check_size(&variant, numbers, quantization.1, table, document);
    }
    Some(variant)
}

fn format(table: &Table<'_>, document: &mut Document<'_>) -> Option<Format> {
    let found = table.text("format", document);
    let found = table.require("format", "\"mlx\"", found, document)?;
    match &*found.value {
        "mlx" => Some(Format::Safetensors),
        "gguf" => Some(Format::Gguf),
        other => {
            let reason = format!(
                "`format` must be \"mlx\" or \"gguf\", not \"{}\"",
                displayable(other)
            );
            document.wrong(found.at, reason);
            None
        }
    }
}

fn quantization_of(
    table: &Table<'_>,
    format: Format,
    document: &mut Document<'_>,
) -> Option<(String, Quantization)> {
    let found = table.text("packing", document);
    let example = match format {
        Format::Safetensors => "\"4-bit\"",
        Format::Gguf => "\"Q4_K_M\"",
    };
    let found = table.require("packing", example, found, document)?;
    if let Some(quantization) = quantization::of(format, &found.value) {
        return Some((found.value, quantization));
    }
    let names = quantization::names(format);
    let form = match format {
        Format::Safetensors => "MLX",
        Format::Gguf => "GGUF",
    };
    let reason = format!(
        "there is no packing `{}` of {form}{}",
        displayable(&found.value),
        suggestion(&found.value, &names)
            .unwrap_or_else(|| format!("; there are {}", names.join(", ")))
    );
    document.wrong(found.at, reason);
    None
}

fn repository(table: &Table<'_>, document: &mut Document<'_>) -> Option<String> {
    let found = table.text("repository", document);
    let found = table.require("repository", "\"owner/name\"", found, document)?;
    let is_part = |part: &str| {
        let is_right = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        !part.is_empty() && part.len() <= 96 && part.bytes().all(is_right) && !is_hidden(part)
    };
    let parts = found.value.split_once('/');
    if !parts.is_some_and(|(owner, name)| is_part(owner) && is_part(name)) {
        document.wrong(
            found.at,
            "`repository` must be \"owner/name\" as on the hub",
        );
        return None;
    }
    Some(found.value)
}

/// Returns the revision; `None` if it is missing or wrong.
fn revision(table: &Table<'_>, document: &mut Document<'_>) -> Option<String> {
    let found = table.text("revision", document)?;
    let is_right = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    let text = &found.value;
    if text.len() > 200 || !text.bytes().all(is_right) || text.split('/').any(is_hidden) {
        let reason = "`revision` must be the name of a branch or tag, or a commit";
        document.wrong(found.at, reason);
        return None;
    }
    Some(found.value)
}

fn files(table: &Table<'_>, document: &mut Document<'_>) -> Option<Vec<RemoteFile>> {
    let n_before = document.n_errors();
    let mut names = HashSet::new();
    let mut files = Vec::new();
    let tables = table.tables("files", "[[model.variant.files]]", "this file", document);
    for table in tables {
        table.allow_only(&keys::FILE, document);
        let name = table.text("name", document);
        let name = table.require("name", "\"model.safetensors\"", name, document);
        let name = name.filter(|name| is_file_name(name, document));
        let size = table.number("size_bytes", 1..=MAX_BYTES, document);
        let sha256 = sha256(&table, document);
        let Some(name) = name else { continue };
        if !names.insert(name.value.to_lowercase()) {
            let reason = format!("the file `{}` is listed twice", displayable(&name.value));
            document.wrong(name.at, reason);
        }
        files.push(RemoteFile {
            name: name.value,
            size_bytes: size.map(|size| size.value),
            sha256,
        });
    }
    (document.n_errors() == n_before).then_some(files)
}

/// Returns true if a file of this name is inside the download folder on every system.
fn is_file_name(name: &Located<String>, document: &mut Document<'_>) -> bool {
    let is_bad = |c: char| c == '\\' || c == ':';
    let text = &name.value;
    let is_right = text.len() <= 300
        && !text.contains(is_bad)
        && text
            .split('/')
            .all(|part| !part.is_empty() && !is_hidden(part));
    if !is_right {
        let reason = format!(
            "the name of a file must be a path inside the repository, without `..`, and `{}` is not",
            displayable(text)
        );
        document.wrong(name.at, reason);
    }
    is_right
}

/// Returns true for names such as `..`, and for those that listing models skips.
fn is_hidden(part: &str) -> bool {
    part.starts_with('.')
}

fn sha256(table: &Table<'_>, document: &mut Document<'_>) -> Option<String> {
    let found = table.text("sha256", document)?;
    let is_digit = |b: u8| b.is_ascii_hexdigit();
    if found.value.len() != 64 || !found.value.bytes().all(is_digit) {
        let reason = format!(
            "`sha256` must have 64 hexadecimal digits, not {} characters",
            found.value.chars().count()
        );
        document.wrong(found.at, reason);
        return None;
    }
    Some(found.value.to_ascii_lowercase())
}

/// Checks that listed files have the variant's format and are not larger than its stated size.
fn check_files(variant: &Variant, table: &Table<'_>, document: &mut Document<'_>) {
    if variant.files.is_empty() {
        return;
    }
    if !variant.files.iter().any(|file| variant.is_weights(file)) {
        let reason = match variant.format {
            Format::Gguf => "none of the files is a *.gguf file",
            Format::Safetensors => "none of the files is a *.safetensors file",
        };
        document.wrong(table.position_of("files"), reason);
    }
    let sizes = variant.files.iter().filter_map(|file| file.size_bytes);
    let sum = sizes.fold(0, u64::saturating_add);
    if let Some(stated) = variant.stated_size_bytes.filter(|&stated| sum > stated) {
        let reason =
            format!("the files have {sum} bytes together, more than the `size_bytes` of {stated}");
        document.wrong(table.position_of("size_bytes"), reason);
    }
}

/// Reports a size that this many parameters in this quantization can't have, such as a wrong digit.
fn check_size(
    variant: &Variant,
    numbers: &Architecture,
    quantization: Quantization,
    table: &Table<'_>,
    document: &mut Document<'_>,
) {
    let usual = numbers.parameters as f64 * quantization.bits / 8.0;
    let beside = numbers.vision_parameters as f64 * 2.0;
    let likely = usual * 0.5..usual * 3.0 + beside + ON_TOP_BYTES;
    let sizes = [
        ("size_bytes", variant.stated_size_bytes),
        ("files", variant.weight_files_bytes()),
    ];
    let wrong = sizes.into_iter().find_map(|(key, size)| {
        let size = size?;
        (!likely.contains(&(size as f64))).then_some((key, size))
    });
    if let Some((key, size)) = wrong {
        let reason = format!(
            "{size} bytes are not the size of {} parameters in {}; about {usual:.0} would be",
            numbers.parameters, variant.quantization
        );
        document.wrong(table.position_of(key), reason);
    }
}
