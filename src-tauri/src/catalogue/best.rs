//! Which variant of a model a window proposes.
//!
//! Rule: what is here already goes first; among equals the choice is `catalog`'s, which is that of the
//! recommendations and of the command line.

use transom_catalog::choice::{self, Files};
use transom_catalog::entries::{Entry, Variant};
use transom_hub::Offer;

use super::{offer_format, whole};
use crate::here::Here;
use crate::wire::VariantView;

/// Place of the variant of an entry to propose; `views` are those of its variants.
pub(super) fn variant(entry: &Entry, views: &[VariantView], here: &Here) -> u32 {
    let variants = proposed(&entry.variants, views);
    let budget_bytes = here.room.budget_bytes;
    let suited = choice::variant_among(entry, variants, &here.machine, budget_bytes);
    let is_it = |variant: &Variant| suited.as_ref().is_some_and(|one| one.variant == variant);
    place(entry.variants.iter().position(is_it))
}

/// As [`variant`], of what a repository of the hub has.
pub(super) fn offer(offers: &[Offer], views: &[VariantView], here: &Here) -> u32 {
    let offers = offers.iter().enumerate().collect::<Vec<_>>();
    let offers = proposed(&offers, views);
    let files: Vec<Files<'_>> = offers
        .iter()
        .map(|(_, offer)| Files {
            format: offer_format(offer),
            packing: &offer.packing,
            size_bytes: offer.size_bytes,
        })
        .collect();
    let best = choice::files_among(&files, &here.machine, here.room.budget_bytes);
    place(best.map(|best| offers[best].0))
}

/// Those that are here already, else all.
fn proposed<'a, T>(all: &'a [T], views: &[VariantView]) -> Vec<&'a T> {
    let pairs = all.iter().zip(views);
    let here = pairs.filter(|(_, view)| view.model.is_some());
    let here: Vec<&T> = here.map(|(one, _)| one).collect();
    match here.is_empty() {
        true => all.iter().collect(),
        false => here,
    }
}

fn place(place: Option<usize>) -> u32 {
    whole(place.unwrap_or(0) as u64)
}

#[cfg(test)]
mod tests {
    use transom_catalog::Catalogue;
    use transom_catalog::tiers::{MEMORY_SIZES, recommended};

    use super::*;
    use crate::here::tests::mac;

    fn view(model: Option<&str>) -> VariantView {
        VariantView {
            key: String::new(),
            format: String::new(),
            packing: String::new(),
            repository: String::new(),
            size_bytes: None,
            disk_missing_bytes: None,
            verdict: None,
            speed: None,
            model: model.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_marked_best_is_what_the_recommendations_and_the_command_line_choose() {
        let list = Catalogue::built_in();
        for size in MEMORY_SIZES {
            let here = mac(size >> 30);
            let tier = recommended(size, &list);
            assert_eq!(tier.budget_bytes, here.room.budget_bytes);
            for entry in list.entries.iter().filter(|one| !one.variants.is_empty()) {
                let views = vec![view(None); entry.variants.len()];
                let best = &entry.variants[variant(entry, &views, &here) as usize];
                let suited = choice::variant_for(entry, &here.machine, tier.budget_bytes);
                assert_eq!(best, suited.unwrap().variant, "{}", entry.id);
                let picks = [&tier.chat, &tier.code, &tier.small].into_iter().flatten();
                for pick in picks.filter(|pick| pick.id == entry.id) {
                    assert_eq!((best.format, &best.packing), (pick.format, &pick.packing));
                }
            }
        }
    }

    #[test]
    fn a_variant_that_is_here_goes_before_one_that_suits_better() {
        let list = Catalogue::built_in();
        let entry = list.entries.iter().find(|one| one.variants.len() > 2);
        let entry = entry.unwrap();
        let here = mac(16);
        for place in 0..entry.variants.len() {
            let mut views = vec![view(None); entry.variants.len()];
            views[place] = view(Some("it"));
            assert_eq!(variant(entry, &views, &here) as usize, place);
        }
    }
}
