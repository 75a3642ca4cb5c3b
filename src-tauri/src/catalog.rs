//! Models that can be downloaded, as pages see them: whether they fit, their speed, and whether
//! they are installed.
//!
//! Rule: the library computes every number and choice; this module only combines them.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;
use transom_hub::{FoundRepository, Listing, RepositoryVariant};
use transom_library::{
    CatalogError, DiskSpace, Entry, Estimate, EstimatedFit, Library, ModelPair, Recommendation,
    Recommendations, Variant, download, format_name,
};

use crate::wire::{
    CatalogErrorView, CatalogView, EntryView, FitSummary, PairView, PickView, Purpose,
    RecommendedView, TierView, VariantView,
};

/// Returns the whole catalog. `user_file` is the user's own one, and `error` the error in it.
pub(crate) fn view(
    library: &Library,
    user_file: &Path,
    error: Option<CatalogError>,
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
        pair: tier.pair.take().map(pair_view),
        recommended: recommended(tier, &entries),
        entries,
        memory_bytes: machine.specs().memory_bytes,
        room_bytes: machine.available_memory().budget_bytes,
        disk_free_bytes: disk.free_bytes,
        disk_reserved_bytes: disk.pending_bytes(),
        error: error.map(error_view),
        user_file: user_file.to_string_lossy().into_owned(),
    }
}

fn error_view(error: CatalogError) -> CatalogErrorView {
    CatalogErrorView {
        file: error.file.to_string_lossy().into_owned(),
        line: error.line,
        column: error.column,
        code: code_of(&error.code),
        key: error.key,
        detail: error.reason,
    }
}

/// Returns the name of an error code.
pub(crate) fn code_of(code: &impl Serialize) -> String {
    let code = serde_json::to_value(code).unwrap_or_default();
    code.as_str().unwrap_or_default().to_owned()
}

/// Returns the recommendations that are listed, each model once.
fn recommended(tier: Recommendations, entries: &[EntryView]) -> Vec<RecommendedView> {
    let models = [
        (Purpose::Chat, tier.chat),
        (Purpose::Code, tier.code),
        (Purpose::Small, tier.small),
    ];
    let views = models.into_iter().filter_map(|(purpose, model)| {
        let model = model?;
        let format = format_name(model.format).to_lowercase();
        let entry = entries.iter().find(|entry| entry.id == model.id)?;
        let mut variants = entry.variants.iter();
        let variant = variants.find(|variant| {
            variant.format == format && variant.quantization == model.quantization
        })?;
        Some(RecommendedView {
            purpose,
            variant: variant.key.clone(),
            entry: model.id,
        })
    });
    let mut seen = HashSet::new();
    views
        .filter(|view| seen.insert(view.entry.clone()))
        .collect()
}

fn entry_view(entry: &Entry, library: &Library, disk: &DiskSpace) -> EntryView {
    let variants = entry.variants.iter();
    let best = library.suggested_variant(entry);
    let is_best = |variant: &Variant| Some(variant) == best;
    EntryView {
        id: entry.id.clone(),
        name: entry.name.clone(),
        family: entry.family.clone(),
        description: entry.description.clone(),
        license: entry.license.clone(),
        tags: entry.tags.clone(),
        source: entry.source.clone().unwrap_or_default(),
        n_parameters: Some(entry.architecture.parameters),
        n_active_parameters: entry.architecture.active_parameters,
        context_length: Some(entry.context_length),
        is_users: entry.is_users,
        is_from_hub: false,
        n_downloads: None,
        best: variants.clone().position(is_best).unwrap_or(0),
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
        disk_missing_bytes: match model {
            Some(_) => None,
            None => disk.missing_bytes(&key, size_bytes),
        },
        key,
        format: format_name(variant.format).to_lowercase(),
        quantization: variant.quantization.clone(),
        repository: variant.repository.clone(),
        size_bytes,
        fit: estimate.as_ref().map(fit_summary),
        speed: estimate.and_then(|estimate| estimate.speed),
        model: model.map(|model| library.id_of(model)),
    }
}

/// Returns the search results of the hub, most downloaded first, without repositories that Transom
/// cannot run.
pub(crate) fn search_views(mut found: Vec<FoundRepository>) -> Vec<EntryView> {
    let mut seen = HashSet::new();
    found.retain(|one| !one.formats.is_empty());
    found.sort_by_key(|one| Reverse(one.downloads));
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
        best: best.unwrap_or(0),
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
    let too_large = offer.size_bytes.filter(is_too_large);
    let model = library.installed_offer(repository, offer);
    let key = library.id_of_offer(repository, offer, offers);
    VariantView {
        disk_missing_bytes: match model {
            Some(_) => None,
            None => disk.missing_bytes(&key, offer.size_bytes),
        },
        key,
        format: format_name(download::format_of(offer)).to_lowercase(),
        quantization: download::quantization_of(offer).to_owned(),
        repository: repository.to_owned(),
        size_bytes: offer.size_bytes,
        fit: too_large.map(|need_bytes| FitSummary::TooLarge {
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
        source: format!("{}/{repository}", transom_hub::PUBLIC_HUB),
        is_from_hub: true,
        ..EntryView::default()
    }
}

/// Converts the fit of an estimate for pages.
pub(crate) fn fit_summary(estimate: &Estimate) -> FitSummary {
    match estimate.fit {
        EstimatedFit::Fits => FitSummary::Fits,
        EstimatedFit::FitsWithContext { context_length } => FitSummary::Context {
            tokens: context_length,
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

/// Returns the recommendations for all memory sizes, smallest first. This computer replaces the Mac
/// with the same memory.
pub(crate) fn tiers(library: &Library) -> Vec<TierView> {
    let own_bytes = library.machine().specs().memory_bytes;
    let tiers = library.recommended_by_memory().into_iter();
    tiers.map(|tier| tier_view(tier, own_bytes)).collect()
}

fn tier_view(tier: Recommendations, own_bytes: u64) -> TierView {
    TierView {
        memory_bytes: tier.memory_bytes,
        room_bytes: tier.budget_bytes,
        is_this_computer: tier.memory_bytes == own_bytes,
        chat: tier.chat.map(recommendation_view),
        code: tier.code.map(recommendation_view),
        small: tier.small.map(recommendation_view),
        pair: tier.pair.map(pair_view),
    }
}

fn pair_view(pair: ModelPair) -> PairView {
    PairView {
        kind: pair.kind,
        main: recommendation_view(pair.main),
        second: recommendation_view(pair.second),
        need_bytes: pair.need_bytes,
    }
}

fn recommendation_view(recommendation: Recommendation) -> PickView {
    PickView {
        need_bytes: recommendation.estimate.need.total_bytes(),
        speed: recommendation.estimate.speed,
        entry: recommendation.id,
        name: recommendation.name,
        quantization: recommendation.quantization,
    }
}

#[cfg(test)]
mod tests;
