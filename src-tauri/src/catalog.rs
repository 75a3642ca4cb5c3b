//! Models that can be downloaded, as pages see them: whether they fit, their speed, and whether
//! they are installed.
//!
//! Rule: the library computes every number and choice; this module only combines them.

pub(crate) mod tiers;

use std::cmp::Reverse;

use serde::Serialize;
use transom_hub::{FoundRepository, Listing, RepositoryVariant};
use transom_library::Recommendations;
use transom_library::{CatalogError, Format, InstalledModel};
use transom_library::{DiskSpace, Library, download};
use transom_library::{Entry, Tag, Variant};
use transom_library::{Estimate, EstimatedFit};

use crate::wire::{
    CatalogErrorView, CatalogView, EntryView, FitSummary, Purpose, RecommendedView, SpeedView,
    TagView, VariantView,
};

/// Returns the whole catalog.
pub(crate) fn view(
    library: &Library,
    error: Option<&CatalogError>,
    disk: &DiskSpace,
) -> CatalogView {
    let entries = library.catalog().entries.iter();
    let entries = entries.filter(|entry| !entry.variants.is_empty());
    let entries: Vec<EntryView> = entries
        .map(|entry| entry_view(entry, library, disk))
        .collect();
    let mut tier = library.recommended();
    let machine = library.machine();
    CatalogView {
        pair: tier.pair.take().map(tiers::pair_view),
        recommended: recommended(tier, &entries),
        entries,
        memory_bytes: machine.specs().memory_bytes,
        room_bytes: machine.available_memory().budget_bytes,
        disk_free_bytes: disk.free_bytes,
        disk_reserved_bytes: disk.pending_bytes(),
        error: error.map(error_view),
        user_file: String::new(),
    }
}

fn error_view(error: &CatalogError) -> CatalogErrorView {
    CatalogErrorView {
        file: error.file.to_string_lossy().into_owned(),
        line: u32::try_from(error.line).unwrap_or(u32::MAX),
        column: u32::try_from(error.column).unwrap_or(u32::MAX),
        code: code_of(&error.code),
        key: error.key.clone(),
        detail: error.reason.clone(),
    }
}

/// Returns the name of an error code.
pub(crate) fn code_of(code: &impl Serialize) -> String {
    let code = serde_json::to_value(code).unwrap_or_default();
    code.as_str().unwrap_or_default().to_owned()
}

fn recommended(tier: Recommendations, entries: &[EntryView]) -> Vec<RecommendedView> {
    let picks = [
        (Purpose::Chat, tier.chat),
        (Purpose::Code, tier.code),
        (Purpose::Small, tier.small),
    ];
    let mut recommended: Vec<RecommendedView> = Vec::new();
    for (purpose, pick) in picks {
        let Some(pick) = pick else { continue };
        let is_pick = |variant: &&VariantView| {
            variant.format == format_name(pick.format) && variant.packing == pick.quantization
        };
        let listed = entries.iter().find(|entry| entry.id == pick.id);
        let variant = listed.and_then(|entry| entry.variants.iter().find(is_pick));
        let is_duplicate = recommended.iter().any(|before| before.entry == pick.id);
        if let Some(variant) = variant
            && !is_duplicate
        {
            recommended.push(RecommendedView {
                purpose,
                variant: variant.key.clone(),
                entry: pick.id,
            });
        }
    }
    recommended
}

fn entry_view(entry: &Entry, library: &Library, disk: &DiskSpace) -> EntryView {
    let numbers = &entry.architecture;
    let variants = entry.variants.iter();
    let best = library.suggested_variant(entry);
    let is_best = |variant: &Variant| Some(variant) == best;
    EntryView {
        id: entry.id.clone(),
        name: entry.name.clone(),
        family: entry.family.clone(),
        description: entry.description.clone(),
        license: entry.license.clone(),
        tags: entry.tags.iter().map(|tag| tag_view(*tag)).collect(),
        source: entry.source.clone().unwrap_or_default(),
        n_parameters: Some(numbers.parameters),
        n_active_parameters: numbers.active_parameters,
        context_length: Some(to_u32(entry.context_length)),
        is_users: entry.is_users,
        is_from_hub: false,
        n_downloads: None,
        best: to_u32(entry.variants.iter().position(is_best).unwrap_or(0) as u64),
        variants: variants
            .map(|variant| variant_view(entry, variant, library, disk))
            .collect(),
    }
}

fn variant_view(
    entry: &Entry,
    variant: &Variant,
    library: &Library,
    disk: &DiskSpace,
) -> VariantView {
    let size_bytes = variant.size_bytes();
    let model = library.installed_variant(entry, variant);
    let estimate = library.estimate_variant(entry, variant);
    let key = Library::id_of_variant(entry, variant);
    VariantView {
        disk_missing_bytes: missing_bytes(disk, model, &key, size_bytes),
        key,
        format: format_name(variant.format).to_owned(),
        packing: variant.quantization.clone(),
        repository: variant.repository.clone(),
        size_bytes,
        fit: estimate.as_ref().map(fit_summary),
        speed: estimate.as_ref().and_then(speed_view),
        model: model.map(|model| library.id_of(model)),
    }
}

/// Returns the bytes that the disk lacks for a variant; `None` if it fits or is installed.
fn missing_bytes(
    disk: &DiskSpace,
    model: Option<&InstalledModel>,
    id: &str,
    size_bytes: Option<u64>,
) -> Option<u64> {
    match model {
        Some(_) => None,
        None => disk.missing_bytes(id, size_bytes),
    }
}

/// Returns the search results of the hub, most downloaded first, without repositories that Transom
/// cannot run.
pub(crate) fn search_views(mut found: Vec<FoundRepository>) -> Vec<EntryView> {
    found.retain(|one| !one.formats.is_empty());
    found.sort_by_key(|one| Reverse(one.downloads));
    let mut seen = std::collections::HashSet::new();
    found.retain(|one| seen.insert(one.repository.clone()));
    let found = found.into_iter();
    found
        .map(|one| EntryView {
            license: one.license.unwrap_or_default(),
            n_downloads: Some(one.downloads),
            ..repository_view(&one.repository)
        })
        .collect()
}

/// Returns the contents of a hub repository. Only file sizes are known, so a variant can be marked
/// as too large but not as fitting.
pub(crate) fn listing_view(listing: &Listing, library: &Library, disk: &DiskSpace) -> EntryView {
    let offers = listing.variants();
    let best = library.suggested_offer(&listing.repository, &offers);
    let variants = offers.iter();
    EntryView {
        best: to_u32(best.unwrap_or(0) as u64),
        variants: variants
            .map(|offer| offer_view(&listing.repository, offer, &offers, library, disk))
            .collect(),
        ..repository_view(&listing.repository)
    }
}

fn offer_view(
    repository: &str,
    offer: &RepositoryVariant,
    offers: &[RepositoryVariant],
    library: &Library,
    disk: &DiskSpace,
) -> VariantView {
    let room_bytes = library.machine().available_memory().budget_bytes;
    let is_too_large = |size: &u64| !library.fit_of_weights(*size).is_usable();
    let model = library.installed_offer(repository, offer);
    let key = library.id_of_offer(repository, offer, offers);
    VariantView {
        disk_missing_bytes: missing_bytes(disk, model, &key, offer.size_bytes),
        key,
        format: format_name(download::format_of(offer)).to_owned(),
        packing: download::quantization_of(offer).to_owned(),
        repository: repository.to_owned(),
        size_bytes: offer.size_bytes,
        fit: offer
            .size_bytes
            .filter(is_too_large)
            .map(|need_bytes| FitSummary::TooLarge {
                need_bytes,
                room_bytes,
            }),
        speed: None,
        model: model.map(|model| library.id_of(model)),
    }
}

fn repository_view(repository: &str) -> EntryView {
    EntryView {
        id: repository.to_owned(),
        name: repository.to_owned(),
        family: String::new(),
        description: String::new(),
        license: String::new(),
        tags: Vec::new(),
        source: format!("{}/{repository}", transom_hub::PUBLIC_HUB),
        n_parameters: None,
        n_active_parameters: None,
        context_length: None,
        is_users: false,
        is_from_hub: true,
        n_downloads: None,
        variants: Vec::new(),
        best: 0,
    }
}

fn tag_view(tag: Tag) -> TagView {
    match tag {
        Tag::Chat => TagView::Chat,
        Tag::Code => TagView::Code,
        Tag::Reasoning => TagView::Reasoning,
        Tag::Embedding => TagView::Embedding,
    }
}

/// Returns the name of a format for pages.
pub(crate) fn format_name(format: Format) -> &'static str {
    match format {
        Format::Gguf => "gguf",
        Format::Safetensors => "mlx",
    }
}

/// Converts the fit of an estimate for pages.
pub(crate) fn fit_summary(estimate: &Estimate) -> FitSummary {
    match estimate.verdict {
        EstimatedFit::Fits => FitSummary::Fits,
        EstimatedFit::FitsWithContext { context_length } => FitSummary::Context {
            tokens: u32::try_from(context_length).unwrap_or(u32::MAX),
        },
        EstimatedFit::FitsIfOthersClose { needs_bytes_free } => FitSummary::OthersClose {
            bytes: needs_bytes_free,
        },
        EstimatedFit::DoesNotFit { .. } => FitSummary::TooLarge {
            need_bytes: estimate.need.total_bytes(),
            room_bytes: estimate.room_bytes,
        },
    }
}

/// Converts a speed for pages.
pub(crate) fn speed_view(estimate: &Estimate) -> Option<SpeedView> {
    estimate.speed.map(|speed| SpeedView {
        low: speed.low,
        high: speed.high,
        is_measured: speed.is_measured,
    })
}

fn to_u32(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
