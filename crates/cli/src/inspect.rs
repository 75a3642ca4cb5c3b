//! `transom inspect`: what a model's files say, and how much memory it needs.

mod card;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use transom_catalog::{Format, KvType, ModelFacts};
use transom_library::is_path;

use crate::console::Console;
use crate::failure::Failure;
use crate::library;
use crate::link::Link;
use crate::output::json::write_line;
use crate::output::rows::Rows;
use crate::output::stats::{bytes_text, parameters_text};

/// Show what a model file or folder is, without loading it
///
/// Reads only headers: architecture, sizes, how the weights are packed, and the memory that weights
/// and context take together.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  transom inspect ~/models/Qwen3-4B-4bit
  transom inspect model-Q4_K_M.gguf --json
  transom inspect qwen3-4b               by its name in `transom models list`; of one that is not
                                         installed, what the list says of it

Exit codes: 0 described, 3 the file is missing, cut short or no model.")]
pub(crate) struct InspectArgs {
    /// Name of a model, GGUF file (any part of a split model), or model folder
    #[arg(value_name = "MODEL")]
    pub(crate) path: PathBuf,

    /// Write the facts as JSON, with the chat template
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is shown.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    facts: ModelFacts,
    /// Weights and KV cache together, by context length; shorter ones first.
    memory: Vec<Need>,
}

/// Bytes that a context length takes, weights included.
#[derive(Debug, PartialEq, Serialize)]
struct Need {
    context_length: u64,
    kv_f16_bytes: u64,
    kv_q8_0_bytes: u64,
}

/// Context lengths that are shown beside the model's own.
const CONTEXTS: [u64; 3] = [4096, 8192, 32_768];

/// Runs the command.
pub(crate) fn run(args: &InspectArgs, link: &Link, console: &mut Console) -> Result<(), Failure> {
    let name = args.path.to_string_lossy();
    let path = match is_path(&name) || args.path.exists() {
        true => args.path.clone(),
        false => {
            let library = library::open(link, console)?;
            match library.find(&name) {
                Some(model) => model.id.clone(),
                None => return card::show(&name, args.json, &library, console),
            }
        }
    };
    let facts = transom_catalog::inspect(&path);
    let facts = facts.map_err(|error| Failure::Model(error.to_string()))?;
    let report = Report {
        memory: needs(&facts),
        facts,
    };
    if args.json {
        return write_line(console.out, &report).map_err(Failure::Output);
    }
    console.print(&report.text(console.dims_results()))
}

fn needs(facts: &ModelFacts) -> Vec<Need> {
    let own = facts.context_length.unwrap_or(0);
    let mut lengths: Vec<u64> = CONTEXTS.into_iter().filter(|&n| n < own).collect();
    lengths.extend((own > 0).then_some(own));
    let need = |context_length| {
        let with = |kind| {
            let cache = facts.kv_cache_bytes(context_length, kind)?;
            cache.checked_add(facts.weight_bytes)
        };
        Some(Need {
            context_length,
            kv_f16_bytes: with(KvType::F16)?,
            kv_q8_0_bytes: with(KvType::Q8_0)?,
        })
    };
    lengths.into_iter().filter_map(need).collect()
}

impl Report {
    fn text(&self, is_dimmed: bool) -> String {
        let facts = &self.facts;
        let mut rows = Rows::new(15, is_dimmed);
        let name = facts.name.as_deref().unwrap_or("without a name");
        let format = match facts.format {
            Format::Gguf => "GGUF",
            Format::Safetensors => "safetensors",
        };
        let n_files = match facts.n_files {
            1 => String::new(),
            n => format!(" in {n} files"),
        };
        rows.row(
            "model",
            &format!("{name} ({}), {format}{n_files}", facts.architecture),
        );
        rows.row(
            "parameters",
            &format!(
                "{} in {}",
                parameters_text(facts.n_parameters),
                bytes_text(facts.weight_bytes)
            ),
        );
        rows.row("packed as", &self.packed());
        rows.row("layers", &self.layers());
        rows.row("context", &self.context());
        let known = |number: Option<u64>| number.map_or("not said".to_owned(), |n| n.to_string());
        rows.row("vocabulary", &known(facts.vocab_size));
        let template = match facts.chat_template {
            Some(_) => "yes",
            None => "none; it only continues text",
        };
        rows.row("chat template", template);
        rows.row("memory", &self.needed());
        rows.finish()
    }

    fn packed(&self) -> String {
        let mix = self.facts.mix.iter();
        let parts = mix.map(|packed| {
            format!(
                "{} in {} tensors of {}",
                bytes_text(packed.bytes),
                packed.n_tensors,
                packed.kind
            )
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    fn layers(&self) -> String {
        let facts = &self.facts;
        let (Some(layers), Some(heads)) = (facts.n_layers, facts.n_heads) else {
            return "not said".to_owned();
        };
        let least = facts.n_kv_heads.iter().min().copied().unwrap_or(heads);
        let most = facts.n_kv_heads.iter().max().copied().unwrap_or(heads);
        let kv = if least == most {
            most.to_string()
        } else {
            format!("{least} to {most}")
        };
        let size = facts
            .key_length
            .map_or(String::new(), |n| format!(" of {n}"));
        format!("{layers}, each with {heads} heads{size} and {kv} for keys and values")
    }

    fn context(&self) -> String {
        let length = match self.facts.context_length {
            Some(n) => format!("{n} tokens"),
            None => "not said".to_owned(),
        };
        match self.facts.sliding_window {
            Some(window) => format!("{length}; windows of {window}"),
            None => length,
        }
    }

    fn needed(&self) -> String {
        if self.memory.is_empty() {
            return "not known: the files do not say how large the context is".to_owned();
        }
        let lines = self.memory.iter().map(|need| {
            let is_most = self.facts.has_window_below(need.context_length);
            format!(
                "{:>9} with {} tokens of context ({} with a q8_0 cache){}",
                bytes_text(need.kv_f16_bytes),
                need.context_length,
                bytes_text(need.kv_q8_0_bytes),
                if is_most { ", at most" } else { "" }
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::test_console::TestConsole;

    fn starter() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/starter"))
    }

    fn facts() -> ModelFacts {
        transom_catalog::inspect(&starter()).unwrap()
    }

    #[test]
    fn the_memory_is_told_for_usual_contexts_and_the_models_own() {
        let mut facts = facts();
        facts.context_length = Some(8192);
        let lengths: Vec<u64> = needs(&facts)
            .iter()
            .map(|need| need.context_length)
            .collect();
        assert_eq!(lengths, [4096, 8192]);
        // 12 layers, 2 heads of 64 for keys and for values, 2 bytes each.
        let need = &needs(&facts)[1];
        assert_eq!(need.kv_f16_bytes, facts.weight_bytes + 8192 * 6144);
        assert_eq!(
            need.kv_q8_0_bytes,
            facts.weight_bytes + 8192 * 6144 * 17 / 32
        );
        facts.context_length = None;
        assert_eq!(needs(&facts), []);
    }

    #[test]
    fn a_model_is_described_for_people_and_for_programs() {
        let mut console = TestConsole::default();
        let mut args = InspectArgs {
            path: starter(),
            json: false,
        };
        run(
            &args,
            &Link::new(Interrupt::detached()),
            &mut console.console(),
        )
        .unwrap();
        let text = console.out_text();
        for line in [
            "model          starter (qwen3), safetensors",
            "parameters     62.1M in 33 MB",
            "layers         12, each with 10 heads of 64 and 2 for keys and values",
            "vocabulary     16384",
            "chat template  yes",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line:?} is not in:\n{text}"
            );
        }
        args.json = true;
        let mut console = TestConsole::default();
        run(
            &args,
            &Link::new(Interrupt::detached()),
            &mut console.console(),
        )
        .unwrap();
        let json: serde_json::Value = serde_json::from_str(&console.out_text()).unwrap();
        assert_eq!(json["architecture"], "qwen3");
        assert_eq!(json["memory"][0]["context_length"], 2048);
    }

    #[test]
    fn a_file_that_is_no_model_is_a_bad_model() {
        let mut console = TestConsole::default();
        let path = starter().join("README.md");
        let args = InspectArgs { path, json: false };
        let failure = run(
            &args,
            &Link::new(Interrupt::detached()),
            &mut console.console(),
        )
        .unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        assert!(failure.to_string().contains("not a GGUF file"), "{failure}");
    }
}
