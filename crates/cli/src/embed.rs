//! `transom embed`: the embedding vectors of texts, one line of JSON for each.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use serde::Serialize;
use transom_engine::{EmbedInput, FinishReason};
use transom_library::{InstalledModel, Library, LoadSettings, TextSide};
use transom_supervisor::{ClientId, ModelRequest, ResponseEvent, Work};

use crate::library;
use crate::output::show_wait;
use crate::{Client, Console, Failure, Result};

/// Turn texts into embedding vectors, for search
///
/// Writes one line of JSON for each text: its place from 0, its number of tokens, and its vector. Every
/// vector has length 1, so the dot product of two is their similarity.
#[derive(Debug, Clone, Default, Args)]
#[command(after_long_help = include_str!("help/embed.txt"))]
pub(crate) struct EmbedArgs {
    /// The texts; `-` reads standard input, where each line is a text
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,

    /// Name of an installed embedding model, or its folder or file [default: the first that is
    /// installed]
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// The texts are searches: put before them what the model's authors put before a search
    #[arg(long, conflicts_with = "document")]
    pub(crate) query: bool,

    /// The texts are documents to find: put before them what the model's authors put before a document
    #[arg(long)]
    pub(crate) document: bool,

    /// How to write a vector
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) format: VectorFormat,

    /// Load the model even if it exceeds the memory budget (`transom doctor` shows it); other apps
    /// may slow down
    #[arg(long)]
    pub(crate) over_budget: bool,
}

/// How a vector is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum VectorFormat {
    /// A list of numbers
    #[default]
    Json,
    /// The numbers as little-endian 32-bit floats, in base64
    Base64,
}

/// A line of the output.
#[derive(Serialize)]
struct Line<'a> {
    index: usize,
    tokens: usize,
    embedding: WrittenVector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenVector<'a> {
    Numbers(&'a [f32]),
    Base64(String),
}

impl EmbedArgs {
    fn side(&self) -> TextSide {
        match (self.query, self.document) {
            (true, _) => TextSide::Query,
            (false, true) => TextSide::Document,
            (false, false) => TextSide::Neither,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &EmbedArgs, client: &Client, console: &mut Console) -> Result {
    let texts = texts(&args.texts, console)?;
    let library = library::open(client, console)?;
    let model = find(&library, args.model.as_deref())?;
    let prefix = library.embedding_prefix(&model, args.side());
    if prefix.is_none() && args.side() != TextSide::Neither {
        let name = model.title(library.catalog());
        console.note(&format!(
            "The prefixes of {name} are not known; the texts are embedded as they are."
        ));
    }
    let prefix = prefix.unwrap_or_default();
    let inputs = texts
        .iter()
        .map(|text| EmbedInput::Text(format!("{prefix}{text}")));
    let spec = library.spec(&model, &LoadSettings::default());
    let work = Work::Embed(inputs.collect());
    let request = ModelRequest {
        over_budget: args.over_budget,
        ..ModelRequest::new(ClientId::cli(), spec, work)
    };
    let progress = console.progress();
    let mut index = 0;
    let completion = client.send(&request, &mut |event| {
        let ResponseEvent::Embedded { n_tokens, vector } = event else {
            show_wait(&progress, &request.model.name, &event);
            return Ok(());
        };
        progress.clear();
        let line = Line {
            index,
            tokens: n_tokens,
            embedding: written(&vector, args.format),
        };
        index += 1;
        console.print_json(&line)
    })?;
    progress.clear();
    let was_interrupted = completion.was_interrupted;
    match completion.finished()?.0 {
        FinishReason::Stop | FinishReason::Length => Ok(()),
        FinishReason::Canceled if was_interrupted => Err(Failure::Interrupted),
        FinishReason::Canceled | FinishReason::Shed => Err(Failure::failed(format!(
            "stopped after {index} of {} texts, because the model was unloaded; embed the others again",
            texts.len()
        ))),
    }
}

fn written(vector: &[f32], format: VectorFormat) -> WrittenVector<'_> {
    match format {
        VectorFormat::Json => WrittenVector::Numbers(vector),
        VectorFormat::Base64 => {
            let bytes = vector.iter().flat_map(|value| value.to_le_bytes());
            WrittenVector::Base64(STANDARD.encode(bytes.collect::<Vec<u8>>()))
        }
    }
}

/// Returns the texts of the arguments, with the lines of standard input in place of `-`.
fn texts(arguments: &[String], console: &mut Console) -> Result<Vec<String>> {
    if arguments.is_empty() && console.terminals.stdin {
        return Err(Failure::usage(
            "there is no text; write it after `embed`, as in: transom embed \"A cat on a mat\"",
        ));
    }
    let only_input = ["-".to_owned()];
    let arguments = match arguments {
        [] => &only_input,
        arguments => arguments,
    };
    let mut piped = String::new();
    if arguments.iter().any(|text| text == "-") {
        let read = console.input.read_to_string(&mut piped);
        read.map_err(Failure::input)?;
    }
    let texts = arguments.iter().flat_map(|text| match &**text {
        "-" => piped.lines().map(str::to_owned).collect(),
        text => vec![text.to_owned()],
    });
    let texts: Vec<String> = texts.collect();
    match texts.is_empty() {
        true => Err(Failure::usage(
            "standard input is empty; write a text a line",
        )),
        false => Ok(texts),
    }
}

/// Returns the embedding model that `named` names, else the first one that is installed.
fn find(library: &Library, named: Option<&Path>) -> Result<InstalledModel> {
    let advice = || match library.first_embedder() {
        Some(other) => format!("use --model {}", library.id_of(other)),
        None => "`transom models install qwen3-embedding-0.6b` downloads one".to_owned(),
    };
    let Some(named) = named else {
        let first = library.first_embedder().cloned();
        return first.ok_or_else(|| {
            Failure::Model(format!("no embedding model is installed; {}", advice()))
        });
    };
    let model = library.resolve(&named.to_string_lossy())?;
    match library.is_embedder(&model) {
        true => Ok(model),
        false => Err(Failure::Model(format!(
            "{} generates text and makes no vectors; {}",
            model.title(library.catalog()),
            advice()
        ))),
    }
}

#[cfg(test)]
mod tests;
