//! Tests of the recommendations from the built-in catalog for machines of every size.
//!
//! Rule: only one well-known model is named; all else must hold for any catalog.

use super::*;
use crate::estimate::{AvailableMemory, EstimateRequest, estimate};

fn for_mac(gigabytes: u64) -> Recommendations {
    recommended_for_mac(gigabytes * GIB, &Catalog::built_in())
}

fn all_of(recommended: &Recommendations) -> Vec<&Recommendation> {
    let pair = recommended
        .pair
        .iter()
        .flat_map(|pair| [&pair.main, &pair.second]);
    [&recommended.chat, &recommended.code, &recommended.small]
        .into_iter()
        .flatten()
        .chain(pair)
        .collect()
}

#[test]
fn every_memory_size_gets_recommendations_that_fit() {
    for size in MEMORY_SIZES {
        let recommended = for_mac(size / GIB);
        assert!(
            recommended.chat.is_some(),
            "{} GB: {recommended:?}",
            size / GIB
        );
        assert!(
            recommended.code.is_some(),
            "{} GB: {recommended:?}",
            size / GIB
        );
        assert!(
            recommended.small.is_some(),
            "{} GB: {recommended:?}",
            size / GIB
        );
        assert!(
            recommended.pair.is_some(),
            "{} GB: {recommended:?}",
            size / GIB
        );
        for pick in all_of(&recommended) {
            let need = pick.estimate.need.total_bytes();
            assert!(pick.estimate.fit.is_usable(), "{pick:?}");
            if pick.estimate.fit == EstimatedFit::Fits {
                assert!(need <= recommended.budget_bytes, "{pick:?}");
            }
        }
        let pair = recommended.pair.as_ref().unwrap();
        assert!(pair.need_bytes <= recommended.budget_bytes, "{pair:?}");
        assert_ne!(pair.main.id, pair.second.id);
    }
}

#[test]
fn a_larger_machine_never_gets_a_less_capable_model() {
    let catalog = Catalog::built_in();
    let size = |pick: &Option<Recommendation>| {
        let id = &pick.as_ref().unwrap().id;
        let numbers = &catalog.find(id).unwrap().architecture;
        numbers.parameters as f64 * numbers.active_parameters.unwrap_or(numbers.parameters) as f64
    };
    let recommendations = MEMORY_SIZES.map(|bytes| recommended_for_mac(bytes, &catalog));
    for pair in recommendations.windows(2) {
        assert!(size(&pair[1].chat) >= size(&pair[0].chat), "{pair:#?}");
    }
}

#[test]
fn recommendations_are_reproducible() {
    assert_eq!(for_mac(24), for_mac(24));
}

#[test]
fn a_model_of_70_billion_parameters_is_not_recommended_for_36_gigabytes() {
    let catalog = Catalog::built_in();
    let entry = catalog.find("llama-3.3-70b").unwrap();
    let on = |gigabytes: u64| {
        let machine = Machine::with_memory(gigabytes * GIB);
        let budget = machine.budget(None);
        let fits = entry.variants.iter().map(|variant| {
            let facts = entry.facts(variant);
            estimate(
                &EstimateRequest::new(&facts),
                &machine,
                &AvailableMemory::all_of(budget.total_bytes),
            )
            .fit
        });
        fits.collect::<Vec<_>>()
    };
    assert!(!on(36).is_empty());
    for fit in on(36) {
        assert!(matches!(fit, EstimatedFit::DoesNotFit { .. }), "{fit:?}");
    }
    assert!(on(64).contains(&EstimatedFit::Fits));
    for gigabytes in [8, 16, 24, 36] {
        for pick in all_of(&for_mac(gigabytes)) {
            assert_ne!(pick.id, "llama-3.3-70b");
        }
    }
}

/// On 8 GB a 32 billion parameter model for code would be as wrong as none.
#[test]
fn a_small_machine_gets_small_models_and_a_large_one_large_models() {
    let catalog = Catalog::built_in();
    let parameters = |pick: Option<Recommendation>| {
        let entry = catalog.find(&pick.unwrap().id).unwrap();
        entry.architecture.parameters / 100_000_000
    };
    let small = parameters(for_mac(8).chat);
    assert!((10..=80).contains(&small), "{small}");
    let large = parameters(for_mac(128).chat);
    assert!(large >= 200, "{large}");
}

/// There is enough memory for 27 billion parameters, but they would be far too slow.
#[test]
fn a_slow_machine_gets_models_of_acceptable_speed() {
    let catalog = Catalog::built_in();
    let slow = |gigabytes_a_second: u64| {
        let bandwidth = Some(gigabytes_a_second * 1_000_000_000);
        let machine = Machine::new(32 * GIB, None, "", bandwidth);
        recommended_for(&machine, None, &catalog).chat.unwrap()
    };
    let large = slow(100);
    let small = slow(5);
    let parameters =
        |pick: &Recommendation| catalog.find(&pick.id).unwrap().architecture.parameters;
    assert!(
        parameters(&small) < parameters(&large),
        "{small:?} {large:?}"
    );
    assert!(small.estimate.speed.unwrap().high > 3.0, "{small:?}");
}

#[test]
fn an_empty_catalog_recommends_nothing() {
    let recommended = recommended_for_mac(64 * GIB, &Catalog::default());
    assert_eq!(all_of(&recommended).len(), 0);
}

#[test]
fn without_a_gpu_gguf_is_preferred() {
    let pc = Machine::new(16 * GIB, None, "", Some(40_000_000_000));
    let recommended = recommended_for(&pc, None, &Catalog::built_in());
    assert_eq!(recommended.chat.unwrap().format, Format::Gguf);
    assert_eq!(for_mac(16).chat.unwrap().format, Format::Safetensors);
}
