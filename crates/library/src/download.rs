//! What a person wants to download, and what that means here: files, sizes, and whether it fits.
//!
//! Rule: nothing here asks the network. A shell fetches the listing that [`Library::listing_of`] names,
//! at its own pace, and hands it to [`Library::plan`]. Sizes and checksums of the catalog go before the
//! hub's.

use std::path::PathBuf;

use transom_catalog::estimate::{Estimate, MemoryFit};
use transom_catalog::{Catalog, Entry, Format, InstalledModel, Variant};
use transom_hub::{HubError, Listing, Offer, Wanted, WantedFile};

use crate::Library;
use crate::names::{LookupError, format_name, is_repository};

/// The packing of an offer that is a folder of safetensors.
const FOLDER: &str = "safetensors";

/// A model to download, as a person named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// An entry of the catalog.
    InCatalog {
        /// The entry's id.
        id: String,
        /// The packing or format, if one was named.
        variant: Option<String>,
    },
    /// A repository of the hub.
    Hub {
        /// `owner/name`.
        repository: String,
        /// The packing or file, if one was named.
        part: Option<String>,
    },
}

/// A text that names neither an entry nor a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no model is called {text}")]
pub struct UnknownModel {
    /// The text.
    pub text: String,
    /// Ids of entries that are spelled alike, at most three.
    pub similar: Vec<String>,
}

/// The repository whose files a plan depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingQuery {
    /// `owner/name`.
    pub repository: String,
    /// A branch, tag or commit.
    pub revision: String,
    /// False if a download can begin without it: the queue then lists the files when it starts.
    pub is_required: bool,
}

/// A download that can begin.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The id that the model will have; two plans with one id are the same download.
    pub id: String,
    /// The short name that commands take when it is installed.
    pub name: String,
    /// Name for people, without the packing.
    pub title: String,
    /// The format.
    pub format: Format,
    /// How the weights are packed; empty where a folder's listing doesn't say.
    pub packing: String,
    /// As its authors name it; empty if unknown.
    pub license: String,
    /// What is downloaded from where to where.
    pub wanted: Wanted,
    /// Bytes to download; `None` where nobody says.
    pub size_bytes: Option<u64>,
    /// Whether it fits in memory; `None` where nobody says how large it is.
    pub fit: Option<Fit>,
    /// Keys of the catalog that nobody could verify.
    pub unverified: Vec<String>,
    /// Its authors want their conditions accepted first.
    pub is_gated: bool,
}

/// Whether a model fits in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The answer.
    pub verdict: MemoryFit,
    /// What it needs; of a model of the hub its weights alone.
    pub need_bytes: u64,
    /// What models may use.
    pub room_bytes: u64,
    /// Tokens of context that this is for; `None` where only the weights are known.
    pub context_length: Option<u64>,
}

impl From<&Estimate> for Fit {
    fn from(estimate: &Estimate) -> Self {
        Self {
            verdict: estimate.verdict,
            need_bytes: estimate.need.total_bytes(),
            room_bytes: estimate.room_bytes,
            context_length: Some(estimate.need.context_length),
        }
    }
}

/// Why a download can't begin.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The catalog has no such entry or variant.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The entry is part of the program.
    #[error("{entry} comes with Transom")]
    Bundled {
        /// The entry's id.
        entry: String,
    },
    /// The repository doesn't have it.
    #[error(transparent)]
    Hub(#[from] HubError),
}

impl Reference {
    /// Reads an id of the catalog, perhaps with `@packing`; a repository, perhaps with `:packing` or
    /// `:file`; or the address of a repository's page. `endpoint` is the hub's address.
    ///
    /// # Errors
    /// [`UnknownModel`], with similar ids.
    pub fn parse(text: &str, catalog: &Catalog, endpoint: &str) -> Result<Self, UnknownModel> {
        let text = text.trim();
        let (id, variant) = split(text, '@');
        if let Some(entry) = catalog.find(id) {
            let id = entry.id.clone();
            return Ok(Self::InCatalog { id, variant });
        }
        if let Some(reference) = Self::of_page(without_host(text, endpoint)) {
            return Ok(reference);
        }
        let similar = catalog.search(&id.replace(['-', '_', '/', ':'], " "));
        Err(UnknownModel {
            text: text.to_owned(),
            similar: similar
                .iter()
                .take(3)
                .map(|entry| entry.id.clone())
                .collect(),
        })
    }

    /// `owner/name`, perhaps with `:part`, or the path of a page about it or about a file in it.
    fn of_page(page: &str) -> Option<Self> {
        let (repository, part) = split(page, ':');
        if is_repository(repository) {
            let repository = repository.to_owned();
            return Some(Self::Hub { repository, part });
        }
        let page = page.split(['?', '#']).next().unwrap_or(page);
        let parts: Vec<&str> = page.trim_end_matches('/').splitn(5, '/').collect();
        let (owner, name, file) = match parts.as_slice() {
            [owner, name] => (owner, name, None),
            [owner, name, "tree", ..] => (owner, name, None),
            [owner, name, "blob" | "resolve", _, file] => (owner, name, Some((*file).to_owned())),
            _ => return None,
        };
        let repository = format!("{owner}/{name}");
        is_repository(&repository).then_some(Self::Hub {
            repository,
            part: file,
        })
    }
}

impl Library {
    /// Returns the id of a variant of the catalog once it is installed: the entry's with the packing, and
    /// with the format where another variant has the same packing.
    pub fn id_of_variant(entry: &Entry, variant: &Variant) -> String {
        let same = entry.variants.iter();
        let same = same.filter(|other| other.packing == variant.packing);
        match same.count() {
            1 => format!("{}@{}", entry.id, variant.packing),
            _ => format!("{}@{}", entry.id, with_format(variant)),
        }
    }

    /// Returns the id that a model among the `offers` of a repository will have when it is installed. It
    /// names nothing else of the repository, and is that of the catalog where the catalog has it.
    pub fn id_of_offer(&self, repository: &str, offer: &Offer, offers: &[Offer]) -> String {
        let is_it = |variant: &&Variant| {
            variant.repository == repository
                && variant.format == format_of(offer)
                && (!offer.is_gguf || variant.packing == offer.packing)
        };
        let listed = self.catalog.entries.iter().find_map(|entry| {
            let variant = entry.variants.iter().find(is_it)?;
            Some(Self::id_of_variant(entry, variant))
        });
        listed.unwrap_or_else(|| match (offer.is_gguf, offers) {
            (true, _) => format!("{repository}:{}", offer.packing),
            (false, [_]) => repository.to_owned(),
            (false, _) => format!("{repository}:mlx"),
        })
    }

    /// Returns the listing that a plan for `reference` depends on; `None` if the catalog says it all.
    ///
    /// # Errors
    /// [`PlanError`], if the catalog has no such entry or variant.
    pub fn listing_of(&self, reference: &Reference) -> Result<Option<ListingQuery>, PlanError> {
        let (repository, revision, is_required) = match reference {
            Reference::Hub { repository, .. } => (&**repository, "main", true),
            Reference::InCatalog { id, variant } => {
                let (_, variant) = self.wanted_variant(id, variant.as_deref())?;
                if variant.lists_all_files() {
                    return Ok(None);
                }
                // A repository has only one folder of safetensors, so the queue finds it.
                let is_required = variant.format == Format::Gguf;
                (&*variant.repository, &*variant.revision, is_required)
            }
        };
        Ok(Some(ListingQuery {
            repository: repository.to_owned(),
            revision: revision.to_owned(),
            is_required,
        }))
    }

    /// Returns what downloading `reference` means here. `listing` is what [`Self::listing_of`] asked for.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(
        &self,
        reference: &Reference,
        listing: Option<&Listing>,
    ) -> Result<Plan, PlanError> {
        match (reference, listing) {
            (Reference::InCatalog { id, variant }, _) => {
                let (entry, chosen) = self.wanted_variant(id, variant.as_deref())?;
                let name = match variant {
                    Some(_) => Self::id_of_variant(entry, chosen),
                    None => entry.id.clone(),
                };
                Ok(self.plan_of_entry(name, entry, chosen, listing)?)
            }
            (Reference::Hub { part, .. }, Some(listing)) => {
                Ok(self.plan_of_listing(listing, part.as_deref())?)
            }
            (Reference::Hub { repository, .. }, None) => Err(HubError::NoModelFiles {
                repository: repository.clone(),
            }
            .into()),
        }
    }

    /// The variant that was named, else the one that suits this machine.
    fn wanted_variant(
        &self,
        id: &str,
        named: Option<&str>,
    ) -> Result<(&Entry, &Variant), PlanError> {
        let entry = self.catalog.find(id).ok_or_else(|| self.not_found(id))?;
        if entry.variants.is_empty() {
            return Err(PlanError::Bundled {
                entry: entry.id.clone(),
            });
        }
        let variant = match named {
            Some(named) => self.variant_named(entry, named)?,
            None => match self.variant_among(entry, &entry.variants) {
                Some(variant) => variant,
                None => &entry.variants[0],
            },
        };
        Ok((entry, variant))
    }

    fn plan_of_entry(
        &self,
        name: String,
        entry: &Entry,
        variant: &Variant,
        listing: Option<&Listing>,
    ) -> Result<Plan, HubError> {
        let listed = variant.files.iter().map(|file| WantedFile {
            name: file.name.clone(),
            size_bytes: file.size_bytes,
            sha256: file.sha256.clone(),
        });
        let mut size_bytes = variant.size_bytes();
        let mut revision = variant.revision.clone();
        let files: Vec<WantedFile> = match listing {
            Some(listing) => {
                let offer = offer_of(listing, variant)?;
                let listed: Vec<WantedFile> = listed.collect();
                let files = with_listed(offer.files, &listed);
                let sizes = files.iter().map(|file| file.size_bytes);
                size_bytes = sizes.sum::<Option<u64>>().or(size_bytes);
                revision.clone_from(&listing.commit);
                files
            }
            None if variant.lists_all_files() => listed.collect(),
            None => Vec::new(),
        };
        let id = Self::id_of_variant(entry, variant);
        let fit = self.estimate_variant(entry, variant);
        let unverified = entry.unverified.iter().chain(&variant.unverified);
        Ok(Plan {
            wanted: Wanted {
                key: id.clone(),
                name: entry.title(&variant.packing),
                folder: self.folder_of(&variant.repository),
                repository: variant.repository.clone(),
                revision,
                files,
            },
            id,
            name,
            title: entry.name.clone(),
            format: variant.format,
            packing: variant.packing.clone(),
            license: entry.license.clone(),
            size_bytes,
            fit: fit.as_ref().map(Fit::from),
            unverified: unverified.cloned().collect(),
            is_gated: listing.is_some_and(|listing| listing.is_gated),
        })
    }

    fn plan_of_listing(&self, listing: &Listing, part: Option<&str>) -> Result<Plan, HubError> {
        let offers = listing.offers();
        let none = || HubError::NoModelFiles {
            repository: listing.repository.clone(),
        };
        let offer = match part {
            Some(part) => named_offer(&offers, part).ok_or_else(|| match offers.is_empty() {
                true => none(),
                false => several(listing, &offers),
            })?,
            None => {
                let place = self.suggested_offer(&listing.repository, &offers);
                offers[place.ok_or_else(none)?].clone()
            }
        };
        let id = self.id_of_offer(&listing.repository, &offer, &offers);
        let fit = offer.size_bytes.map(|bytes| Fit {
            verdict: self.verdict_of_weights(bytes),
            need_bytes: bytes,
            room_bytes: self.machine.available_memory().budget_bytes,
            context_length: None,
        });
        Ok(Plan {
            wanted: Wanted {
                key: id.clone(),
                name: listing.repository.clone(),
                repository: listing.repository.clone(),
                revision: listing.commit.clone(),
                files: offer.files.clone(),
                folder: self.folder_of(&listing.repository),
            },
            name: match part {
                Some(_) => id.clone(),
                None => listing.repository.clone(),
            },
            id,
            title: listing.repository.clone(),
            format: format_of(&offer),
            packing: packing_of(&offer).to_owned(),
            license: String::new(),
            size_bytes: offer.size_bytes,
            fit,
            unverified: Vec::new(),
            is_gated: listing.is_gated,
        })
    }

    /// Returns the installed model that has all files of this plan.
    pub fn installed_plan(&self, plan: &Plan) -> Option<&InstalledModel> {
        let Wanted {
            repository, files, ..
        } = &plan.wanted;
        self.installed().iter().find(|model| {
            let has_file = |name: &str| match model.id.is_dir() {
                true => model.id.join(name).is_file(),
                false => model
                    .id
                    .ancestors()
                    .any(|folder| folder.join(name).is_file()),
            };
            model.repository.as_ref() == Some(repository)
                && files.iter().all(|file| has_file(&file.name))
        })
    }

    /// The folder that a repository's files go to.
    fn folder_of(&self, repository: &str) -> PathBuf {
        let root = self.models_folder().unwrap_or_default();
        let parts = repository.split('/');
        parts.fold(root, |folder, part| folder.join(part))
    }
}

/// A packing and its format in one word: `MXFP4-GGUF`.
pub(crate) fn with_format(variant: &Variant) -> String {
    format!("{}-{}", variant.packing, format_name(variant.format))
}

/// Returns the format of an offer.
pub fn format_of(offer: &Offer) -> Format {
    match offer.is_gguf {
        true => Format::Gguf,
        false => Format::Safetensors,
    }
}

/// Returns the packing of an offer for people; a folder's isn't known before its files are read.
pub fn packing_of(offer: &Offer) -> &str {
    match offer.packing.as_str() {
        FOLDER => "",
        packing => packing,
    }
}

/// The offer that a variant of the catalog means.
fn offer_of(listing: &Listing, variant: &Variant) -> Result<Offer, HubError> {
    let mut offers = listing.offers();
    offers.retain(|offer| format_of(offer) == variant.format);
    let is_it = |offer: &&Offer| {
        let has_file = |name: &str| offer.files.iter().any(|file| file.name == name);
        variant.files.iter().any(|file| has_file(&file.name))
            || offer.packing.eq_ignore_ascii_case(&variant.packing)
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

/// The hub's files, with the sizes and checksums of the catalog over theirs.
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

/// The offer with this packing, format or file.
fn named_offer(offers: &[Offer], part: &str) -> Option<Offer> {
    let is = |text: &str| text.eq_ignore_ascii_case(part);
    let is_it = |offer: &&Offer| is(&offer.packing) || (!offer.is_gguf && is("mlx"));
    let has_file = |offer: &&Offer| offer.files.iter().any(|file| file.name == part);
    let found = offers.iter().find(is_it);
    found.or_else(|| offers.iter().find(has_file)).cloned()
}

fn several(listing: &Listing, offers: &[Offer]) -> HubError {
    HubError::SeveralPackings {
        repository: listing.repository.clone(),
        packings: offers.iter().map(|offer| offer.packing.clone()).collect(),
    }
}

fn split(text: &str, at: char) -> (&str, Option<String>) {
    match text.split_once(at) {
        Some((base, rest)) if !rest.is_empty() => (base, Some(rest.to_owned())),
        Some((base, _)) => (base, None),
        None => (text, None),
    }
}

/// The path of a page, from an address that begins as the hub's do.
fn without_host<'a>(text: &'a str, endpoint: &str) -> &'a str {
    let bare = |text: &'a str| text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, host)| host);
    let text = bare(text);
    for host in [host, "huggingface.co", "hf.co"] {
        if let Some(page) = text
            .strip_prefix(host)
            .and_then(|rest| rest.strip_prefix('/'))
        {
            return page;
        }
    }
    text
}
