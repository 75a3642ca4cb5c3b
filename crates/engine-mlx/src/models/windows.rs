//! Which layers have a sliding window, as `config.json` describes it, checked.

use transom_engine::EngineError;

use crate::config::ModelConfig;

const MAX_WINDOW: i32 = 1 << 24;

#[derive(Debug, Clone)]
pub(super) struct SlidingWindows(Vec<LayerWindow>);

#[derive(Debug, Clone, Copy)]
struct LayerWindow {
    is_sliding: bool,
    /// Tokens that a token attends to, itself included; `None` for all of them.
    window: Option<i32>,
}

/// Which layers have a window if `layer_types` is missing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pattern {
    All,
    /// All but every n-th layer.
    AllButEvery(i32),
    /// The first, the third and so on.
    Alternating,
}

impl SlidingWindows {
    /// Returns the windows of `n_layers` layers. `layer_types` decides which layers have one, or
    /// `pattern` if it is missing. A window that is as long as the context is no window.
    pub(super) fn new(
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
            return Err(config.bad(format!(
                "sliding_window is {window}, but must be between 1 and {MAX_WINDOW}, or null"
            )));
        }
        if let Some(types) = layer_types {
            config.check_layer_types(types, n_layers)?;
        }
        let of_layer = |layer: i32| -> Result<LayerWindow, EngineError> {
            let is_sliding = match (layer_types, pattern) {
                (Some(types), _) => match types[layer as usize].as_str() {
                    "sliding_attention" => true,
                    "full_attention" => false,
                    other => {
                        return Err(config.unsupported(format!(
                            "layer_types: {other:?} is not supported; full_attention and \
                             sliding_attention are"
                        )));
                    }
                },
                (None, Pattern::All) => window.is_some(),
                (None, Pattern::AllButEvery(n)) => (layer + 1) % n != 0,
                (None, Pattern::Alternating) => layer % 2 == 0,
            };
            if is_sliding && window.is_none() {
                let reason = format!("layer {layer} slides, but there is no sliding_window");
                return Err(config.bad(reason));
            }
            let window = window.filter(|&window| is_sliding && window < context_length);
            Ok(LayerWindow { is_sliding, window })
        };
        (0..n_layers)
            .map(of_layer)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the tokens that a token attends to in this layer, itself included; `None` for all.
    pub(super) fn window(&self, layer: i32) -> Option<i32> {
        self.0[layer as usize].window
    }

    /// Returns true if the layer has sliding attention, even if the window is as long as the
    /// context.
    pub(super) fn is_sliding(&self, layer: i32) -> bool {
        self.0[layer as usize].is_sliding
    }
}
