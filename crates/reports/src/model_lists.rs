//! The installed models, and those that can be installed.
//!
//! Rule: a model that cannot be used is listed too, with its problem.

use std::path::PathBuf;

use serde::Serialize;
use transom_library::{
    Entry, EstimatedFit, InstalledModel, Library, LoadSettings, Origin, format_name, variant_text,
};
use transom_terminal::{
    Layout, Table, disk_text, numbers, paragraph, size_text, tokens_short, words,
};

use crate::text::fit_short;

#[derive(Debug, Clone, Serialize)]
struct InstalledRow {
    /// A short name that `--model` accepts.
    name: String,
    /// The model's id, which stays the same whatever else is installed; `--model` accepts it too.
    id: String,
    /// The display name of the app; `--model` accepts it too.
    title: String,
    /// `MLX 4-bit`, `GGUF Q4_K_M`.
    form: String,
    size_bytes: u64,
    /// The model's own context length.
    context_length: Option<u64>,
    #[serde(flatten)]
    fit: Option<EstimatedFit>,
    /// `with Transom`, `models folder`, `added`, the name of another app.
    origin: String,
    /// Its folder or file.
    path: PathBuf,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// A model that can be installed, in the variant that suits this computer.
#[derive(Debug, Clone, Serialize)]
pub struct OfferedRow {
    /// What `install` accepts.
    id: String,
    /// `MLX 4-bit`, `GGUF Q4_K_M`.
    form: String,
    /// Bytes to download, if known.
    size_bytes: Option<u64>,
    /// The model's own context length.
    context_length: u64,
    good_for: String,
    #[serde(flatten)]
    fit: Option<EstimatedFit>,
    is_installed: bool,
}

/// The models of a library, and those that it can install.
#[derive(Debug, Serialize)]
pub struct ModelLists {
    installed: Vec<InstalledRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offered: Option<Vec<OfferedRow>>,
}

impl ModelLists {
    /// Lists the installed models, and `with_offered` those that can be installed. With `only_fitting`
    /// those that do not fit, or of which that is not known, are left out.
    pub fn new(library: &Library, with_offered: bool, only_fitting: bool) -> Self {
        let mut lists = Self {
            installed: installed(library),
            offered: with_offered.then(|| offered("", only_fitting, library)),
        };
        lists
            .installed
            .retain(|model| !only_fitting || is_usable(model.fit));
        if let Some(offered) = &mut lists.offered {
            offered.retain(|model| !model.is_installed);
        }
        lists
    }

    /// Returns the lists for people. Every line ends with a newline.
    pub fn text(&self, layout: Layout) -> String {
        let mut text = installed_text(&self.installed, layout);
        if let Some(offered) = &self.offered {
            text.push_str("\nTo install, with `transom models install NAME`:\n\n");
            text.push_str(&offered_text(offered, layout));
        } else if self.installed.iter().all(|model| model.origin == STARTER) {
            let advice = "`transom inspect` shows models that suit this computer, `transom models list \
                          --all` every one that can be installed.";
            text.push('\n');
            text.push_str(&paragraph(advice, layout));
        }
        text
    }
}

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
            fit: estimate.ok().map(|estimate| estimate.fit),
            origin: match &model.origin {
                Origin::Starter => STARTER.to_owned(),
                Origin::ModelsFolder => "models folder".to_owned(),
                Origin::Added { .. } => "added".to_owned(),
                Origin::OtherApp { app } => app.name().to_owned(),
            },
            path: model.id.clone(),
            problem: facts.err().map(ToString::to_string),
        }
    };
    library.installed().iter().map(row).collect()
}

/// Returns the formats of a model and its quantization: `MLX+GGUF 4-bit`.
fn form(model: &InstalledModel, library: &Library) -> String {
    let mut formats: Vec<&str> = model.formats().into_iter().map(format_name).collect();
    formats.sort_unstable_by(|a, b| b.cmp(a));
    let quantization = model.quantization(library.catalog());
    format!("{} {quantization}", formats.join("+"))
        .trim()
        .to_owned()
}

/// Returns the entries of the catalog that match these words and can be installed, each in the variant
/// that suits this machine. No words match all. With `only_fitting` entries that do not fit are left
/// out.
pub fn offered(words: &str, only_fitting: bool, library: &Library) -> Vec<OfferedRow> {
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
            fit: estimate.map(|estimate| estimate.fit),
            is_installed: !library.named(&entry.id).is_empty(),
        })
    };
    let found = library.catalog().search(words).into_iter().filter_map(row);
    let fitting = found.filter(|row| !only_fitting || is_usable(row.fit));
    fitting.collect()
}

fn is_usable(fit: Option<EstimatedFit>) -> bool {
    fit.is_some_and(|fit| fit.is_usable())
}

const STARTER: &str = "with Transom";

fn installed_text(models: &[InstalledRow], layout: Layout) -> String {
    if models.is_empty() {
        return "No model is installed.\n".to_owned();
    }
    let context = |model: &InstalledRow| model.context_length.map_or(String::new(), tokens_short);
    let memory = |model: &InstalledRow| match &model.problem {
        Some(_) => "cannot be used".to_owned(),
        None => fit_short(model.fit),
    };
    let columns = [
        words("NAME", |model: &InstalledRow| model.name.clone()),
        words("FORM", |model| model.form.clone()),
        numbers("SIZE", "", |model| disk_text(model.size_bytes)),
        numbers("CONTEXT", "context ", context).optional(2),
        words("MEMORY", memory),
        words("FROM", |model: &InstalledRow| model.origin.clone()).optional(1),
    ];
    let mut text = Table::new(columns).with(models).text(layout);
    for model in models {
        if let Some(problem) = &model.problem {
            text.push('\n');
            text.push_str(&paragraph(&format!("{}: {problem}", model.name), layout));
        }
    }
    text
}

/// Returns the models that can be installed for people.
pub fn offered_text(models: &[OfferedRow], layout: Layout) -> String {
    if models.is_empty() {
        return "None.\n".to_owned();
    }
    let context = |model: &OfferedRow| tokens_short(model.context_length);
    let table = Table::new([
        words("NAME", |model: &OfferedRow| model.id.clone()),
        words("FORM", |model| model.form.clone()),
        numbers("SIZE", "", |model| size_text(model.size_bytes)),
        numbers("CONTEXT", "context ", context).optional(1),
        words("MEMORY", |model| fit_short(model.fit)),
        words("GOOD FOR", |model: &OfferedRow| model.good_for.clone()).optional(2),
    ]);
    table.with(models).text(layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_library::test_support::{computer, install, library};

    fn narrow(columns: usize) -> Layout {
        Layout {
            columns: Some(columns),
            is_dimmed: false,
        }
    }

    fn rows() -> Vec<InstalledRow> {
        let model = |name: &str, form: &str, fit, origin: &str| InstalledRow {
            name: name.to_owned(),
            id: name.to_owned(),
            title: name.to_owned(),
            form: form.to_owned(),
            size_bytes: 2_497_280_256,
            context_length: Some(40_960),
            fit: Some(fit),
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
                fit: None,
                ..model("broken", "GGUF", EstimatedFit::Fits, "LM Studio")
            },
        ]
    }

    #[test]
    fn problems_are_listed_below_the_table() {
        let expect = "\
NAME      FORM               SIZE  CONTEXT  MEMORY          FROM
starter   MLX+GGUF 4-bit  2.50 GB      40k  fits            with Transom
qwen3-4b  GGUF Q4_K_M     2.50 GB      40k  fits with 4k    models folder
broken    GGUF            2.50 GB           cannot be used  LM Studio

broken: m.gguf ends too early
";
        assert_eq!(installed_text(&rows(), narrow(80)), expect);
        assert_eq!(
            installed_text(&[], Layout::default()),
            "No model is installed.\n"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_then_several_lines() {
        let text = installed_text(&rows(), narrow(50));
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
        assert_eq!(installed_text(&rows(), narrow(40)), expect);
    }

    #[test]
    fn models_that_can_be_installed_follow_and_can_be_filtered() {
        let data = tempfile::tempdir().unwrap();
        install(data.path(), "owner/other-GGUF", "other-F16.gguf");
        let library = library(data.path(), computer());
        let text = ModelLists::new(&library, true, false).text(Layout::default());
        assert!(text.contains("\nother-F16  GGUF F16"), "{text}");
        assert!(
            text.contains("\ntiny  GGUF Q4_K_M  700 MB     128k  fits "),
            "{text}"
        );
        assert!(
            text.contains("\nhuge  GGUF Q4_K_M  230 GB     128k  too large"),
            "{text}"
        );
        let text = ModelLists::new(&library, true, true).text(Layout::default());
        assert!(text.contains("\ntiny ") && !text.contains("huge"), "{text}");
    }

    #[test]
    fn the_json_has_both_lists() {
        let data = tempfile::tempdir().unwrap();
        let path = install(data.path(), "owner/other-GGUF", "other-F16.gguf");
        let lists = ModelLists::new(&library(data.path(), computer()), true, false);
        let json = serde_json::to_value(lists).unwrap();
        let installed = &json["installed"][0];
        assert_eq!(installed["name"], "other-F16");
        assert_eq!(installed["title"], "other-F16");
        assert_eq!(installed["fit"], "fits");
        assert_eq!(
            installed["path"],
            path.canonicalize().unwrap().to_str().unwrap()
        );
        assert_eq!(json["offered"][1]["id"], "huge");
        assert_eq!(json["offered"][1]["fit"], "does_not_fit");
        assert!(json["offered"][1]["missing_bytes"].as_u64().unwrap() > 0);
    }
}
