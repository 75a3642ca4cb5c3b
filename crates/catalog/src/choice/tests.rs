//! Tests of the choice with the built-in catalog on machines of every size, and with made-up catalogs
//! for each part of the ranking.
//!
//! Rule: expected results for the built-in catalog follow from its numbers; no entry is named.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::entries::Catalog;
use crate::recommendations::{MEMORY_SIZES, Recommendation, recommended_for};

const GIB: u64 = 1 << 30;

fn budget_of(machine: &Machine) -> u64 {
    machine.budget(None).total_bytes
}

/// Returns Macs and PCs of every size that the recommendations cover.
fn machines() -> impl Iterator<Item = Machine> {
    MEMORY_SIZES.into_iter().flat_map(|bytes| {
        let pc = Machine::new(bytes, None, "", Some(40_000_000_000));
        [Machine::with_memory(bytes), pc]
    })
}

/// Returns a model of 8 billion parameters with these variants: format, quantization, and size in
/// units of 100 MB.
fn entry(variants: &[(&str, &str, Option<u64>)]) -> Entry {
    let mut text = "[[model]]\nid = \"m\"\nname = \"M\"\n[model.architecture]\n\
        model_type = \"qwen3\"\nparameters = 8_000_000_000\nlayers = 36\nhidden_size = 4096\n\
        heads = 32\nkv_heads = 8\nhead_dim = 128\nintermediate_size = 12_288\n\
        vocabulary = 151_936\ncontext_length = 40_960\n"
        .to_owned();
    for (format, quantization, tenths) in variants {
        text.push_str(&format!(
            "[[model.variant]]\nformat = \"{format}\"\nquantization = \"{quantization}\"\n\
             repository = \"o/m\"\n"
        ));
        if let Some(tenths) = tenths {
            text.push_str(&format!("size_bytes = {tenths}00_000_000\n"));
        }
    }
    let list = Catalog::read(&text, Path::new("models.toml"));
    let mut list = list.unwrap_or_else(|error| panic!("{error}\n{text}"));
    list.entries.remove(0)
}

fn chosen(entry: &Entry, machine: &Machine) -> String {
    let estimated = variant_among(entry, &entry.variants, machine, budget_of(machine)).unwrap();
    estimated.variant.quantization.clone()
}

#[test]
fn the_recommended_variant_is_the_chosen_variant() {
    let list = Catalog::built_in();
    for machine in machines() {
        let recommended = recommended_for(&machine, None, &list);
        let main = recommended.pair.as_ref().map(|pair| &pair.main);
        let picks: [Option<&Recommendation>; 4] = [
            recommended.chat.as_ref(),
            recommended.code.as_ref(),
            recommended.small.as_ref(),
            main,
        ];
        for pick in picks.into_iter().flatten() {
            let entry = list.find(&pick.id).unwrap();
            let estimated =
                variant_among(entry, &entry.variants, &machine, recommended.budget_bytes).unwrap();
            let variant = estimated.variant;
            assert_eq!(
                (variant.format, &variant.quantization),
                (pick.format, &pick.quantization)
            );
            assert_eq!(estimated.estimate, pick.estimate, "{}", pick.id);
        }
    }
}

#[test]
fn no_other_variant_of_any_entry_is_better() {
    let list = Catalog::built_in();
    for machine in machines() {
        let budget_bytes = budget_of(&machine);
        for entry in &list.entries {
            let Some(estimated) = variant_among(entry, &entry.variants, &machine, budget_bytes)
            else {
                assert!(entry.variants.is_empty(), "{}", entry.id);
                continue;
            };
            let order = |one: &EstimatedVariant<'_>| {
                let is_second_format = one.variant.format != machine.preferred_format();
                (is_second_format, one.facts.weight_bytes)
            };
            for other in &entry.variants {
                let other = variant_among(entry, [other], &machine, budget_bytes).unwrap();
                if other.is_comfortable() {
                    assert!(estimated.is_comfortable(), "{}", entry.id);
                    assert!(order(&estimated) <= order(&other), "{}", entry.id);
                }
            }
        }
    }
}

#[test]
fn the_second_format_is_chosen_only_if_the_preferred_one_has_no_room() {
    let both = entry(&[
        ("gguf", "Q4_K_M", Some(50)),
        ("mlx", "8-bit", Some(85)),
        ("mlx", "4-bit", Some(46)),
    ]);
    let mac = |gigabytes: u64| Machine::with_memory(gigabytes * GIB);
    assert_eq!(chosen(&both, &mac(32)), "4-bit");
    let pc = Machine::new(32 * GIB, None, "", None);
    assert_eq!(chosen(&both, &pc), "Q4_K_M");
    let large_first = entry(&[("gguf", "Q4_K_M", Some(50)), ("mlx", "8-bit", Some(85))]);
    assert_eq!(chosen(&large_first, &mac(32)), "8-bit");
    assert_eq!(chosen(&large_first, &mac(12)), "Q4_K_M");
    // If nothing fits, the variant in the preferred format is returned, with its numbers.
    let estimated = variant_among(
        &large_first,
        &large_first.variants,
        &mac(4),
        budget_of(&mac(4)),
    )
    .unwrap();
    assert!(!estimated.estimate.fit.is_usable() && estimated.variant.quantization == "8-bit");
}

#[test]
fn fewer_than_four_bits_are_chosen_only_if_four_have_no_room_and_then_the_most() {
    let small = entry(&[
        ("gguf", "IQ1_M", Some(21)),
        ("gguf", "Q3_K_M", Some(38)),
        ("gguf", "Q2_K", Some(30)),
        ("gguf", "Q4_K_M", Some(50)),
        ("gguf", "Q8_0", Some(86)),
    ]);
    let with = |gigabytes: u64| {
        let pc = Machine::new(64 * GIB, None, "", None);
        let estimated = variant_among(&small, &small.variants, &pc, gigabytes * GIB).unwrap();
        (
            estimated.variant.quantization.clone(),
            estimated.is_comfortable(),
        )
    };
    assert_eq!(with(32), ("Q4_K_M".to_owned(), true));
    assert_eq!(with(5), ("Q3_K_M".to_owned(), true));
    assert_eq!(with(1), ("Q4_K_M".to_owned(), false));
}

#[test]
fn a_variant_of_unknown_size_is_chosen_only_if_it_is_the_only_one() {
    let pc = Machine::new(32 * GIB, None, "", None);
    let sized = entry(&[("gguf", "Q4_K_M", None), ("gguf", "Q8_0", Some(86))]);
    assert_eq!(chosen(&sized, &pc), "Q8_0");
    let only = entry(&[("gguf", "Q4_K_M", None)]);
    assert_eq!(chosen(&only, &pc), "Q4_K_M");
}

#[test]
fn q4_k_m_is_chosen_in_a_repository_while_its_weights_fit() {
    let gguf = |quantization, gigabytes: u64| RepositoryFiles {
        format: Format::Gguf,
        quantization,
        size_bytes: Some(gigabytes * GIB),
    };
    let files = [
        gguf("IQ1_S", 2),
        gguf("Q2_K", 3),
        gguf("IQ4_XS", 5),
        gguf("Q4_K_M", 6),
        gguf("Q8_0", 9),
        RepositoryFiles {
            format: Format::Safetensors,
            quantization: "",
            size_bytes: Some(16 * GIB),
        },
    ];
    let pc = Machine::new(32 * GIB, None, "", None);
    let with = |gigabytes: u64| files_among(&files, &pc, gigabytes * GIB).unwrap();
    assert_eq!(files[with(24)].quantization, "Q4_K_M");
    assert_eq!(files[with(5)].quantization, "IQ4_XS");
    assert_eq!(files[with(4)].quantization, "Q2_K");
    assert_eq!(files[with(1)].quantization, "Q4_K_M", "none fits");
    let mac = Machine::with_memory(64 * GIB);
    let on_a_mac = |gigabytes: u64| files_among(&files, &mac, gigabytes * GIB);
    assert_eq!(on_a_mac(24), Some(5));
    assert_eq!(on_a_mac(12), Some(3));
    assert_eq!(files_among(&[], &pc, GIB), None);
}

proptest! {
    /// The order of variants does not matter, and more memory never makes a fitting model unfit.
    #[test]
    fn the_choice_depends_only_on_the_model_and_the_machine(
        order in Just(vec!["IQ2_M", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0"]).prop_shuffle(),
        memory in 4..64u64,
    ) {
        let size = |quantization: &str| (bits_of(Format::Gguf, quantization).unwrap() * 10.0) as u64;
        let shuffled: Vec<_> = order.iter().map(|one| ("gguf", *one, Some(size(one)))).collect();
        let mut sorted = shuffled.clone();
        sorted.sort();
        let machine = Machine::with_memory(memory * GIB);
        let (one, other) = (entry(&shuffled), entry(&sorted));
        prop_assert_eq!(chosen(&one, &machine), chosen(&other, &machine));
        let larger = Machine::with_memory((memory + 4) * GIB);
        let fits = |machine: &Machine| {
            variant_among(&one, &one.variants, machine, budget_of(machine)).unwrap().is_comfortable()
        };
        prop_assert!(!fits(&machine) || fits(&larger));
    }
}
