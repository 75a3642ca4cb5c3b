//! The catalog as pages see it, on machines of several sizes.

use std::sync::Arc;

use transom_hub::{Disk, DownloadsOptions};
use transom_library::download::Reference;
use transom_library::test_support::mac;
use transom_library::{Catalog, Places};

use super::*;

/// A disk with this much free space. It refuses writes.
#[derive(Debug)]
struct FixedDisk(u64);

impl Disk for FixedDisk {
    fn free_bytes(&self, _: &std::path::Path) -> std::io::Result<u64> {
        Ok(self.0)
    }

    fn write_at(&self, _: &std::fs::File, _: &[u8], _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn sync(&self, _: &std::fs::File) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

fn free(bytes: u64) -> DiskSpace {
    let options = DownloadsOptions {
        spare_bytes: 1 << 30,
        disk: Arc::new(FixedDisk(bytes)),
        ..DownloadsOptions::in_folder("/not/there/models/.downloads")
    };
    DiskSpace::read(&options, &[])
}

fn library(gigabytes: u64) -> Library {
    Library::new(Catalog::built_in(), Places::default(), mac(gigabytes))
}

fn catalog_view(gigabytes: u64) -> CatalogView {
    on_disk(gigabytes, 1 << 50)
}

fn on_disk(gigabytes: u64, free_bytes: u64) -> CatalogView {
    view(&library(gigabytes), Path::new(""), None, &free(free_bytes))
}

fn entry<'a>(view: &'a CatalogView, id: &str) -> &'a EntryView {
    let found = view.entries.iter().find(|entry| entry.id == id);
    found.unwrap_or_else(|| panic!("{id} is in the list"))
}

#[test]
fn the_key_of_a_variant_is_the_key_of_its_download() {
    let library = library(16);
    let mut keys = std::collections::HashSet::new();
    for shown in view(&library, Path::new(""), None, &free(1 << 50)).entries {
        for variant in shown.variants {
            let reference = Reference::parse(&variant.key, library.catalog(), "hub");
            let plan = library.plan(&reference.unwrap(), None).unwrap();
            assert_eq!(plan.request.key, variant.key);
            assert_eq!(plan.request.repository, variant.repository);
            assert!(keys.insert(variant.key.clone()), "{} twice", variant.key);
        }
    }
}

#[test]
fn the_starter_is_not_in_the_catalog() {
    assert!(
        catalog_view(16)
            .entries
            .iter()
            .all(|entry| entry.id != "starter")
    );
}

#[test]
fn a_model_that_is_too_large_has_its_numbers() {
    let view = catalog_view(8);
    let large = view.entries.iter().max_by_key(|entry| entry.n_parameters);
    let large = large.unwrap();
    for variant in &large.variants {
        let Some(FitSummary::TooLarge {
            need_bytes,
            room_bytes,
        }) = variant.fit
        else {
            panic!("{} fits 8 GB", variant.key);
        };
        assert!(need_bytes > room_bytes && room_bytes == view.room_bytes);
    }
}

#[test]
fn recommendations_are_listed_fit_and_are_unique() {
    for gigabytes in [8, 16, 36, 64, 192] {
        let view = catalog_view(gigabytes);
        assert_eq!(view.recommended[0].purpose, Purpose::Chat, "{gigabytes} GB");
        let mut seen = std::collections::HashSet::new();
        for one in &view.recommended {
            let entry = entry(&view, &one.entry);
            let variants = &mut entry.variants.iter();
            let variant = variants.find(|variant| variant.key == one.variant).unwrap();
            let is_too_large = matches!(variant.fit, Some(FitSummary::TooLarge { .. }));
            assert!(!is_too_large, "{} on {gigabytes} GB", one.variant);
            assert!(seen.insert(&one.entry), "{} twice", one.entry);
        }
    }
}

#[test]
fn the_best_variant_for_a_mac_is_the_smallest_mlx_one() {
    let view = catalog_view(16);
    let small = entry(&view, "qwen3-4b");
    let best = &small.variants[small.best];
    assert_eq!(best.format, "mlx");
    let smaller = small
        .variants
        .iter()
        .filter(|variant| variant.format == "mlx" && variant.size_bytes < best.size_bytes);
    assert_eq!(smaller.count(), 0);
}

#[test]
fn search_results_are_unique_and_supported() {
    let found =
        |repository: &str, downloads, formats: &[transom_hub::ModelFormat]| FoundRepository {
            repository: repository.to_owned(),
            downloads,
            likes: 0,
            is_gated: false,
            formats: formats.to_vec(),
            license: Some("mit".to_owned()),
            updated: None,
        };
    let views = search_views(vec![
        found("a/small", 3, &[transom_hub::ModelFormat::Mlx]),
        found("a/torch", 900, &[]),
        found("a/large", 40, &[transom_hub::ModelFormat::Gguf]),
        found("a/small", 3, &[transom_hub::ModelFormat::Mlx]),
    ]);
    let names: Vec<&str> = views.iter().map(|view| &*view.id).collect();
    assert_eq!(names, ["a/large", "a/small"]);
    assert!(views[0].is_from_hub && views[0].variants.is_empty());
}

#[test]
fn a_repository_lists_every_quantization_and_marks_large_ones() {
    let file = |name: &str, gigabytes: u64| transom_hub::RemoteFile {
        name: name.to_owned(),
        size_bytes: Some(gigabytes << 30),
        sha256: None,
        git_sha1: None,
    };
    let listing = Listing {
        repository: "a/b-GGUF".to_owned(),
        commit: "c".to_owned(),
        is_gated: false,
        files: vec![file("b-Q8_0.gguf", 40), file("b-Q4_K_M.gguf", 2)],
    };
    let view = listing_view(&listing, &library(16), &free(20 << 30));
    let of = |quantization: &str| {
        let mut variants = view.variants.iter();
        variants
            .find(|variant| variant.quantization == quantization)
            .unwrap()
    };
    assert_eq!(of("Q4_K_M").fit, None, "only its size is known");
    let large = of("Q8_0").fit;
    assert!(matches!(large, Some(FitSummary::TooLarge { .. })));
    assert_eq!(view.variants[view.best].quantization, "Q4_K_M");
    assert_eq!(of("Q4_K_M").key, "a/b-GGUF:Q4_K_M");
    assert_eq!(of("Q4_K_M").disk_missing_bytes, None);
    assert_eq!(of("Q8_0").disk_missing_bytes, Some(21 << 30));
}

#[test]
fn variants_that_exceed_the_disk_have_the_missing_bytes() {
    let roomy = catalog_view(64);
    let size = |variant: &VariantView| variant.size_bytes;
    let of_all = |view: &CatalogView| -> Vec<VariantView> {
        let entries = view.entries.iter();
        entries.flat_map(|entry| entry.variants.clone()).collect()
    };
    let missing = |variant: &VariantView| variant.disk_missing_bytes;
    assert!(of_all(&roomy).iter().all(|one| missing(one).is_none()));
    assert_eq!(roomy.disk_free_bytes, Some(1 << 50));
    let spare = 1 << 30;
    let tight = on_disk(64, 4 << 30);
    for variant in of_all(&tight) {
        let lacks = size(&variant).and_then(|size| (size + spare).checked_sub(4 << 30));
        let lacks = lacks.filter(|bytes| *bytes > 0);
        assert_eq!(variant.disk_missing_bytes, lacks, "{}", variant.key);
    }
    assert!(of_all(&tight).iter().any(|one| missing(one).is_some()));
    assert_eq!(tight.recommended, roomy.recommended, "memory decides that");
}

#[test]
fn the_recommended_pair_is_listed_and_fits_together() {
    for gigabytes in [8, 16, 64] {
        let view = catalog_view(gigabytes);
        let pair = view.pair.as_ref().unwrap();
        assert!(pair.need_bytes <= view.room_bytes, "{gigabytes} GB");
        for model in [&pair.main, &pair.second] {
            assert_eq!(entry(&view, &model.entry).name, model.name);
        }
    }
}

#[test]
fn rows_match_the_table_of_the_command_line() {
    let library = library(16);
    let own_bytes = library.machine().specs().memory_bytes;
    for row in tiers(&library) {
        let mac = library.with_machine(mac(row.memory_bytes >> 30));
        assert_eq!(tier_view(mac.recommended(), own_bytes), row);
        let pair = row.pair.expect("every size has two that fit");
        let need = pair.main.need_bytes + pair.second.need_bytes;
        assert_eq!(pair.need_bytes, need);
        assert!(need <= row.room_bytes);
    }
}
