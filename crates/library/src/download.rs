//! Plans downloads: files, sizes, and whether the model fits.
//!
//! Rule: this module never uses the network. A shell fetches the listing that [`Library::listing_of`]
//! names and passes it to [`Library::plan`]. Sizes and checksums of the catalog have priority over
//! those of the hub.

mod reference;

use std::path::PathBuf;

use transom_catalog::estimate::{Estimate, EstimatedFit};
use transom_catalog::{Entry, Format, InstalledModel, Variant};
use transom_hub::{DownloadRequest, HubError, Listing, RepositoryVariant, RequestedFile};

pub use reference::{Reference, UnknownModel};

use crate::Library;
use crate::names::{LookupError, with_format};

/// The quantization name of an offer that is a folder of safetensors.
const FOLDER: &str = "safetensors";

/// A request for the listing of a repository, on which a plan depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingQuery {
    /// `owner/name`.
    pub repository: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// False if the download can begin without it; the queue then lists the files when it starts.
    pub is_required: bool,
}

/// The plan of a download.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The id of the model after the download. Two plans with the same id are the same download.
    pub id: String,
    /// The short name that commands accept after the download.
    pub name: String,
    /// Display name, without the quantization.
    pub title: String,
    /// Format of the files.
    pub format: Format,
    /// Quantization; empty if a folder's listing doesn't say it.
    pub quantization: String,
    /// License as the authors name it; empty if unknown.
    pub license: String,
    /// The files to download, their repository and their folder.
    pub request: DownloadRequest,
    /// Bytes to download, if known.
    pub size_bytes: Option<u64>,
    /// Whether the model fits in memory; `None` if its size is unknown.
    pub estimate: Option<PlanEstimate>,
    /// Keys of the catalog entry that were not verified.
    pub unverified: Vec<String>,
    /// True if the authors require that the user accepts their conditions first.
    pub is_gated: bool,
}

/// Whether a planned model fits in memory, with the numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanEstimate {
    /// Whether it fits.
    pub fit: EstimatedFit,
    /// Bytes that it needs; for a model that only the hub knows, those of its weights.
    pub need_bytes: u64,
    /// Bytes that models may use.
    pub room_bytes: u64,
    /// Tokens of context that the need is for; `None` if only the weights are known.
    pub context_length: Option<u64>,
}

impl From<&Estimate> for PlanEstimate {
    fn from(estimate: &Estimate) -> Self {
        Self {
            fit: estimate.fit,
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
    /// The model comes with the program.
    #[error("{entry} comes with Transom")]
    Bundled {
        /// The entry's id.
        entry: String,
    },
    /// The repository doesn't have the files.
    #[error(transparent)]
    Hub(#[from] HubError),
}

impl Library {
    /// Returns the id that a catalog variant has after the download: the entry's id with the quantization,
    /// and with the format if another variant has the same quantization.
    pub fn id_of_variant(entry: &Entry, variant: &Variant) -> String {
        let same = entry.variants.iter();
        let same = same.filter(|other| other.quantization == variant.quantization);
        match same.count() {
            1 => format!("{}@{}", entry.id, variant.quantization),
            _ => format!("{}@{}", entry.id, with_format(variant)),
        }
    }

    /// Returns the id that one of the `offers` of a repository has after the download: that of the
    /// catalog if it is listed there, else the repository with what identifies the offer.
    pub fn id_of_offer(
        &self,
        repository: &str,
        offer: &RepositoryVariant,
        offers: &[RepositoryVariant],
    ) -> String {
        let is_it = |variant: &&Variant| {
            variant.repository == repository
                && variant.format == format_of(offer)
                && (!offer.is_gguf || variant.quantization == offer.quantization)
        };
        let listed = self.catalog.entries.iter().find_map(|entry| {
            let variant = entry.variants.iter().find(is_it)?;
            Some(Self::id_of_variant(entry, variant))
        });
        listed.unwrap_or_else(|| match (offer.is_gguf, offers) {
            (true, _) => format!("{repository}:{}", offer.quantization),
            (false, [_]) => repository.to_owned(),
            (false, _) => format!("{repository}:mlx"),
        })
    }

    /// Returns the listing that a plan for `reference` depends on; `None` if the catalog is sufficient.
    ///
    /// # Errors
    /// [`PlanError`] if the catalog has no such entry or variant.
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

    /// Returns the plan to download `reference`. `listing` is the one that [`Self::listing_of`] returned.
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

    /// Returns the named variant, else the one that suits this machine.
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
            None => {
                let suited = self.variant_among(entry, &entry.variants);
                suited.unwrap_or(&entry.variants[0])
            }
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
        let listed = variant.files.iter().map(|file| RequestedFile {
            name: file.name.clone(),
            size_bytes: file.size_bytes,
            sha256: file.sha256.clone(),
        });
        let mut size_bytes = variant.size_bytes();
        let mut revision = variant.revision.clone();
        let files: Vec<RequestedFile> = match listing {
            Some(listing) => {
                let offer = offer_of(listing, variant)?;
                let listed: Vec<RequestedFile> = listed.collect();
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
        let estimate = self.estimate_variant(entry, variant);
        let unverified = entry.unverified.iter().chain(&variant.unverified);
        Ok(Plan {
            request: DownloadRequest {
                key: id.clone(),
                name: entry.title(&variant.quantization),
                folder: self.folder_of(&variant.repository),
                repository: variant.repository.clone(),
                revision,
                files,
            },
            id,
            name,
            title: entry.name.clone(),
            format: variant.format,
            quantization: variant.quantization.clone(),
            license: entry.license.clone(),
            size_bytes,
            estimate: estimate.as_ref().map(PlanEstimate::from),
            unverified: unverified.cloned().collect(),
            is_gated: listing.is_some_and(|listing| listing.is_gated),
        })
    }

    fn plan_of_listing(&self, listing: &Listing, part: Option<&str>) -> Result<Plan, HubError> {
        let offers = listing.variants();
        let repository = &listing.repository;
        let suggested = || Some(&offers[self.suggested_offer(repository, &offers)?]);
        let offer = match part {
            Some(part) => named_offer(&offers, part),
            None => suggested(),
        };
        let offer = offer.ok_or_else(|| listing.no_choice(&offers))?;
        let id = self.id_of_offer(repository, offer, &offers);
        let estimate = offer.size_bytes.map(|bytes| PlanEstimate {
            fit: self.fit_of_weights(bytes),
            need_bytes: bytes,
            room_bytes: self.machine.available_memory().budget_bytes,
            context_length: None,
        });
        Ok(Plan {
            request: DownloadRequest {
                key: id.clone(),
                name: repository.clone(),
                repository: repository.clone(),
                revision: listing.commit.clone(),
                files: offer.files.clone(),
                folder: self.folder_of(repository),
            },
            name: part.map_or(repository, |_| &id).clone(),
            id,
            title: repository.clone(),
            format: format_of(offer),
            quantization: quantization_of(offer).to_owned(),
            license: String::new(),
            size_bytes: offer.size_bytes,
            estimate,
            unverified: Vec::new(),
            is_gated: listing.is_gated,
        })
    }

    /// Returns the installed model that has all files of this plan.
    pub fn installed_plan(&self, plan: &Plan) -> Option<&InstalledModel> {
        let DownloadRequest {
            repository, files, ..
        } = &plan.request;
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

    fn folder_of(&self, repository: &str) -> PathBuf {
        let root = self.models_folder().unwrap_or_default();
        let parts = repository.split('/');
        parts.fold(root, |folder, part| folder.join(part))
    }
}

/// Returns the format of an offer.
pub fn format_of(offer: &RepositoryVariant) -> Format {
    match offer.is_gguf {
        true => Format::Gguf,
        false => Format::Safetensors,
    }
}

/// Returns the display name of an offer's quantization; empty for a folder, which doesn't say it
/// before its files are read.
pub fn quantization_of(offer: &RepositoryVariant) -> &str {
    match offer.quantization.as_str() {
        FOLDER => "",
        quantization => quantization,
    }
}

/// Returns the offer that contains a catalog variant.
fn offer_of(listing: &Listing, variant: &Variant) -> Result<RepositoryVariant, HubError> {
    let mut offers = listing.variants();
    offers.retain(|offer| format_of(offer) == variant.format);
    let is_it = |offer: &&RepositoryVariant| {
        let has_file = |name: &str| offer.files.iter().any(|file| file.name == name);
        variant.files.iter().any(|file| has_file(&file.name))
            || offer
                .quantization
                .eq_ignore_ascii_case(&variant.quantization)
    };
    let found = offers.iter().find(is_it).or(match offers.as_slice() {
        [only] => Some(only),
        _ => None,
    });
    let found = found.cloned();
    found.ok_or_else(|| listing.no_choice(&offers))
}

/// Returns the hub's files with the sizes and checksums of the catalog.
fn with_listed(files: Vec<RequestedFile>, listed: &[RequestedFile]) -> Vec<RequestedFile> {
    let over = |file: RequestedFile| match listed.iter().find(|known| known.name == file.name) {
        Some(known) => RequestedFile {
            size_bytes: known.size_bytes.or(file.size_bytes),
            sha256: known.sha256.clone().or(file.sha256),
            name: file.name,
        },
        None => file,
    };
    files.into_iter().map(over).collect()
}

/// Returns the offer with this quantization, format or file.
fn named_offer<'a>(offers: &'a [RepositoryVariant], part: &str) -> Option<&'a RepositoryVariant> {
    let is = |text: &str| text.eq_ignore_ascii_case(part);
    let is_it =
        |offer: &&RepositoryVariant| is(&offer.quantization) || (!offer.is_gguf && is("mlx"));
    let has_file = |offer: &&RepositoryVariant| offer.files.iter().any(|file| file.name == part);
    let found = offers.iter().find(is_it);
    found.or_else(|| offers.iter().find(has_file))
}
