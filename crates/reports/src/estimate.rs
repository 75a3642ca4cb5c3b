//! The memory that a model needs on a machine, as a bar and in numbers, and whether it fits.
//!
//! Rule: `catalog` computes the fit and every figure; this module only prints them. The JSON's field
//! names are an interface.

use serde::Serialize;
use transom_library::{EstimatedFit, Library, LoadSettings, Speed, Subject};
use transom_terminal::{Layout, Rows, memory_text, paragraph};

use crate::text::speed_text;

/// The estimate of a model on a machine.
#[derive(Debug, Clone, Serialize)]
pub struct FitReport {
    /// The display name of the model.
    pub model: String,
    /// Its form and quantization: `GGUF Q4_K_M`.
    pub form: String,
    /// The machine: `this computer with 16 GB`.
    pub machine: String,
    /// Bytes that models may use there.
    pub room_bytes: u64,
    /// The context length of the estimate.
    pub context_length: u64,
    /// The memory that it needs, by part.
    pub parts: Vec<Part>,
    /// Bytes that it needs in all.
    pub need_bytes: u64,
    /// Whether measurements of earlier uses corrected the need.
    pub is_corrected: bool,
    /// Whether that fits.
    #[serde(flatten)]
    pub fit: EstimatedFit,
    /// The longest context that fits; `None` if none does.
    pub longest_context: Option<u64>,
    /// The model's own context length.
    pub model_context: Option<u64>,
    /// Tokens per second; `None` if the machine's bandwidth is unknown.
    pub speed: Option<Speed>,
    /// The draft model that is loaded beside it.
    pub draft: Option<DraftModel>,
    /// A draft model that would fit beside it, if none was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested_draft: Option<Suggestion>,
    /// Values of the catalog that could not be read from the model's own files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
}

/// The draft model of the estimate.
#[derive(Debug, Clone, Serialize)]
pub struct DraftModel {
    /// Its display name.
    pub model: String,
    /// Its form and quantization.
    pub form: String,
}

/// A draft model that the catalog suggests.
#[derive(Debug, Clone, Serialize)]
pub struct Suggestion {
    /// What `--draft` accepts.
    pub id: String,
    /// Its display name.
    pub model: String,
}

/// One part of the memory.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// What it is for.
    pub kind: PartKind,
    /// Its bytes.
    pub bytes: u64,
}

/// The parts, in their order in the bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The weights of the model.
    Weights,
    /// The KV cache of the whole context.
    KvCache,
    /// What a step computes with.
    Working,
    /// The draft model with its KV cache.
    Draft,
    /// Cached prefixes of earlier prompts.
    PrefixCache,
}

impl PartKind {
    /// Returns its character in the bar, and its label.
    fn mark(self) -> (char, &'static str) {
        match self {
            Self::Weights => ('█', "weights"),
            Self::KvCache => ('▓', "context"),
            Self::Working => ('▒', "working memory"),
            Self::Draft => ('▚', "draft model"),
            Self::PrefixCache => ('░', "prefix cache"),
        }
    }
}

impl FitReport {
    /// Returns what `main` needs, with `draft` beside it, on the machine of `library`, called `machine`.
    pub fn new(
        main: Subject,
        draft: Option<Subject>,
        library: &Library,
        settings: &LoadSettings,
        machine: String,
    ) -> Self {
        let estimate = library.estimate_subject(&main, draft.as_ref(), settings);
        let suggested = match draft {
            Some(_) => None,
            None => library.suggested_draft(&main, settings),
        };
        let need = &estimate.need;
        let working_bytes = need.activation_bytes;
        let working_bytes = working_bytes.saturating_add_signed(need.correction_bytes);
        let part = |kind, bytes| Part { kind, bytes };
        Self {
            suggested_draft: suggested.map(|(id, draft)| Suggestion {
                id,
                model: draft.title,
            }),
            draft: draft.map(|draft| DraftModel {
                model: draft.title,
                form: draft.form,
            }),
            model: main.title,
            form: main.form,
            machine,
            room_bytes: estimate.room_bytes,
            context_length: need.context_length,
            parts: vec![
                part(PartKind::Weights, need.weight_bytes),
                part(PartKind::KvCache, need.kv_cache_bytes),
                part(PartKind::Working, working_bytes),
                part(PartKind::Draft, need.draft_bytes),
                part(
                    PartKind::PrefixCache,
                    need.cache_bytes + estimate.parked_bytes,
                ),
            ],
            need_bytes: need.total_bytes() + estimate.parked_bytes,
            is_corrected: estimate.is_corrected,
            fit: estimate.fit,
            longest_context: estimate.context_that_fits,
            model_context: main.facts.context_length,
            speed: estimate.speed,
            unverified: main.unverified,
        }
    }

    /// Returns the estimate for people. Every line ends with a newline.
    pub fn text(&self, layout: Layout) -> String {
        let draft = self.draft.as_ref();
        let draft = draft.map(|draft| format!(" with {}, {},", draft.model, draft.form));
        let draft = draft.unwrap_or_default();
        let heading = format!("{}, {},{draft} on {}", self.model, self.form, self.machine);
        let mut text = paragraph(&heading, layout) + "\n" + &self.bar(layout) + "\n";
        let mut rows = Rows::new(LABEL_WIDTH, layout);
        let need = memory_text(self.need_bytes);
        let sizes = self.parts().map(|part| memory_text(part.bytes).len());
        let width = sizes.chain([need.len()]).max().unwrap_or(0);
        for part in self.parts() {
            let (glyph, label) = part.kind.mark();
            let context = match part.kind {
                PartKind::KvCache => format!("  for {} tokens", self.context_length),
                _ => String::new(),
            };
            let value = format!("{:>width$}{context}", memory_text(part.bytes));
            rows.row(&format!("{MARGIN}{glyph} {label}"), &value);
        }
        let corrected = match self.is_corrected {
            true => ", corrected by earlier uses",
            false => "",
        };
        let room = memory_text(self.room_bytes);
        let together = format!("{need:>width$} of {room} for models{corrected}");
        rows.row(&format!("{MARGIN}  together"), &together);
        text = text + &rows.finish() + "\n" + &paragraph(&self.sentence(), layout) + "\n";
        let mut rows = Rows::new(LABEL_WIDTH, layout);
        let mut row = |label, value: &str| rows.row(&format!("{MARGIN}{label}"), value);
        row("longest context", &self.longest_context_text());
        row("speed", &self.speed_text());
        if let Some(Suggestion { id, model }) = &self.suggested_draft {
            row(
                "draft",
                &format!("{model} would make it faster: --draft {id}"),
            );
        }
        if !self.unverified.is_empty() {
            let names = self.unverified.join(", ");
            let text = format!("{names}, which could not be read from the model's own files");
            row("not verified", &text);
        }
        text + &rows.finish()
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.bytes > 0)
    }

    /// Returns a bar of all parts. If they do not fit, a mark below it shows how much does.
    fn bar(&self, layout: Layout) -> String {
        let width = layout.text_width().saturating_sub(MARGIN.len());
        let total = self.need_bytes.max(self.room_bytes).max(1);
        let share = |bytes: u64| {
            let share = u128::from(bytes.min(total)) * width as u128;
            usize::try_from(share / u128::from(total)).unwrap_or(width)
        };
        let mut bar = String::new();
        let (mut end_bytes, mut end) = (0u64, 0);
        for part in self.parts() {
            end_bytes = end_bytes.saturating_add(part.bytes);
            // Every part gets at least one column, if there is room.
            let next = share(end_bytes).max(end + 1).min(width);
            bar.extend(std::iter::repeat_n(part.kind.mark().0, next - end));
            end = next;
        }
        bar.extend(std::iter::repeat_n('·', width - end));
        let bar = format!("{MARGIN}{bar}\n");
        if self.need_bytes <= self.room_bytes {
            return bar;
        }
        let end = share(self.room_bytes).saturating_sub(1);
        let room = memory_text(self.room_bytes);
        // The figure is on the side of the mark that has room for it.
        let mark = match end + 2 + room.len() <= width {
            true => format!("{MARGIN}{}▲ {room}", " ".repeat(end)),
            false => format!("{MARGIN}{room:>end$} ▲", end = end.saturating_sub(1)),
        };
        bar + &layout.dim(&mark) + "\n"
    }

    fn speed_text(&self) -> String {
        match (self.speed, &self.draft) {
            (Some(speed), None) => speed_text(speed),
            (Some(speed), Some(_)) => format!("{}, without the draft", speed_text(speed)),
            (None, _) => "unknown for this computer; `transom bench` measures it".to_owned(),
        }
    }

    fn sentence(&self) -> String {
        let (fits, does_not, they, need) = match self.draft {
            None => ("It fits", "It does not fit", "it", "it needs"),
            Some(_) => (
                "Both fit",
                "The two do not fit together",
                "they",
                "they need",
            ),
        };
        let requested = self.context_length;
        match self.fit {
            EstimatedFit::Fits => format!("{fits}, with a context of {requested} tokens."),
            EstimatedFit::FitsWithContext { context_length } => {
                let more = memory_text(self.need_bytes.saturating_sub(self.room_bytes));
                format!(
                    "{fits} with a context of {context_length} tokens; with {requested} {they} \
                     would need {more} more."
                )
            }
            EstimatedFit::FitsIfOthersClose { needs_bytes_free } => format!(
                "{fits} if you close other apps, which use {} that {need}.",
                memory_text(needs_bytes_free)
            ),
            EstimatedFit::DoesNotFit { missing_bytes } => format!(
                "{does_not}: {need} {} more than models may use here.",
                memory_text(missing_bytes)
            ),
        }
    }

    fn longest_context_text(&self) -> String {
        match (self.longest_context, self.model_context) {
            (Some(longest), Some(own)) if longest >= own => {
                format!("{longest} tokens, all that the model supports")
            }
            (Some(longest), Some(own)) => format!("{longest} tokens of the model's {own}"),
            (Some(longest), None) => format!("{longest} tokens"),
            (None, _) => "none fits".to_owned(),
        }
    }
}

/// Returns why `draft` is no useful draft model for `main`, if that is known.
pub fn doubt(main: &Subject, draft: &Subject) -> Option<String> {
    // Some vocabularies of the same tokenizer are padded to different lengths.
    const MAX_PADDING: u64 = 128;
    let sizes = main.facts.vocab_size.zip(draft.facts.vocab_size);
    let (title, other) = (&main.title, &draft.title);
    if sizes.is_some_and(|(own, its)| own.abs_diff(its) > MAX_PADDING) {
        return Some(format!(
            "{other} has another vocabulary than {title} and cannot be its draft model; this plans the \
             memory of both."
        ));
    }
    (draft.facts.active_weight_bytes >= main.facts.active_weight_bytes).then(|| {
        format!("{other} is no smaller than {title}, so it would gain nothing as its draft model.")
    })
}

/// Indentation of the bar and its rows.
const MARGIN: &str = "  ";
/// Columns of labels, with their indentation.
const LABEL_WIDTH: usize = 20;

#[cfg(test)]
mod tests;
