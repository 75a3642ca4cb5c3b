//! Reads the numbers of a model and checks that they are consistent.
//!
//! Rule: numbers that pass can be multiplied with a context length in 64 bits, and describe a model
//! that can exist.

use std::ops::RangeInclusive;

use super::keys;
use crate::entries::Architecture;
use crate::entries::table::Table;
use crate::facts::MAX_LAYERS;

/// More than any model has; keeps sums far from overflow.
const PARAMETERS: RangeInclusive<u64> = 1..=100_000_000_000_000;
const WIDTH: RangeInclusive<u64> = 1..=1 << 24;
const TOKENS: RangeInclusive<u64> = 1..=1 << 27;
const LAYERS: RangeInclusive<u64> = 1..=MAX_LAYERS;
const EXPERTS: RangeInclusive<u64> = 1..=1 << 12;
const STATE_BYTES: RangeInclusive<u64> = 1..=1 << 34;

/// Reads `[model.architecture]`.
pub(super) fn read(table: &Table<'_>) -> Option<Architecture> {
    table.allow_only(&keys::ARCHITECTURE);
    let n_before = table.document.n_errors();
    let given = |key, range| Some(table.number(key, range)?.value);
    let needed = |key, range, example| table.require(key, example, given(key, range));
    let model_type = table.required_text("model_type", "\"qwen3\"");
    let parameters = needed("parameters", PARAMETERS, "4_022_468_096");
    let layers = needed("layers", LAYERS, "36");
    let hidden_size = needed("hidden_size", WIDTH, "2560");
    let heads = needed("heads", WIDTH, "32");
    let kv_heads = needed("kv_heads", WIDTH, "8");
    let head_dim = needed("head_dim", WIDTH, "128");
    let intermediate_size = needed("intermediate_size", WIDTH, "9728");
    let vocabulary = needed("vocabulary", 2..=*WIDTH.end(), "151_936");
    let context_length = needed("context_length", TOKENS, "40_960");
    let value_dim = given("value_dim", WIDTH).or(head_dim);
    let sliding_window = given("sliding_window", TOKENS);
    // A window without a number of layers applies to all layers.
    let sliding_layers = given("sliding_layers", LAYERS).or(sliding_window.and(layers));
    let sliding_kv_heads = given("sliding_kv_heads", WIDTH).or(kv_heads);
    let numbers = Architecture {
        active_parameters: given("active_parameters", PARAMETERS),
        experts_per_token: given("experts_per_token", EXPERTS),
        vision_parameters: given("vision_parameters", PARAMETERS).unwrap_or(0),
        sliding_window,
        sliding_layers: sliding_layers.unwrap_or(0),
        sliding_head_dim: given("sliding_head_dim", WIDTH),
        shared_layers: given("shared_layers", LAYERS).unwrap_or(0),
        linear_layers: given("linear_layers", LAYERS).unwrap_or(0),
        linear_state_bytes: given("linear_state_bytes", STATE_BYTES).unwrap_or(0),
        // All keys are read above, so that every error is reported.
        model_type: model_type?.value,
        parameters: parameters?,
        layers: layers?,
        hidden_size: hidden_size?,
        heads: heads?,
        kv_heads: kv_heads?,
        head_dim: head_dim?,
        value_dim: value_dim?,
        intermediate_size: intermediate_size?,
        vocabulary: vocabulary?,
        context_length: context_length?,
        sliding_kv_heads: sliding_kv_heads?,
    };
    if table.document.n_errors() > n_before {
        return None;
    }
    check(&numbers, table);
    check_layers(&numbers, table);
    Some(numbers)
}

fn check(numbers: &Architecture, table: &Table<'_>) {
    let check = |key, is_right: bool, reason: &str| {
        if !is_right {
            table.wrong(table.position_of(key), key, reason);
        }
    };
    check(
        "kv_heads",
        numbers.heads.is_multiple_of(numbers.kv_heads),
        "`heads` must be a multiple of `kv_heads`",
    );
    check(
        "sliding_kv_heads",
        !table.has("sliding_kv_heads") || numbers.heads.is_multiple_of(numbers.sliding_kv_heads),
        "`heads` must be a multiple of `sliding_kv_heads`",
    );
    check(
        "parameters",
        numbers.parameters >= numbers.vocabulary * numbers.hidden_size,
        "`parameters` are fewer than the vocabulary alone has (`vocabulary` times `hidden_size`)",
    );
    let active = numbers.active_parameters;
    check(
        "active_parameters",
        active.is_none_or(|active| active <= numbers.parameters),
        "`active_parameters` cannot be more than `parameters`",
    );
    check(
        "experts_per_token",
        numbers.experts_per_token.is_none() || active.is_some(),
        "`experts_per_token` needs `active_parameters`; write how many weights a token uses",
    );
}

fn check_layers(numbers: &Architecture, table: &Table<'_>) {
    let wrong = |key, reason: &str| table.wrong(table.position_of(key), key, reason);
    for key in ["sliding_layers", "sliding_kv_heads", "sliding_head_dim"] {
        if table.has(key) && numbers.sliding_window.is_none() {
            let reason = format!("`{key}` needs a `sliding_window`; write how many tokens it has");
            wrong(key, &reason);
        }
    }
    let pair = ["linear_layers", "linear_state_bytes"];
    for (key, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
        if table.has(key) && !table.has(other) {
            wrong(
                key,
                &format!("`{key}` needs `{other}`; write both or neither"),
            );
        }
    }
    if numbers.sliding_layers + numbers.linear_layers > numbers.layers {
        let keys = ["linear_layers", "sliding_layers"];
        let key = keys.into_iter().find(|key| table.has(key));
        let reason = "`sliding_layers` and `linear_layers` together are more than `layers`";
        wrong(key.unwrap_or("layers"), reason);
    }
    if numbers.shared_layers >= numbers.layers {
        let reason = "`shared_layers` must be fewer than `layers`";
        wrong("shared_layers", reason);
    }
}
