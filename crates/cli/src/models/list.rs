//! `transom models list`: the models that are here, and with `--all` those that may be installed.
//!
//! Rule: what cannot be used is listed too, with its problem; nothing is loaded or fetched.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use transom_files::visible;
use transom_library::EstimatedFit;
use transom_library::{Entry, InstalledModel, Origin};
use transom_library::{Library, LoadSettings, format_name, variant_text};

use crate::console::Console;
use crate::failure::Failure;
use crate::output::json::write_line;
use crate::output::rows::broken;
use crate::output::size::disk_text;
use crate::output::table::{Table, numbers, words};
use crate::output::tokens::tokens_short;
use crate::output::verdict::verdict_short;

/// List the models that are here
///
/// Shown are the name to use with `--model`, the form and packing, the size on disk, the longest
/// context, whether it fits in this computer's memory, and where it lies.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = "\
Examples:
  transom models list
  transom models list --all --fits     also what may be installed, of all only what fits here
  transom models list --json

Exit codes: 0 listed.")]
pub(super) struct ListArgs {
    /// Also list the models that may be installed
    #[arg(short, long)]
    pub(super) all: bool,

    /// Only what fits in this computer's memory
    #[arg(long)]
    pub(super) fits: bool,

    /// Write the lists as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A model that is here.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct InstalledRow {
    /// A short name that `--model` takes.
    pub(crate) name: String,
    /// Its id, which stays the same whatever else is installed; `--model` takes that too.
    pub(crate) id: String,
    /// What windows call it; `--model` takes that too.
    pub(crate) title: String,
    /// `MLX 4-bit`, `GGUF Q4_K_M`.
    pub(crate) form: String,
    /// Bytes on disk.
    pub(crate) size_bytes: u64,
    /// Tokens that it was made to attend to.
    pub(crate) context_length: Option<u64>,
    /// Whether it fits.
    #[serde(flatten)]
    pub(crate) verdict: Option<EstimatedFit>,
    /// `with Transom`, `models folder`, `added`, the name of another app.
    pub(crate) origin: String,
    /// Its folder or file.
    pub(crate) path: PathBuf,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// A model that may be installed, in the variant that suits this computer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OfferedRow {
    /// What `install` takes.
    pub(crate) id: String,
    /// `MLX 4-bit`, `GGUF Q4_K_M`.
    pub(crate) form: String,
    /// Bytes to fetch, where they are known.
    pub(crate) size_bytes: Option<u64>,
    /// Tokens that it was made to attend to.
    pub(crate) context_length: u64,
    /// What it is for.
    pub(crate) good_for: String,
    /// Whether it fits.
    #[serde(flatten)]
    pub(crate) verdict: Option<EstimatedFit>,
    /// It is here already.
    pub(crate) is_here: bool,
}

/// What is written as JSON.
#[derive(Serialize)]
struct Lists<'a> {
    installed: &'a [InstalledRow],
    #[serde(skip_serializing_if = "Option::is_none")]
    offered: Option<&'a [OfferedRow]>,
}

/// Returns every installed model.
fn installed(library: &Library) -> Vec<InstalledRow> {
    let row = |model: &InstalledModel| {
        let facts = model.facts.as_ref();
        let estimate = library.estimate(model, &LoadSettings::default());
        InstalledRow {
            name: library.short_name(model),
            id: library.id_of(model),
            title: model.title(library.catalog()),
            form: form(model, library),
            size_bytes: model.size_bytes,
            context_length: facts.ok().and_then(|facts| facts.context_length),
            verdict: estimate.ok().map(|estimate| estimate.verdict),
            origin: match &model.origin {
                Origin::Starter => STARTER.to_owned(),
                Origin::ModelsFolder => "models folder".to_owned(),
                Origin::Added { .. } => "added".to_owned(),
                Origin::OtherApp { app } => app.name().to_owned(),
            },
            path: model.id.clone(),
            problem: facts.err().cloned(),
        }
    };
    library.installed().iter().map(row).collect()
}

/// The formats of a model and its packing: `MLX+GGUF 4-bit`.
fn form(model: &InstalledModel, library: &Library) -> String {
    let packing = model.quantization(library.catalog());
    let mut formats: Vec<&str> = model.formats().into_iter().map(format_name).collect();
    formats.sort_unstable_by(|a, b| b.cmp(a));
    let text = format!("{} {packing}", formats.join("+"));
    text.trim().to_owned()
}

/// Returns the entries of the catalog with these words that can be installed, each in the variant that
/// suits this machine. No words match all.
pub(super) fn offered(words: &str, library: &Library) -> Vec<OfferedRow> {
    let row = |entry: &Entry| {
        let variant = library.suggested_variant(entry)?;
        let tags = entry.tags.iter().map(|tag| tag.name());
        let estimate = library.estimate_variant(entry, variant);
        Some(OfferedRow {
            id: entry.id.clone(),
            form: variant_text(variant.format, &variant.quantization),
            size_bytes: variant.size_bytes(),
            context_length: entry.context_length,
            good_for: tags.collect::<Vec<_>>().join(", "),
            verdict: estimate.map(|estimate| estimate.verdict),
            is_here: !library.named(&entry.id).is_empty(),
        })
    };
    let found = library.catalog().search(words).into_iter();
    found.filter_map(row).collect()
}

/// Runs the command.
pub(super) fn run(
    args: &ListArgs,
    library: &Library,
    console: &mut Console,
) -> Result<(), Failure> {
    let does_count = |verdict: Option<EstimatedFit>| {
        !args.fits || verdict.is_some_and(|verdict| verdict.is_usable())
    };
    let mut here = installed(library);
    here.retain(|model| does_count(model.verdict));
    let mut offered = match args.all {
        true => offered("", library),
        false => Vec::new(),
    };
    offered.retain(|model| does_count(model.verdict) && !model.is_here);
    if args.json {
        let lists = Lists {
            installed: &here,
            offered: args.all.then_some(&offered),
        };
        return write_line(console.out, &lists).map_err(Failure::Output);
    }
    let columns = console.result_columns();
    let is_dimmed = console.dims_results();
    let mut text = here_text(&here, columns, is_dimmed);
    if args.all {
        text.push_str("\nTo install, with `transom models install NAME`:\n\n");
        text.push_str(&offered_text(&offered, columns, is_dimmed));
    } else if here.iter().all(|model| model.origin == STARTER) {
        text.push('\n');
        text.push_str(&told(
            "`transom fit` shows models that suit this computer, `transom models list --all` \
             every one that may be installed.",
            columns,
        ));
    }
    console.print(&text)
}

/// A sentence in lines that fit. Control characters in it become visible.
fn told(text: &str, columns: Option<usize>) -> String {
    let width = columns.unwrap_or(80).min(80).saturating_sub(1);
    let lines = broken(&visible(text), width).into_iter();
    lines.map(|line| line + "\n").collect()
}

/// Where the starter comes from.
pub(crate) const STARTER: &str = "with Transom";

/// The models that are here, for people.
fn here_text(models: &[InstalledRow], columns: Option<usize>, is_dimmed: bool) -> String {
    if models.is_empty() {
        return "No model is here.\n".to_owned();
    }
    let mut table = Table::new(&[
        words("NAME"),
        words("FORM"),
        numbers("SIZE", ""),
        numbers("CONTEXT", "context ").spare(2),
        words("MEMORY"),
        words("FROM").spare(1),
    ]);
    for model in models {
        let memory = match (&model.problem, model.verdict) {
            (Some(_), _) => "cannot be used".to_owned(),
            (None, verdict) => verdict.map_or(String::new(), verdict_short),
        };
        table.add([
            model.name.clone(),
            model.form.clone(),
            disk_text(model.size_bytes),
            model.context_length.map_or(String::new(), tokens_short),
            memory,
            model.origin.clone(),
        ]);
    }
    let mut text = table.text(columns, is_dimmed);
    for model in models {
        if let Some(problem) = &model.problem {
            text.push('\n');
            text.push_str(&told(&format!("{}: {problem}", model.name), columns));
        }
    }
    text
}

/// Models that may be installed, for people.
pub(super) fn offered_text(
    models: &[OfferedRow],
    columns: Option<usize>,
    is_dimmed: bool,
) -> String {
    let mut table = Table::new(&[
        words("NAME"),
        words("FORM"),
        numbers("SIZE", ""),
        numbers("CONTEXT", "context ").spare(1),
        words("MEMORY"),
        words("GOOD FOR").spare(2),
    ]);
    for model in models {
        table.add([
            model.id.clone(),
            model.form.clone(),
            model.size_bytes.map_or("unknown".to_owned(), disk_text),
            tokens_short(model.context_length),
            model.verdict.map_or(String::new(), verdict_short),
            model.good_for.clone(),
        ]);
    }
    match table.is_empty() {
        true => "None.\n".to_owned(),
        false => table.text(columns, is_dimmed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;
    use transom_library::test_support::{computer, install, library};

    fn here() -> Vec<InstalledRow> {
        let model = |name: &str, form: &str, verdict, origin: &str| InstalledRow {
            name: name.to_owned(),
            id: name.to_owned(),
            title: name.to_owned(),
            form: form.to_owned(),
            size_bytes: 2_497_280_256,
            context_length: Some(40_960),
            verdict: Some(verdict),
            origin: origin.to_owned(),
            path: "/m".into(),
            problem: None,
        };
        let context_length = 4096;
        vec![
            model("starter", "MLX+GGUF 4-bit", EstimatedFit::Fits, STARTER),
            model(
                "qwen3-4b",
                "GGUF Q4_K_M",
                EstimatedFit::FitsWithContext { context_length },
                "models folder",
            ),
            InstalledRow {
                problem: Some("m.gguf ends too early".to_owned()),
                context_length: None,
                verdict: None,
                ..model("broken", "GGUF", EstimatedFit::Fits, "LM Studio")
            },
        ]
    }

    #[test]
    fn models_stand_in_columns_and_problems_below() {
        let expect = "\
NAME      FORM               SIZE  CONTEXT  MEMORY          FROM
starter   MLX+GGUF 4-bit  2.50 GB      40k  fits            with Transom
qwen3-4b  GGUF Q4_K_M     2.50 GB      40k  fits with 4k    models folder
broken    GGUF            2.50 GB           cannot be used  LM Studio

broken: m.gguf ends too early
";
        assert_eq!(here_text(&here(), Some(80), false), expect);
        assert_eq!(here_text(&[], None, false), "No model is here.\n");
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_a_very_narrow_one_several_lines() {
        let text = here_text(&here(), Some(50), false);
        assert!(
            text.starts_with("NAME      FORM               SIZE  MEMORY\n"),
            "{text}"
        );
        let expect = "\
starter
  MLX+GGUF 4-bit, 2.50 GB, context 40k,
  fits, with Transom
qwen3-4b
  GGUF Q4_K_M, 2.50 GB, context 40k,
  fits with 4k, models folder
broken
  GGUF, 2.50 GB, cannot be used, LM
  Studio

broken: m.gguf ends too early
";
        assert_eq!(here_text(&here(), Some(40), false), expect);
    }

    fn listed(args: &ListArgs, data: &std::path::Path) -> String {
        let library = library(data, computer());
        let mut streams = TestConsole::default();
        run(args, &library, &mut streams.console()).unwrap();
        streams.out_text()
    }

    #[test]
    fn what_may_be_installed_follows_and_only_what_fits_where_that_is_asked() {
        let data = tempfile::tempdir().unwrap();
        install(data.path(), "owner/other-GGUF", "other-F16.gguf");
        let mut args = ListArgs {
            all: true,
            ..ListArgs::default()
        };
        let text = listed(&args, data.path());
        assert!(text.contains("\nother-F16  GGUF F16"), "{text}");
        assert!(
            text.contains("\ntiny  GGUF Q4_K_M  700 MB     128k  fits "),
            "{text}"
        );
        assert!(
            text.contains("\nhuge  GGUF Q4_K_M  230 GB     128k  too large"),
            "{text}"
        );
        args.fits = true;
        let text = listed(&args, data.path());
        assert!(text.contains("\ntiny ") && !text.contains("huge"), "{text}");
    }

    #[test]
    fn programs_get_both_lists_as_json() {
        let data = tempfile::tempdir().unwrap();
        let path = install(data.path(), "owner/other-GGUF", "other-F16.gguf");
        let args = ListArgs {
            all: true,
            json: true,
            ..ListArgs::default()
        };
        let json: serde_json::Value = serde_json::from_str(&listed(&args, data.path())).unwrap();
        let installed = &json["installed"][0];
        assert_eq!(installed["name"], "other-F16");
        assert_eq!(installed["title"], "other-F16");
        assert_eq!(installed["verdict"], "fits");
        assert_eq!(
            installed["path"],
            path.canonicalize().unwrap().to_str().unwrap()
        );
        assert_eq!(json["offered"][1]["id"], "huge");
        assert_eq!(json["offered"][1]["verdict"], "does_not_fit");
        assert!(json["offered"][1]["missing_bytes"].as_u64().unwrap() > 0);
    }
}
