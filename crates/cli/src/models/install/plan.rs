//! What an install will do, said before it does it.
//!
//! Rule: what is fetched is settled here, from the list or from what the hub lists; sizes and
//! checksums of the list go before the hub's.

use std::path::{Path, PathBuf};

use transom_catalog::{Entry, Format, Variant};
use transom_hub::{Hub, HubError, Listing, Offer, Wanted, WantedFile};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::library::judge::{Fit, offer_text};
use crate::library::{Library, form_text};
use crate::link::Link;
use crate::models::elsewhere;
use crate::models::install::wish::Wish;
use crate::output::rows::Rows;
use crate::output::size::disk_text;

/// An install to be.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// What `--model` takes afterwards.
    pub(super) name: String,
    /// Name for people.
    pub(super) title: String,
    /// `GGUF Q4_K_M`.
    pub(super) form: String,
    /// As its makers name it; empty if unknown.
    pub(super) licence: String,
    /// What is fetched from where to where.
    pub(super) wanted: Wanted,
    /// Bytes to fetch, where they are known.
    pub(super) size_bytes: Option<u64>,
    /// Whether it fits in memory, as far as can be told before.
    pub(super) fit: Option<Fit>,
    /// Keys of the list that nobody could verify.
    pub(super) unverified: Vec<String>,
    /// Its authors want their conditions accepted first.
    pub(super) is_gated: bool,
}

impl Plan {
    /// For people: what, from where, how large, whether it fits, and the room on the disk.
    pub(super) fn text(&self, hub: &str, free_bytes: Option<u64>, columns: usize) -> String {
        let mut rows = Rows::new(LABEL, false).within(Some(columns));
        let licence = match self.licence.as_str() {
            "" => String::new(),
            licence => format!(" ({licence})"),
        };
        rows.heading(&format!("{}, {}{licence}", self.title, self.form));
        rows.row("  from", &format!("{hub}/{}", self.wanted.repository));
        let n_files = match self.wanted.files.len() {
            0 => String::new(),
            1 => " in one file".to_owned(),
            n => format!(" in {n} files"),
        };
        let size = self.size_bytes.map(disk_text);
        let size = size.unwrap_or_else(|| "a size that the hub does not say".to_owned());
        rows.row("  fetches", &format!("{size}{n_files}"));
        if let Some(fit) = &self.fit {
            rows.row("  memory", &fit.text());
        }
        if let Some(free) = free_bytes {
            rows.row("  disk", &format!("{} free", disk_text(free)));
        }
        rows.row("  goes to", &tilde(&self.wanted.folder));
        if !self.unverified.is_empty() {
            let names = self.unverified.join(", ");
            rows.row("  note", &format!("not verified in the list: {names}"));
        }
        if self.is_gated {
            let text = "its authors ask you to accept their conditions on its page first";
            rows.row("  note", text);
        }
        rows.finish()
    }
}

/// Columns of labels, margin included.
const LABEL: usize = 11;

/// A path as people write it.
pub(crate) fn tilde(path: &Path) -> String {
    let home = std::env::home_dir();
    let below = home
        .as_deref()
        .and_then(|home| path.strip_prefix(home).ok());
    match below {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Settles what `wish` means here, asking the hub where the list does not say all.
pub(super) fn plan(
    wish: &Wish,
    library: &Library,
    hub: &Hub,
    link: &Link,
    interrupt: &Interrupt,
) -> Result<Plan, Failure> {
    match wish {
        Wish::Listed { id, variant } => {
            let entry = library.catalogue.find(id);
            let entry = entry.ok_or_else(|| library.not_here(id))?;
            let chosen = chosen(entry, variant.as_deref(), library)?;
            let name = match variant {
                Some(_) => format!("{}@{}", entry.id, chosen.packing),
                None => entry.id.clone(),
            };
            let listing = match chosen.lists_all_files() {
                true => None,
                false => {
                    let asking = hub.files(&chosen.repository, &chosen.revision);
                    Some(elsewhere::wait(asking, link, interrupt)?)
                }
            };
            of_entry(name, entry, chosen, listing.as_ref(), library)
        }
        Wish::Hub { repository, part } => {
            let listing = elsewhere::wait(hub.files(repository, "main"), link, interrupt)?;
            of_listing(&listing, part.as_deref(), library)
        }
    }
}

/// The variant that was named, else the one that suits this machine.
fn chosen<'a>(
    entry: &'a Entry,
    named: Option<&str>,
    library: &Library,
) -> Result<&'a Variant, Failure> {
    if entry.variants.is_empty() {
        return Err(Failure::Usage(format!("{} comes with Transom", entry.id)));
    }
    match named {
        Some(named) => library.variant_named(entry, named),
        None => Ok(library.variant_for(entry).unwrap_or(&entry.variants[0])),
    }
}

fn of_entry(
    name: String,
    entry: &Entry,
    variant: &Variant,
    listing: Option<&Listing>,
    library: &Library,
) -> Result<Plan, Failure> {
    let mut files: Vec<WantedFile> = variant
        .files
        .iter()
        .map(|file| WantedFile {
            name: file.name.clone(),
            size_bytes: file.size_bytes,
            sha256: file.sha256.clone(),
        })
        .collect();
    let mut size_bytes = variant.size_bytes();
    let mut revision = variant.revision.clone();
    if let Some(listing) = listing {
        let offer = offer_of(listing, variant)?;
        files = with_listed(offer.files, &files);
        size_bytes = size_of(&files).or(size_bytes);
        revision.clone_from(&listing.commit);
    }
    Ok(Plan {
        title: entry.name.clone(),
        form: form_text(variant.format, &variant.packing),
        licence: entry.licence.clone(),
        wanted: Wanted {
            key: format!("{}@{}", entry.id, variant.packing),
            name: name.clone(),
            repository: variant.repository.clone(),
            revision,
            files,
            folder: folder(&library.models_folder(), &variant.repository),
        },
        name,
        size_bytes,
        fit: library.fit_of(entry, variant),
        unverified: entry
            .unverified
            .iter()
            .chain(&variant.unverified)
            .cloned()
            .collect(),
        is_gated: listing.is_some_and(|listing| listing.is_gated),
    })
}

/// The model among the hub's files that an entry of the list means.
fn offer_of(listing: &Listing, variant: &Variant) -> Result<Offer, HubError> {
    let wants_gguf = variant.format == Format::Gguf;
    let mut offers = listing.offers();
    offers.retain(|offer| offer.is_gguf == wants_gguf);
    let is_it = |offer: &&Offer| {
        let names_it = variant
            .files
            .iter()
            .any(|file| offer.files.iter().any(|of| of.name == file.name));
        names_it || offer.packing.eq_ignore_ascii_case(&variant.packing)
    };
    let found = offers.iter().find(is_it).or(match offers.as_slice() {
        [only] => Some(only),
        _ => None,
    });
    match found {
        Some(offer) => Ok(offer.clone()),
        None if offers.is_empty() => Err(HubError::NoModelFiles {
            repository: listing.repository.clone(),
        }),
        None => Err(several(listing, &offers)),
    }
}

/// What the hub lists, with the sizes and checksums of our list over it.
fn with_listed(files: Vec<WantedFile>, listed: &[WantedFile]) -> Vec<WantedFile> {
    let over = |file: WantedFile| match listed.iter().find(|known| known.name == file.name) {
        Some(known) => WantedFile {
            size_bytes: known.size_bytes.or(file.size_bytes),
            sha256: known.sha256.clone().or(file.sha256),
            name: file.name,
        },
        None => file,
    };
    files.into_iter().map(over).collect()
}

fn of_listing(listing: &Listing, part: Option<&str>, library: &Library) -> Result<Plan, Failure> {
    let offers = listing.offers();
    let none = || HubError::NoModelFiles {
        repository: listing.repository.clone(),
    };
    let offer = match part {
        Some(part) => named_offer(&offers, part).ok_or_else(|| match offers.is_empty() {
            true => none(),
            false => several(listing, &offers),
        })?,
        None => library.offer_among(&offers).cloned().ok_or_else(none)?,
    };
    let name = match (part, offer.is_gguf) {
        (Some(_), true) => format!("{}:{}", listing.repository, offer.packing),
        _ => listing.repository.clone(),
    };
    let fit = offer.size_bytes.map(|bytes| library.fit_of_weights(bytes));
    Ok(Plan {
        title: listing.repository.clone(),
        form: offer_text(&offer),
        licence: String::new(),
        wanted: Wanted {
            key: format!("{}:{}", listing.repository, offer.packing),
            name: name.clone(),
            repository: listing.repository.clone(),
            revision: listing.commit.clone(),
            files: offer.files,
            folder: folder(&library.models_folder(), &listing.repository),
        },
        name,
        size_bytes: offer.size_bytes,
        fit,
        unverified: Vec::new(),
        is_gated: listing.is_gated,
    })
}

/// The offer with this packing, form or file.
fn named_offer(offers: &[Offer], part: &str) -> Option<Offer> {
    let is = |text: &str| text.eq_ignore_ascii_case(part);
    let has_file = |offer: &&Offer| offer.files.iter().any(|file| file.name == part);
    let is_it = |offer: &&Offer| is(&offer.packing) || (!offer.is_gguf && is("mlx"));
    let mut found = offers.iter();
    found.find(is_it).or(offers.iter().find(has_file)).cloned()
}

fn several(listing: &Listing, offers: &[Offer]) -> HubError {
    HubError::SeveralPackings {
        repository: listing.repository.clone(),
        packings: offers.iter().map(|offer| offer.packing.clone()).collect(),
    }
}

fn size_of(files: &[WantedFile]) -> Option<u64> {
    files.iter().map(|file| file.size_bytes).sum()
}

/// Where a repository's files go.
fn folder(models_folder: &Path, repository: &str) -> PathBuf {
    let parts = repository.split('/');
    parts.fold(models_folder.to_owned(), |folder, part| folder.join(part))
}
