//! What a model needs on a machine, as a bar and in numbers, and in plain words whether it fits.
//!
//! Rule: the verdict and every figure come from `catalog`; here they are only told. The JSON's field
//! names are an interface.

use serde::Serialize;

use transom_files::visible;
use transom_library::{EstimatedFit, Speed};

use crate::console::{DIM, RESET};
use crate::output::rows::{Rows, broken};
use crate::output::stats::bytes_text;
use crate::output::verdict::speed_text;

/// A model on a machine.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// What the model is called.
    pub(crate) model: String,
    /// Its form and packing: `GGUF Q4_K_M`.
    pub(crate) form: String,
    /// The machine: `this computer with 16 GB`.
    pub(crate) machine: String,
    /// Bytes that models may use there.
    pub(crate) room_bytes: u64,
    /// Tokens of context that the parts are for.
    pub(crate) context_length: u64,
    /// What it needs, by part.
    pub(crate) parts: Vec<Part>,
    /// All parts together.
    pub(crate) need_bytes: u64,
    /// The need was corrected by what earlier uses measured.
    pub(crate) is_corrected: bool,
    /// Whether it fits.
    #[serde(flatten)]
    pub(crate) verdict: EstimatedFit,
    /// The longest context that fits; `None` if none does.
    pub(crate) longest_context: Option<u64>,
    /// Tokens that the model was made to attend to.
    pub(crate) model_context: Option<u64>,
    /// Tokens a second; `None` where nothing is known of the machine.
    pub(crate) speed: Option<Speed>,
    /// A second model that is loaded side by side with it.
    pub(crate) draft: Option<Beside>,
    /// One that would fit beside it, where none was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) suggested_draft: Option<Suggestion>,
    /// What of the list could not be read from the model's own card.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unverified: Vec<String>,
}

/// A second model, to guess ahead for the first.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Beside {
    /// What it is called.
    pub(crate) model: String,
    /// Its form and packing.
    pub(crate) form: String,
}

/// A smaller model that the list names to guess ahead.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Suggestion {
    /// What `--draft` takes.
    pub(crate) id: String,
    /// What it is called.
    pub(crate) model: String,
}

/// A part of what a model needs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Part {
    /// What it is.
    pub(crate) kind: PartKind,
    /// Its bytes.
    pub(crate) bytes: u64,
}

/// The parts, in their order in the bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartKind {
    /// The model's numbers.
    Weights,
    /// Keys and values of the context.
    KvCache,
    /// What steps hold at once.
    Working,
    /// A smaller model that guesses ahead.
    Draft,
    /// Kept beginnings of earlier conversations.
    PrefixCache,
}

impl PartKind {
    fn glyph(self) -> char {
        match self {
            Self::Weights => '█',
            Self::KvCache => '▓',
            Self::Working => '▒',
            Self::Draft => '▚',
            Self::PrefixCache => '░',
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::KvCache => "context",
            Self::Working => "working memory",
            Self::Draft => "draft model",
            Self::PrefixCache => "kept prompts",
        }
    }
}

impl Report {
    /// For people.
    pub(crate) fn text(&self, columns: Option<usize>, is_dimmed: bool) -> String {
        let columns = columns.unwrap_or(WIDTH).min(WIDTH);
        let beside = self.draft.as_ref().map_or(String::new(), |draft| {
            format!(" with {}, {},", draft.model, draft.form)
        });
        let heading = format!("{}, {},{beside} on {}", self.model, self.form, self.machine);
        let lines = broken(&visible(&heading), columns.saturating_sub(1));
        let mut text = lines.join("\n") + "\n\n";
        text.push_str(&self.bar(columns.saturating_sub(MARGIN.len() + 1), is_dimmed));
        text.push('\n');
        let mut rows = Rows::new(LABEL, is_dimmed).within(Some(columns));
        let parts = || self.parts.iter().filter(|part| part.bytes > 0);
        let amounts = parts().map(|part| bytes_text(part.bytes).len());
        let width = amounts
            .max()
            .unwrap_or(0)
            .max(bytes_text(self.need_bytes).len());
        for part in parts() {
            let label = format!("{MARGIN}{} {}", part.kind.glyph(), part.kind.label());
            let amount = format!("{:>width$}", bytes_text(part.bytes));
            rows.row(&label, &(amount + &self.note_on(part.kind)));
        }
        let need = format!("{:>width$}", bytes_text(self.need_bytes));
        let how = match self.is_corrected {
            true => ", corrected by earlier uses",
            false => "",
        };
        let of = format!("{need} of {} for models{how}", bytes_text(self.room_bytes));
        rows.row(&format!("{MARGIN}  together"), &of);
        text.push_str(&rows.finish());
        text.push('\n');
        for line in broken(&self.sentence(), columns.saturating_sub(1)) {
            text.push_str(&line);
            text.push('\n');
        }
        text.push('\n');
        let mut rows = Rows::new(LABEL, is_dimmed).within(Some(columns));
        rows.row(&format!("{MARGIN}longest context"), &self.longest());
        rows.row(&format!("{MARGIN}speed"), &self.speed_text());
        if let Some(Suggestion { id, model }) = &self.suggested_draft {
            rows.row(
                &format!("{MARGIN}draft"),
                &format!("{model} would fit beside it: --draft {id}"),
            );
        }
        if !self.unverified.is_empty() {
            let names = self.unverified.join(", ");
            rows.row(
                &format!("{MARGIN}not verified"),
                &format!("{names}, which could not be read from the model's own files"),
            );
        }
        text + &rows.finish()
    }

    fn note_on(&self, kind: PartKind) -> String {
        match kind {
            PartKind::KvCache => format!("  for {} tokens", self.context_length),
            _ => String::new(),
        }
    }

    /// All parts against what there is; beyond the mark is what does not fit.
    fn bar(&self, width: usize, is_dimmed: bool) -> String {
        let whole = self.need_bytes.max(self.room_bytes).max(1);
        let share = |bytes: u64| {
            let share = u128::from(bytes.min(whole)) * width as u128;
            usize::try_from(share / u128::from(whole)).unwrap_or(width)
        };
        let mut bar = String::new();
        let (mut end_bytes, mut end) = (0u64, 0);
        for part in self.parts.iter().filter(|part| part.bytes > 0) {
            end_bytes = end_bytes.saturating_add(part.bytes);
            // Anything at all shows, while there is room.
            let next = share(end_bytes).max(end + 1).min(width);
            bar.extend(std::iter::repeat_n(part.kind.glyph(), next - end));
            end = next;
        }
        bar.extend(std::iter::repeat_n('·', width - end));
        let mut text = format!("{MARGIN}{bar}\n");
        if self.need_bytes > self.room_bytes {
            let end = share(self.room_bytes).saturating_sub(1);
            let room = bytes_text(self.room_bytes);
            // On whichever side of the mark there is room for the figure.
            let mark = match end + 2 + room.len() <= width {
                true => format!("{MARGIN}{}▲ {room}", " ".repeat(end)),
                false => format!("{MARGIN}{:>end$} ▲", room, end = end.saturating_sub(1)),
            };
            text.push_str(&match is_dimmed {
                true => format!("{DIM}{mark}{RESET}\n"),
                false => format!("{mark}\n"),
            });
        }
        text
    }

    fn speed_text(&self) -> String {
        match (self.speed, &self.draft) {
            (Some(speed), None) => speed_text(speed),
            (Some(speed), Some(_)) => format!("{}, without guesses", speed_text(speed)),
            (None, _) => "not known for this computer; `transom bench` measures it".to_owned(),
        }
    }

    /// The verdict in plain words.
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
        let wished = self.context_length;
        match self.verdict {
            EstimatedFit::Fits => format!("{fits}, with a context of {wished} tokens."),
            EstimatedFit::FitsWithContext { context_length } => format!(
                "{fits} with a context of {context_length} tokens; with {wished} {they} would need {} \
                 more.",
                bytes_text(self.need_bytes.saturating_sub(self.room_bytes))
            ),
            EstimatedFit::FitsIfOthersClose { needs_bytes_free } => format!(
                "{fits} if you close other apps: those hold {} that {need}.",
                bytes_text(needs_bytes_free)
            ),
            EstimatedFit::DoesNotFit { missing_bytes } => format!(
                "{does_not}: {need} {} more than models may use here.",
                bytes_text(missing_bytes)
            ),
        }
    }

    fn longest(&self) -> String {
        match (self.longest_context, self.model_context) {
            (Some(longest), Some(own)) if longest >= own => {
                format!("{longest} tokens, all that the model was made for")
            }
            (Some(longest), Some(own)) => format!("{longest} tokens of the model's {own}"),
            (Some(longest), None) => format!("{longest} tokens"),
            (None, _) => "none fits".to_owned(),
        }
    }
}

/// Columns of the usual terminal.
const WIDTH: usize = 80;
/// Before the bar and its rows.
const MARGIN: &str = "  ";
/// Columns of labels, margin included.
const LABEL: usize = 20;

#[cfg(test)]
mod tests;
