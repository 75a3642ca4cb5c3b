//! `transom models search`: searches the lists first, then the hub.
//!
//! Rule: the lists need no network. If they had results, a hub that cannot be reached is a note and not
//! a failure.

use clap::Args;
use serde::Serialize;
use transom_files::visible;
use transom_hub::{FoundRepository, Hub, Listing, ModelFormat as Kind};
use transom_library::{EstimatedFit, Library, download, variant_text};
use transom_reports::model_lists::{OfferedRow, offered, offered_text};

use crate::models::hub;
use crate::output::{Table, count_short, disk_text, fit_short, numbers, words};
use crate::{Client, Console, Failure, Layout, Result};

/// Search for models by words
///
/// Transom's list and your own are searched first, in names, descriptions and what models are good
/// for; then the hub, by the names of repositories.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("../help/models-search.txt"))]
pub(super) struct SearchArgs {
    /// Words that must all be there
    #[arg(value_name = "WORDS", required = true)]
    pub(super) words: Vec<String>,

    /// Only models that are known to fit in this computer's memory
    #[arg(long)]
    pub(super) fits: bool,

    /// Search only the catalog
    #[arg(long)]
    pub(super) list_only: bool,

    /// Write the results as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct ResultsJson {
    listed: Vec<OfferedRow>,
    hub: Vec<HubResult>,
    /// Why the hub was not searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    hub_problem: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
struct HubResult {
    #[serde(flatten)]
    found: FoundRepository,
    /// What `install` would download; known only with `--fits`.
    #[serde(flatten)]
    offer: Option<SizedOffer>,
}

/// The files of a repository that `install` would download.
#[derive(Debug, Clone, Serialize)]
struct SizedOffer {
    form: String,
    size_bytes: u64,
    #[serde(flatten)]
    fit: EstimatedFit,
}

pub(super) fn run(
    args: &SearchArgs,
    library: &Library,
    client: &Client,
    console: &mut Console,
) -> Result {
    let words = args.words.join(" ");
    let mut results = ResultsJson {
        listed: offered(&words, args.fits, library),
        hub: Vec::new(),
        hub_problem: None,
    };
    let mut hub_name = String::new();
    if !args.list_only {
        let hub = hub::hub(client)?;
        hub::name_of(&hub).clone_into(&mut hub_name);
        let progress = console.progress();
        progress.show(&format!("Searching {hub_name} …"));
        match search_hub(&hub, &words, args.fits, library, client) {
            Ok(found) => results.hub = found,
            Err(failure @ Failure::Interrupted) => return Err(failure),
            Err(failure) if results.listed.is_empty() => return Err(failure),
            Err(failure) => results.hub_problem = Some(failure.to_string()),
        }
    }
    console.print_result(args.json, &results, |results, layout| {
        results_text(results, &words, &hub_name, layout)
    })?;
    if let Some(problem) = results.hub_problem.filter(|_| !args.json) {
        console.note(&problem);
    }
    Ok(())
}

fn results_text(results: &ResultsJson, words: &str, hub_name: &str, layout: Layout) -> String {
    let mut parts = Vec::new();
    if !results.listed.is_empty() {
        let table = offered_text(&results.listed, layout);
        parts.push(format!("In the catalog:\n\n{table}"));
    }
    if !results.hub.is_empty() {
        let table = hub_text(&results.hub, layout);
        parts.push(format!("On {hub_name}, most used first:\n\n{table}"));
    }
    match parts.is_empty() {
        true => format!("Nothing was found for {}.\n", visible(words)),
        false => parts.join("\n"),
    }
}

/// Returns the repositories of the hub that match; with `only_fitting` only those that are known to
/// contain a model that fits.
fn search_hub(
    hub: &Hub,
    words: &str,
    only_fitting: bool,
    library: &Library,
    client: &Client,
) -> Result<Vec<HubResult>> {
    let mut found = hub::wait(hub.search(words, None), client)?;
    // Transom cannot run a repository of no known format.
    found.retain(|found| !found.formats.is_empty());
    if !only_fitting {
        let plain = |found| HubResult { found, offer: None };
        return Ok(found.into_iter().map(plain).collect());
    }
    found.truncate(MAX_LISTINGS);
    let repositories: Vec<String> = found.iter().map(|found| found.repository.clone()).collect();
    let listings = hub::wait(async { Ok(listings(hub, repositories).await) }, client)?;
    let pairs = found.into_iter().zip(listings);
    let fitting = pairs.filter_map(|(found, listing)| {
        let offer = offer_of(&listing?, library).filter(|offer| offer.fit.is_usable());
        offer.is_some().then_some(HubResult { found, offer })
    });
    Ok(fitting.collect())
}

/// Limit of repositories whose sizes are requested: each is a request of its own.
const MAX_LISTINGS: usize = 12;

/// Requests the files of repositories, all at once; `None` for one that fails.
async fn listings(hub: &Hub, repositories: Vec<String>) -> Vec<Option<Listing>> {
    let tasks = repositories.into_iter().map(|repository| {
        let hub = hub.clone();
        tokio::spawn(async move { hub.files(&repository, "main").await.ok() })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut listings = Vec::new();
    for task in tasks {
        listings.push(task.await.ok().flatten());
    }
    listings
}

/// Returns what `install` would download from a repository, if its size is known.
fn offer_of(listing: &Listing, library: &Library) -> Option<SizedOffer> {
    let offers = listing.variants();
    let index = library.suggested_offer(&listing.repository, &offers)?;
    let offer = &offers[index];
    let size_bytes = offer.size_bytes?;
    Some(SizedOffer {
        form: variant_text(download::format_of(offer), download::quantization_of(offer)),
        size_bytes,
        fit: library.fit_of_weights(size_bytes),
    })
}

fn hub_text(results: &[HubResult], layout: Layout) -> String {
    let columns = [
        words("REPOSITORY", |result: &HubResult| {
            result.found.repository.clone()
        }),
        words("FORM", HubResult::form),
        numbers("SIZE", "", |result| {
            result.of_offer(|offer| disk_text(offer.size_bytes))
        }),
        words("MEMORY", |result| {
            result.of_offer(|offer| fit_short(Some(offer.fit)))
        }),
        numbers("DOWNLOADS", "downloads ", |result| {
            count_short(result.found.downloads)
        }),
        words("LICENSE", HubResult::license),
    ];
    Table::new(columns).with(results).text(layout)
}

impl HubResult {
    fn of_offer(&self, text: fn(&SizedOffer) -> String) -> String {
        self.offer.as_ref().map_or(String::new(), text)
    }

    fn form(&self) -> String {
        let forms = self.found.formats.iter().map(|kind| match kind {
            Kind::Mlx => "MLX",
            Kind::Gguf => "GGUF",
        });
        match &self.offer {
            Some(offer) => offer.form.clone(),
            None => forms.collect::<Vec<_>>().join(", "),
        }
    }

    fn license(&self) -> String {
        let license = self.found.license.as_deref().unwrap_or("");
        match self.found.is_gated {
            true => format!("{license} (to be accepted)"),
            false => license.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;
    use transom_library::test_support::{computer, library};
    use transom_terminal::Interrupt;

    fn result(repository: &str, downloads: u64, is_gated: bool) -> HubResult {
        HubResult {
            found: FoundRepository {
                repository: repository.to_owned(),
                downloads,
                likes: 1,
                is_gated,
                formats: vec![Kind::Mlx, Kind::Gguf],
                license: Some("apache-2.0".to_owned()),
                updated: None,
            },
            offer: None,
        }
    }

    fn narrow(columns: usize) -> Layout {
        Layout {
            columns: Some(columns),
            is_dimmed: false,
        }
    }

    #[test]
    fn columns_without_values_are_left_out() {
        let mut all = vec![
            result("a/b", 3_140_000, false),
            result("c/d-GGUF", 870, true),
        ];
        let expect = "\
REPOSITORY  FORM       DOWNLOADS  LICENSE
a/b         MLX, GGUF       3.1M  apache-2.0
c/d-GGUF    MLX, GGUF        870  apache-2.0 (to be accepted)
";
        assert_eq!(hub_text(&all, narrow(80)), expect);
        all.truncate(1);
        all[0].offer = Some(SizedOffer {
            form: "GGUF Q8_0".to_owned(),
            size_bytes: 4_280_000_000,
            fit: EstimatedFit::Fits,
        });
        let expect = "\
a/b
  GGUF Q8_0, 4.28 GB, fits,
  downloads 3.1M, apache-2.0
";
        assert_eq!(hub_text(&all, narrow(32)), expect);
    }

    #[test]
    fn the_list_is_searched_offline_for_all_words() {
        let data = tempfile::tempdir().unwrap();
        let library = library(data.path(), computer());
        let searched = |words: &str, json: bool| {
            let args = SearchArgs {
                words: words.split(' ').map(str::to_owned).collect(),
                list_only: true,
                json,
                ..SearchArgs::default()
            };
            let mut streams = TestConsole::default();
            let client = Client::new(Interrupt::default());
            run(&args, &library, &client, &mut streams.console()).unwrap();
            assert_eq!(streams.err_text(), "");
            streams.out_text()
        };
        let text = searched("code 400b", false);
        assert!(
            text.starts_with("In the catalog:\n\nNAME") && text.contains("huge"),
            "{text}"
        );
        assert!(!text.contains("tiny"), "{text}");
        assert_eq!(
            searched("no such", false),
            "Nothing was found for no such.\n"
        );
        let json: serde_json::Value = serde_json::from_str(&searched("tiny", true)).unwrap();
        assert_eq!(json["listed"][0]["id"], "tiny");
        assert_eq!(json["hub"], serde_json::json!([]));
    }

    fn listing(sizes: &[(&str, u64)]) -> Listing {
        let files = sizes.iter().map(|(name, size)| transom_hub::RemoteFile {
            name: (*name).to_owned(),
            size_bytes: Some(*size),
            sha256: None,
            git_sha1: None,
        });
        Listing {
            repository: "a/b".to_owned(),
            commit: "c".to_owned(),
            is_gated: false,
            files: files.collect(),
        }
    }

    #[test]
    fn the_offer_is_the_variant_that_would_be_installed() {
        let data = tempfile::tempdir().unwrap();
        let library = library(data.path(), computer());
        let sizes = [
            ("m-Q2_K.gguf", 3_000_000_000),
            ("m-Q4_K_M.gguf", 5_000_000_000),
            ("m-Q8_0.gguf", 8_000_000_000),
            ("m-F16.gguf", 16_000_000_000),
        ];
        let offer = offer_of(&listing(&sizes), &library).unwrap();
        assert_eq!(
            (&*offer.form, offer.size_bytes),
            ("GGUF Q4_K_M", 5_000_000_000)
        );
        let offer = offer_of(&listing(&sizes[2..]), &library).unwrap();
        assert_eq!(&*offer.form, "GGUF Q8_0");
        let offer = offer_of(&listing(&sizes[3..]), &library).unwrap();
        assert!(!offer.fit.is_usable());
        assert!(offer_of(&listing(&[("config.json", 1)]), &library).is_none());
    }
}
