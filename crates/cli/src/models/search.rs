//! `transom models search`: looks in the lists first, then on the hub.
//!
//! Rule: the list answers without a network; a hub that cannot be asked is a note, not a failure,
//! where the list had something.

use clap::Args;
use serde::Serialize;
use transom_files::visible;
use transom_hub::{FoundRepository, Hub, HubError, Listing, ModelFormat as Kind};
use transom_library::EstimatedFit;
use transom_library::{Library, download, variant_text};

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::models::elsewhere;
use crate::models::list::{OfferedRow, offered, offered_text};
use crate::output::json::write_line;
use crate::output::progress::Progress;
use crate::output::size::disk_text;
use crate::output::table::{Table, numbers, words};
use crate::output::verdict::verdict_short;

/// Look for models by words
///
/// Transom's list and your own are searched first, in names, descriptions and what models are good
/// for; then the hub, by the names of repositories.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom models search coder
  transom models search small chat --fits      of the list only what fits in this computer's memory
  transom models search qwen3 --list-only      without the network

Exit codes: 0 searched, also when nothing was found; 1 the hub could not be asked and the list had
nothing.")]
pub(super) struct SearchArgs {
    /// Words that must all be there
    #[arg(value_name = "WORDS", required = true)]
    pub(super) words: Vec<String>,

    /// Only what is known to fit in this computer's memory
    #[arg(long)]
    pub(super) fits: bool,

    /// Search the lists only
    #[arg(long)]
    pub(super) list_only: bool,

    /// Write what was found as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Results {
    listed: Vec<OfferedRow>,
    hub: Vec<OnHub>,
    /// Why the hub was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    hub_problem: Option<String>,
}

/// A repository.
#[derive(Debug, Clone, Serialize)]
struct OnHub {
    #[serde(flatten)]
    found: FoundRepository,
    /// What would be fetched; known only where that was asked for.
    #[serde(flatten)]
    offer: Option<SizedOffer>,
}

/// What of a repository would be fetched.
#[derive(Debug, Clone, Serialize)]
struct SizedOffer {
    form: String,
    size_bytes: u64,
    #[serde(flatten)]
    verdict: EstimatedFit,
}

/// Runs the command.
pub(super) fn run(
    args: &SearchArgs,
    library: &Library,
    link: &Link,
    console: &mut Console,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let words = args.words.join(" ");
    let mut listed = offered(&words, library);
    if args.fits {
        listed.retain(|model| model.verdict.is_some_and(|verdict| verdict.is_usable()));
    }
    let (hub_name, asked) = match args.list_only {
        true => (String::new(), Ok(Vec::new())),
        false => {
            let hub = elsewhere::hub(link)?;
            Progress::new(console).show(&format!("Asking {} …", elsewhere::name_of(&hub)));
            let asked = ask(&hub, &words, args.fits, library, link, interrupt);
            (elsewhere::name_of(&hub).to_owned(), asked)
        }
    };
    let (on_hub, problem) = match asked {
        Ok(found) => (found, None),
        Err(failure @ Failure::Interrupted) => return Err(failure),
        Err(failure) if listed.is_empty() => return Err(failure),
        Err(failure) => (Vec::new(), Some(failure.to_string())),
    };
    if args.json {
        let results = Results {
            listed,
            hub: on_hub,
            hub_problem: problem,
        };
        return write_line(console.out, &results).map_err(Failure::Output);
    }
    let columns = console.result_columns();
    let is_dimmed = console.dims_results();
    let mut text = String::new();
    if !listed.is_empty() {
        text.push_str("In the list:\n\n");
        text.push_str(&offered_text(&listed, columns, is_dimmed));
    }
    if !on_hub.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("On {hub_name}, most used first:\n\n"));
        text.push_str(&hub_text(&on_hub, columns, is_dimmed));
    }
    if text.is_empty() {
        text = format!("Nothing was found for {}.\n", visible(&words));
    }
    console.print(&text)?;
    if let Some(problem) = problem {
        console.note(&problem);
    }
    Ok(())
}

/// Repositories of the hub that match; with `fits` those of which something is known to fit.
fn ask(
    hub: &Hub,
    words: &str,
    fits: bool,
    library: &Library,
    link: &Link,
    interrupt: &Interrupt,
) -> Result<Vec<OnHub>, Failure> {
    let mut found = elsewhere::wait(hub.search(words, None), link, interrupt)?;
    // What Transom cannot run is no find.
    found.retain(|found| !found.formats.is_empty());
    if !fits {
        let plain = |found| OnHub { found, offer: None };
        return Ok(found.into_iter().map(plain).collect());
    }
    found.truncate(MOST_ASKED);
    let repositories: Vec<String> = found.iter().map(|found| found.repository.clone()).collect();
    let listings = elsewhere::wait(listings(hub, repositories), link, interrupt)?;
    let sized = found
        .into_iter()
        .zip(listings)
        .filter_map(|(found, listing)| {
            let offer = sized(&listing?, library)?;
            let offer = Some(offer).filter(|offer| offer.verdict.is_usable());
            offer.map(|offer| OnHub {
                found,
                offer: Some(offer),
            })
        });
    Ok(sized.collect())
}

/// Repositories of which sizes are asked: each is a request of its own.
const MOST_ASKED: usize = 12;

/// The files of repositories, asked side by side; `None` of one that does not tell.
async fn listings(hub: &Hub, repositories: Vec<String>) -> Result<Vec<Option<Listing>>, HubError> {
    let asking = repositories.into_iter().map(|repository| {
        let hub = hub.clone();
        tokio::spawn(async move { hub.files(&repository, "main").await.ok() })
    });
    let asking: Vec<_> = asking.collect();
    let mut listings = Vec::new();
    for listing in asking {
        listings.push(listing.await.ok().flatten());
    }
    Ok(listings)
}

/// What `install` would take of a repository, where its size is known.
fn sized(listing: &Listing, library: &Library) -> Option<SizedOffer> {
    let offers = listing.variants();
    let place = library.suggested_offer(&listing.repository, &offers)?;
    let offer = &offers[place];
    let size_bytes = offer.size_bytes?;
    Some(SizedOffer {
        form: variant_text(download::format_of(offer), download::quantization_of(offer)),
        size_bytes,
        verdict: library.fit_of_weights(size_bytes),
    })
}

/// Repositories, for people.
fn hub_text(found: &[OnHub], columns: Option<usize>, is_dimmed: bool) -> String {
    let mut table = Table::new(&[
        words("REPOSITORY"),
        words("FORM"),
        numbers("SIZE", ""),
        words("MEMORY"),
        numbers("DOWNLOADS", "downloads "),
        words("LICENCE"),
    ]);
    for OnHub { found, offer } in found {
        let forms = found.formats.iter().map(|kind| match kind {
            Kind::Mlx => "MLX",
            Kind::Gguf => "GGUF",
        });
        let forms = forms.collect::<Vec<_>>().join(", ");
        let gated = match found.is_gated {
            true => " (to be accepted)",
            false => "",
        };
        table.add([
            found.repository.clone(),
            offer.as_ref().map_or(forms, |offer| offer.form.clone()),
            offer
                .as_ref()
                .map_or(String::new(), |offer| disk_text(offer.size_bytes)),
            offer
                .as_ref()
                .map_or(String::new(), |offer| verdict_short(offer.verdict)),
            count_short(found.downloads),
            format!("{}{gated}", found.license.as_deref().unwrap_or("")),
        ]);
    }
    table.text(columns, is_dimmed)
}

/// `310`, `12k`, `3.1M`.
fn count_short(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{}k", n / 1000),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;
    use transom_library::test_support::{computer, library};

    fn found(repository: &str, downloads: u64, is_gated: bool) -> OnHub {
        OnHub {
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

    #[test]
    fn repositories_stand_in_columns_and_sizes_only_where_they_were_asked() {
        let mut all = vec![found("a/b", 3_140_000, false), found("c/d-GGUF", 870, true)];
        let expect = "\
REPOSITORY  FORM       DOWNLOADS  LICENCE
a/b         MLX, GGUF       3.1M  apache-2.0
c/d-GGUF    MLX, GGUF        870  apache-2.0 (to be accepted)
";
        assert_eq!(hub_text(&all, Some(80), false), expect);
        all.truncate(1);
        all[0].offer = Some(SizedOffer {
            form: "GGUF Q8_0".to_owned(),
            size_bytes: 4_280_000_000,
            verdict: EstimatedFit::Fits,
        });
        let expect = "\
a/b
  GGUF Q8_0, 4.28 GB, fits,
  downloads 3.1M, apache-2.0
";
        assert_eq!(hub_text(&all, Some(32), false), expect);
    }

    #[test]
    fn counts_are_short() {
        let check = |n, expect: &str| assert_eq!(count_short(n), expect);
        check(9_999, "9999");
        check(10_000, "10k");
        check(999_999, "999k");
        check(1_000_000, "1.0M");
    }

    #[test]
    fn the_list_is_searched_without_a_network_and_all_words_must_be_there() {
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
            let interrupt = Interrupt::detached();
            let mut console = streams.console();
            run(
                &args,
                &library,
                &Link::new(interrupt.clone()),
                &mut console,
                &interrupt,
            )
            .unwrap();
            assert_eq!(streams.err_text(), "");
            streams.out_text()
        };
        let text = searched("code 400b", false);
        assert!(
            text.starts_with("In the list:\n\nNAME") && text.contains("huge"),
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
    fn of_a_repository_what_would_be_installed_is_shown() {
        let data = tempfile::tempdir().unwrap();
        let library = library(data.path(), computer());
        let sizes = [
            ("m-Q2_K.gguf", 3_000_000_000),
            ("m-Q4_K_M.gguf", 5_000_000_000),
            ("m-Q8_0.gguf", 8_000_000_000),
            ("m-F16.gguf", 16_000_000_000),
        ];
        let offer = sized(&listing(&sizes), &library).unwrap();
        assert_eq!(
            (&*offer.form, offer.size_bytes),
            ("GGUF Q4_K_M", 5_000_000_000)
        );
        let offer = sized(&listing(&sizes[2..]), &library).unwrap();
        assert_eq!(&*offer.form, "GGUF Q8_0");
        let offer = sized(&listing(&sizes[3..]), &library).unwrap();
        assert!(!offer.verdict.is_usable());
        assert!(sized(&listing(&[("config.json", 1)]), &library).is_none());
    }
}
