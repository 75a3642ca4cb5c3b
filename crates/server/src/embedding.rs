//! What the routes for embeddings share: the prefix of a text, and the dimensions of a vector.

use std::ops::RangeInclusive;

use transom_engine::EmbedInput;
use transom_library::TextSide;

use crate::error::ApiError;
use crate::json::{Fields, Ignored, Located};
use crate::models::Model;

/// The words for the two sides of a search, in the requests of several servers.
const SIDES: [(&str, TextSide); 6] = [
    ("query", TextSide::Query),
    ("search_query", TextSide::Query),
    ("document", TextSide::Document),
    ("search_document", TextSide::Document),
    ("passage", TextSide::Document),
    ("none", TextSide::Neither),
];

/// The side of a search, and the field that says it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Side {
    side: TextSide,
    /// `None` if the request does not say it.
    path: Option<String>,
}

impl Side {
    /// Takes `input_type`. A text without it is a document.
    ///
    /// # Errors
    /// There is no such side.
    pub(crate) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        match fields.take("input_type") {
            None => Ok(Self::default()),
            Some(located) => Ok(Self {
                path: Some(located.path.clone()),
                side: located.choice(&SIDES)?,
            }),
        }
    }

    /// Puts the prefix of this side before each text of `inputs`. A text that begins with a prefix of
    /// the model, because the client knows it, and token ids stay as they are.
    pub(crate) fn add_prefix(&self, model: &Model, inputs: &mut [EmbedInput], ignored: &Ignored) {
        let of = |side| model.library.embedding_prefix(&model.installed, side);
        let Some(prefix) = of(self.side) else {
            if let Some(path) = &self.path {
                // Nobody knows what the model reads before a text.
                ignored.add(path);
            }
            return;
        };
        let known = [TextSide::Query, TextSide::Document].map(|side| of(side).unwrap_or_default());
        for input in inputs {
            if let EmbedInput::Text(text) = input
                && !known
                    .iter()
                    .any(|known| !known.is_empty() && text.starts_with(*known))
            {
                text.insert_str(0, prefix);
            }
        }
    }
}

impl Default for Side {
    fn default() -> Self {
        Self {
            side: TextSide::Document,
            path: None,
        }
    }
}

/// The number of dimensions that a request wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dimensions(Option<Located>);

impl Dimensions {
    /// Takes `dimensions`.
    pub(crate) fn take(fields: &mut Fields) -> Self {
        Self(fields.take("dimensions"))
    }

    /// Returns the number of dimensions; `None` for all.
    ///
    /// # Errors
    /// The vectors of the model may not be cut so far.
    pub(crate) fn of(self, model: &Model) -> Result<Option<usize>, ApiError> {
        let Some(located) = self.0 else {
            return Ok(None);
        };
        let allowed = model.library.embedding_dimensions(&model.installed);
        let wrong = located.must_be(&expected(&model.name, allowed.as_ref()));
        let wanted = located.integer(1..=i64::MAX)?;
        let wanted = usize::try_from(wanted).ok();
        match wanted.filter(|wanted| allowed.is_some_and(|allowed| allowed.contains(wanted))) {
            Some(wanted) => Ok(Some(wanted)),
            None => Err(wrong),
        }
    }
}

fn expected(name: &str, allowed: Option<&RangeInclusive<usize>>) -> String {
    match allowed {
        Some(allowed) if allowed.start() < allowed.end() => {
            let (least, most) = (allowed.start(), allowed.end());
            format!("from {least} to {most} for {name}")
        }
        Some(allowed) => {
            let all = allowed.end();
            format!("{all} or left out, because vectors of {name} must not be cut")
        }
        None => format!("left out, because vectors of {name} must not be cut"),
    }
}

/// Cuts a vector to its first dimensions, and gives it length 1 again.
pub(crate) fn cut(vector: &mut Vec<f32>, dimensions: Option<usize>) {
    let Some(dimensions) = dimensions.filter(|dimensions| *dimensions < vector.len()) else {
        return;
    };
    vector.truncate(dimensions);
    let squares = vector.iter().map(|value| f64::from(*value).powi(2));
    let length = squares.sum::<f64>().sqrt();
    if length > 0.0 {
        for value in vector {
            *value = (f64::from(*value) / length) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_vector_has_length_one() {
        let mut vector = vec![0.48, 0.64, 0.6];
        cut(&mut vector, None);
        cut(&mut vector, Some(3));
        assert_eq!(vector, [0.48, 0.64, 0.6]);
        cut(&mut vector, Some(2));
        assert_eq!(vector, [0.6, 0.8]);
        let mut vector = vec![0.0, 1.0];
        cut(&mut vector, Some(1));
        assert_eq!(vector, [0.0]);
    }
}
