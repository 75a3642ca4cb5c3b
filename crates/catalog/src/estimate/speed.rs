//! Estimates the decode speed from the bytes that a token reads.
//!
//! A token reads the weights that it uses and the KV cache so far, so memory bandwidth limits the
//! speed.
//!
//! Rule: a prediction is a range and marked as such. A measured speed replaces it.

use serde::Serialize;

use super::EstimateRequest;
use crate::facts::{Format, ModelFacts};
use crate::fit;
use crate::machine::{Bandwidth, Machine};

/// Decode speed in tokens per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS), ts(rename = "SpeedView"))]
pub struct Speed {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// True if earlier uses on this machine were measured; false for a prediction.
    pub is_measured: bool,
}

/// Returns the share of the published bandwidth that decoding reaches on a GPU, as a range. Source:
/// llama.cpp's measurements of a 7B model on chips from M1 to M4
/// (<https://github.com/ggml-org/llama.cpp/discussions/4167>), which reach 0.70 to 0.80 up to
/// 300 GB/s, 0.55 to 0.65 up to 600, and 0.40 to 0.50 above. MLX reaches somewhat more; other
/// quantizations reach somewhat less.
fn shares_of_gpu(bytes_per_second: u64) -> (f64, f64) {
    match bytes_per_second / 1_000_000_000 {
        ..=300 => (0.6, 0.9),
        301..=650 => (0.45, 0.8),
        _ => (0.3, 0.65),
    }
}

/// Share of the measured bandwidth that decoding reaches on a CPU.
const SHARES_OF_CPU: (f64, f64) = (0.35, 1.0);

/// Seconds per layer in addition to reading, for starting its kernels one after the other.
const LAYER_SECONDS_GPU: (f64, f64) = (60e-6, 10e-6);
const LAYER_SECONDS_CPU: (f64, f64) = (100e-6, 20e-6);

/// Multiplications per second of MLX's quantized kernels on a CPU, which are not optimized for it.
const CPU_QUANTIZED_PRODUCTS: (f64, f64) = (0.3e9, 1.5e9);

/// Variation of measured speeds from day to day.
const MEASURED_SPREAD: f64 = 0.15;

/// Returns the decode speed of `request` on `machine` with a context of `context_length` tokens, half
/// of it full.
pub(super) fn speed(
    request: &EstimateRequest<'_>,
    machine: &Machine,
    context_length: u64,
) -> Option<Speed> {
    let measured = request.measured;
    if let Some(rate) = measured.and_then(|record| record.decode_tokens_per_second) {
        return Some(Speed {
            low: rate * (1.0 - MEASURED_SPREAD),
            high: rate * (1.0 + MEASURED_SPREAD),
            is_measured: true,
        });
    }
    let bandwidth = machine.bandwidth?;
    let bytes = bytes_a_token(request, machine, context_length);
    let (slow, fast) = seconds(request.facts, machine, bandwidth, bytes);
    Some(Speed {
        low: 1.0 / slow,
        high: 1.0 / fast,
        is_measured: false,
    })
}

fn bytes_a_token(request: &EstimateRequest<'_>, machine: &Machine, context_length: u64) -> f64 {
    let facts = request.facts;
    let need = fit::need(facts, machine, request.kv, context_length / 2);
    need.weight_bytes as f64 * facts.active_share() + need.kv_cache_bytes as f64
}

fn seconds(facts: &ModelFacts, machine: &Machine, bandwidth: Bandwidth, bytes: f64) -> (f64, f64) {
    let (slow, fast) = (
        bandwidth.low_bytes_per_second.max(1),
        bandwidth.high_bytes_per_second.max(1),
    );
    let layers = facts.n_layers.unwrap_or(1) as f64;
    if machine.has_gpu() {
        let (low, high) = (shares_of_gpu(slow).0, shares_of_gpu(fast).1);
        return (
            bytes / (slow as f64 * low) + layers * LAYER_SECONDS_GPU.0,
            bytes / (fast as f64 * high) + layers * LAYER_SECONDS_GPU.1,
        );
    }
    let read = (
        bytes / (slow as f64 * SHARES_OF_CPU.0) + layers * LAYER_SECONDS_CPU.0,
        bytes / (fast as f64 * SHARES_OF_CPU.1) + layers * LAYER_SECONDS_CPU.1,
    );
    if facts.format == Format::Safetensors && fit::stays_quantized(facts, machine) {
        let products = facts.n_parameters as f64 * facts.active_share();
        return (
            read.0.max(products / CPU_QUANTIZED_PRODUCTS.0),
            read.1.max(products / CPU_QUANTIZED_PRODUCTS.1),
        );
    }
    read
}
