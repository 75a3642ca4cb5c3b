//! The list of models that can be had, in a window's terms: what fits here, how fast it would be, and
//! what of it is here already.
//!
//! Rule: every figure is that of a room below; here they are only put side by side.

mod best;
mod disk;
pub(crate) mod tiers;

use std::cmp::Reverse;

use transom_catalog::entries::{Catalogue, Entry, Tag, Variant};
use transom_catalog::estimate::DEFAULT_CONTEXT;
use transom_catalog::fit::KvChoice;
use transom_catalog::tiers::Tier;
use transom_catalog::{Format, Installed, Mistake};
use transom_hub::{Found, Listing, Offer};

use crate::here::{Here, speed_view, verdict_view};
use crate::models;
use crate::wire::{
    CatalogueView, EntryView, MistakeView, Purpose, RecommendedView, TagView, VariantView,
    VerdictView,
};
pub(crate) use disk::DiskRoom;

/// Before the key of what is in no list.
const HUB: &str = "hub:";

/// The packing of a folder of safetensors of which nothing more is known.
const FOLDER: &str = "safetensors";

/// The whole list.
pub(crate) fn view(
    list: &Catalogue,
    mistake: Option<&Mistake>,
    here: &Here,
    disk: &DiskRoom,
    installed: &[Installed],
) -> CatalogueView {
    let entries = list
        .entries
        .iter()
        .filter(|entry| !entry.variants.is_empty());
    let entries: Vec<EntryView> = entries
        .map(|entry| entry_view(entry, list, here, disk, installed))
        .collect();
    let mut tier = tiers::of(list, here);
    CatalogueView {
        pair: tier.pair.take().map(tiers::pair_view),
        recommended: recommended(tier, &entries),
        entries,
        memory_bytes: here.machine.memory_bytes,
        room_bytes: here.room.budget_bytes,
        disk_free_bytes: disk.free_bytes,
        disk_coming_bytes: disk.coming_bytes(),
        mistake: mistake.map(mistake_view),
        user_file: String::new(),
    }
}

fn mistake_view(mistake: &Mistake) -> MistakeView {
    MistakeView {
        file: mistake.file.to_string_lossy().into_owned(),
        line: u32::try_from(mistake.line).unwrap_or(u32::MAX),
        column: u32::try_from(mistake.column).unwrap_or(u32::MAX),
        reason: mistake.reason.clone(),
    }
}

fn recommended(tier: Tier, entries: &[EntryView]) -> Vec<RecommendedView> {
    let picks = [
        (Purpose::Chat, tier.chat),
        (Purpose::Code, tier.code),
        (Purpose::Small, tier.small),
    ];
    let mut recommended: Vec<RecommendedView> = Vec::new();
    for (purpose, pick) in picks {
        let Some(pick) = pick else { continue };
        let variant = key(&pick.id, pick.format, &pick.packing);
        let is_listed = entries.iter().any(|entry| entry.id == pick.id);
        let is_twice = recommended.iter().any(|before| before.entry == pick.id);
        if is_listed && !is_twice {
            recommended.push(RecommendedView {
                purpose,
                entry: pick.id,
                variant,
            });
        }
    }
    recommended
}

fn entry_view(
    entry: &Entry,
    list: &Catalogue,
    here: &Here,
    disk: &DiskRoom,
    installed: &[Installed],
) -> EntryView {
    let numbers = &entry.architecture;
    let views: Vec<VariantView> = entry
        .variants
        .iter()
        .map(|variant| variant_view(entry, variant, list, here, disk, installed))
        .collect();
    EntryView {
        id: entry.id.clone(),
        name: entry.name.clone(),
        family: entry.family.clone(),
        description: entry.description.clone(),
        licence: entry.licence.clone(),
        tags: entry.tags.iter().map(|tag| tag_view(*tag)).collect(),
        source: entry.source.clone().unwrap_or_default(),
        n_parameters: Some(numbers.parameters),
        n_active_parameters: numbers.active_parameters,
        context_length: Some(whole(entry.context_length)),
        is_users: entry.is_users,
        is_from_hub: false,
        n_fetched: None,
        best: best::variant(entry, &views, here),
        variants: views,
    }
}

fn variant_view(
    entry: &Entry,
    variant: &Variant,
    list: &Catalogue,
    here: &Here,
    disk: &DiskRoom,
    installed: &[Installed],
) -> VariantView {
    let size_bytes = variant.size_bytes();
    let facts = entry.facts(variant);
    let model = installed.iter().find(|model| {
        let known = model.entry(list);
        known.is_some_and(|(of, as_variant)| {
            of.id == entry.id && as_variant.is_some_and(|one| one == variant)
        })
    });
    let path = model.map(|model| model.id.as_path());
    let estimate =
        size_bytes.map(|_| here.estimate(&facts, path, KvChoice::Automatic, DEFAULT_CONTEXT));
    let key = key(&entry.id, variant.format, &variant.packing);
    VariantView {
        disk_missing_bytes: missing_bytes(disk, model, &key, size_bytes),
        key,
        format: format_name(variant.format).to_owned(),
        packing: variant.packing.clone(),
        repository: variant.repository.clone(),
        size_bytes,
        verdict: estimate.as_ref().map(verdict_view),
        speed: estimate.as_ref().and_then(speed_view),
        model: model.map(models::id_of),
    }
}

/// Bytes that the disk lacks for a variant; what is here already needs none.
fn missing_bytes(
    disk: &DiskRoom,
    model: Option<&Installed>,
    key: &str,
    size_bytes: Option<u64>,
) -> Option<u64> {
    match model {
        Some(_) => None,
        None => disk.missing_bytes(key, size_bytes),
    }
}

/// By which a variant of the list is installed, and its download known.
pub(crate) fn key(entry: &str, format: Format, packing: &str) -> String {
    format!("{entry}/{}/{packing}", format_name(format))
}

/// By which what is in no list is installed.
pub(crate) fn hub_key(repository: &str, packing: &str) -> String {
    format!("{HUB}{repository}/{packing}")
}

/// The repository and the packing of a key of what is in no list.
pub(crate) fn of_hub_key(key: &str) -> Option<(&str, &str)> {
    let (repository, packing) = key.strip_prefix(HUB)?.rsplit_once('/')?;
    repository.contains('/').then_some((repository, packing))
}

/// The entry and the variant of a key of the list.
pub(crate) fn of_key<'a>(list: &'a Catalogue, wanted: &str) -> Option<(&'a Entry, &'a Variant)> {
    let mut all = list.entries.iter().flat_map(|entry| {
        let variants = entry.variants.iter();
        variants.map(move |variant| (entry, variant))
    });
    all.find(|(entry, variant)| key(&entry.id, variant.format, &variant.packing) == wanted)
}

/// What a search of the hub found, most used first; what Transom cannot run is left out.
pub(crate) fn found_views(mut found: Vec<Found>) -> Vec<EntryView> {
    found.retain(|one| !one.libraries.is_empty());
    found.sort_by_key(|one| Reverse(one.downloads));
    let mut seen = std::collections::HashSet::new();
    found.retain(|one| seen.insert(one.repository.clone()));
    let found = found.into_iter();
    found
        .map(|one| EntryView {
            licence: one.licence.unwrap_or_default(),
            n_fetched: Some(one.downloads),
            ..of_repository(&one.repository)
        })
        .collect()
}

/// What one repository of the hub has. Of a file only its size is known, so a verdict is given only
/// where that is too much.
pub(crate) fn listing_view(
    listing: &Listing,
    here: &Here,
    disk: &DiskRoom,
    installed: &[Installed],
) -> EntryView {
    let offers = listing.offers();
    let variants: Vec<VariantView> = offers
        .iter()
        .map(|offer| offer_view(&listing.repository, offer, here, disk, installed))
        .collect();
    EntryView {
        best: best::offer(&offers, &variants, here),
        variants,
        ..of_repository(&listing.repository)
    }
}

fn offer_view(
    repository: &str,
    offer: &Offer,
    here: &Here,
    disk: &DiskRoom,
    installed: &[Installed],
) -> VariantView {
    let format = offer_format(offer);
    let room_bytes = here.room.budget_bytes;
    let too_large = offer.size_bytes.filter(|size| *size > room_bytes);
    let model = installed.iter().find(|model| {
        model.repository.as_deref() == Some(repository) && is_of(model, &offer.packing)
    });
    let key = hub_key(repository, &offer.packing);
    VariantView {
        disk_missing_bytes: missing_bytes(disk, model, &key, offer.size_bytes),
        key,
        format: format_name(format).to_owned(),
        packing: match offer.packing == FOLDER {
            true => String::new(),
            false => offer.packing.clone(),
        },
        repository: repository.to_owned(),
        size_bytes: offer.size_bytes,
        verdict: too_large.map(|need_bytes| VerdictView::TooLarge {
            need_bytes,
            room_bytes,
        }),
        speed: None,
        model: model.map(models::id_of),
    }
}

fn offer_format(offer: &Offer) -> Format {
    match offer.is_gguf {
        true => Format::Gguf,
        false => Format::Safetensors,
    }
}

/// Whether a model is in this packing, by the name of its file; a folder is in the only one it has.
pub(crate) fn is_of(model: &Installed, packing: &str) -> bool {
    let file = model.id.file_name().unwrap_or_default().to_string_lossy();
    let is_file = model.formats().contains(&Format::Gguf);
    !is_file || file.to_lowercase().contains(&packing.to_lowercase())
}

fn of_repository(repository: &str) -> EntryView {
    EntryView {
        id: repository.to_owned(),
        name: repository.to_owned(),
        family: String::new(),
        description: String::new(),
        licence: String::new(),
        tags: Vec::new(),
        source: format!("{}/{repository}", transom_hub::PUBLIC_HUB),
        n_parameters: None,
        n_active_parameters: None,
        context_length: None,
        is_users: false,
        is_from_hub: true,
        n_fetched: None,
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

/// A format as pages know it.
pub(crate) fn format_name(format: Format) -> &'static str {
    match format {
        Format::Gguf => "gguf",
        Format::Safetensors => "mlx",
    }
}

fn whole(figure: u64) -> u32 {
    u32::try_from(figure).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
