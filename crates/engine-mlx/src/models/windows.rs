//! Which layers see only the last tokens, as a `config.json` describes it, checked.

use transom_engine::EngineError;

use crate::config::{ModelConfig, bad};

/// The largest window that is believed.
const MAX_WINDOW: i32 = 1 << 24;

/// What a layer sees: so many tokens, itself included, or all (`None`); for each layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Windows(Vec<Option<i32>>);

/// How layers without an entry of their own are told apart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pattern {
    /// All have the window.
    Every,
    /// Every so many-th sees all.
    FullEach(i32),
    /// The second, the fourth and so on see all.
    Alternating,
}

impl Windows {
    /// The windows of `n_layers` layers: `layer_types` says which have one, or else `pattern` does.
    /// A window that holds the whole context is none.
    pub(crate) fn new(
        config: &ModelConfig,
        n_layers: i32,
        window: Option<i32>,
        layer_types: Option<&[String]>,
        pattern: Pattern,
        context_length: i32,
    ) -> Result<Self, EngineError> {
        if let Some(window) = window
            && !(1..=MAX_WINDOW).contains(&window)
        {
            let reason = format!(
                "sliding_window is {window}, but must be between 1 and {MAX_WINDOW}, or null"
            );
            return Err(bad(&config.path, reason));
        }
        if let Some(types) = layer_types
            && types.len() != n_layers as usize
        {
            let n_types = types.len();
            let reason = format!("layer_types names {n_types} layers, but there are {n_layers}");
            return Err(bad(&config.path, reason));
        }
        let of_layer = |layer: i32| -> Result<Option<i32>, EngineError> {
            let slides = match (layer_types, pattern) {
                (Some(types), _) => match types[layer as usize].as_str() {
                    "sliding_attention" => true,
                    "full_attention" => false,
                    other => {
                        return Err(EngineError::Unsupported {
                            path: config.path.clone(),
                            reason: format!(
                                "layer_types: {other:?} is not supported; full_attention and \
                                 sliding_attention are"
                            ),
                        });
                    }
                },
                (None, Pattern::Every) => window.is_some(),
                (None, Pattern::FullEach(each)) => (layer + 1) % each != 0,
                (None, Pattern::Alternating) => layer % 2 == 0,
            };
            match window {
                _ if !slides => Ok(None),
                Some(window) => Ok((window < context_length).then_some(window)),
                None => {
                    let reason = format!("layer {layer} slides, but there is no sliding_window");
                    Err(bad(&config.path, reason))
                }
            }
        };
        (0..n_layers)
            .map(of_layer)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// What this layer sees.
    pub(crate) fn of(&self, layer: i32) -> Option<i32> {
        self.0.get(layer as usize).copied().flatten()
    }
}
