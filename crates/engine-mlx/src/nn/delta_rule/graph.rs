//! The delta rule as operations of a graph, on every device.
//!
//! Several tokens are computed in chunks: inside a chunk the corrections `δ` depend on each other
//! through a triangular system, which is solved for all chunks at once. Only the few products that
//! carry the state from chunk to chunk are sequential. Single tokens of several sequences are
//! computed together but for the products with the states, which are large and would have to be
//! copied for that.
//!
//! Rule: both ways compute the same function and differ only by rounding.

use mlx_rs::{Array, Dtype, ops};

use super::{Inputs, Sizes};
use crate::error::MlxResult;
use crate::ops::{parts, slice_axis};

/// Tokens per chunk. A longer chunk means larger products and fewer sequential steps.
const CHUNK: i32 = 64;

/// See [`super::DeltaRule::compute`].
pub(super) fn compute(inputs: &Inputs, states: &[Array]) -> MlxResult<(Array, Vec<Array>)> {
    let n_tokens = inputs.n_tokens();
    match states {
        [state] if n_tokens > 1 => {
            let chunk = n_tokens.cast_unsigned().next_power_of_two();
            let (out, state) = in_chunks(inputs, state, chunk.cast_signed().min(CHUNK))?;
            Ok((out, vec![state]))
        }
        states => one_token_each(inputs, states),
    }
}

/// Computes one token of each sequence. The heads of all sequences are side by side.
fn one_token_each(inputs: &Inputs, states: &[Array]) -> MlxResult<(Array, Vec<Array>)> {
    let n_sequences = inputs.n_tokens();
    let Sizes {
        n_key_heads,
        n_groups,
        key_dim,
        value_dim,
    } = inputs.sizes();
    let n_heads = n_sequences * n_key_heads;
    let full = |x: &Array, shape: &[i32]| x.as_dtype(Dtype::Float32)?.reshape(shape);
    let key = full(&inputs.keys, &[n_heads, 1, 1, key_dim])?;
    let query = full(&inputs.queries, &[n_heads, 1, 1, key_dim])?;
    let value = full(&inputs.values, &[n_heads, n_groups, 1, value_dim])?;
    let decay = full(&inputs.log_decays, &[n_heads, n_groups, 1, 1])?.exp()?;
    let beta = full(&inputs.betas, &[n_heads, n_groups, 1, 1])?;
    // One product reads the state by key and by query; `Sᵀ q` of the new state also needs `(q·k)
    // δ`.
    let rows = ops::concatenate(&[&key, &query], 2)?;
    let read = parts(&rows, n_sequences).zip(states);
    let read = read.map(|(rows, state)| rows?.matmul(state.swap_axes(-1, -2)?));
    let read = ops::concatenate(&read.collect::<MlxResult<Vec<_>>>()?, 0)?;
    let read = read.multiply(&decay)?;
    let (by_key, by_query) = (slice_axis(&read, 2, 0, 1)?, slice_axis(&read, 2, 1, 2)?);
    let correction = value.subtract(by_key)?.multiply(beta)?;
    let query_key = key.multiply(query)?.sum_axis(-1, true)?;
    let out = by_query.add(correction.multiply(query_key)?)?;
    let out = out.reshape(&[n_sequences, n_key_heads * n_groups, value_dim])?;
    let column = correction.reshape(&[n_heads, n_groups, value_dim, 1])?;
    let of_each = |x| parts(x, n_sequences);
    let changes = of_each(&decay).zip(of_each(&column)).zip(of_each(&key));
    let states = states.iter().zip(changes);
    let states = states.map(|(state, ((decay, column), key))| {
        state.multiply(decay?)?.add(column?.multiply(key?)?)
    });
    Ok((out, states.collect::<MlxResult<_>>()?))
}

/// Splits `[tokens, heads…, features]` into chunks, `[n_chunks, heads…, chunk, features]`. The last
/// chunk is padded with zeros, which do not change the state.
fn chunked(x: &Array, chunk: i32, heads: &[i32]) -> MlxResult<Array> {
    let n_tokens = x.dim(0);
    let n_chunks = (n_tokens + chunk - 1) / chunk;
    let n_features = (x.size() as i32) / n_tokens / heads.iter().product::<i32>();
    let x = x.as_dtype(Dtype::Float32)?.reshape(&[n_tokens, -1])?;
    let n_padding = n_chunks * chunk - n_tokens;
    let x = if n_padding > 0 {
        let padding = ops::zeros_dtype(&[n_padding, x.dim(1)], Dtype::Float32)?;
        ops::concatenate(&[&x, &padding], 0)?
    } else {
        x
    };
    x.reshape(&[&[n_chunks, chunk], heads, &[n_features]].concat())?
        .transpose_axes(&[0, 2, 3, 1, 4])?
        .contiguous()
}

fn in_chunks(inputs: &Inputs, state: &Array, chunk: i32) -> MlxResult<(Array, Array)> {
    let n_tokens = inputs.n_tokens();
    let Sizes {
        n_key_heads,
        n_groups,
        value_dim,
        ..
    } = inputs.sizes();
    // Shapes below are `[n_chunks, n_key_heads, n_groups, chunk, …]`; queries and keys, which a
    // group shares, have 1 in place of `n_groups`.
    let heads = [n_key_heads, n_groups];
    let queries = chunked(&inputs.queries, chunk, &[n_key_heads, 1])?;
    let keys = chunked(&inputs.keys, chunk, &[n_key_heads, 1])?;
    let values = chunked(&inputs.values, chunk, &heads)?;
    let betas = chunked(&inputs.betas, chunk, &heads)?;
    // Decay of the state before the chunk, up to each token.
    let log_decays = chunked(&inputs.log_decays, chunk, &heads)?.cumsum(-2, None, None)?;
    let decays = log_decays.exp()?;
    let decay_at_end = slice_axis(&decays, 3, chunk - 1, chunk)?;

    // Decay from an earlier token of the chunk (column) up to a token (row); zero for later tokens,
    // whose decay would be infinite.
    let mask = log_decays.subtract(log_decays.swap_axes(-1, -2)?)?;
    let mask = mask.add(minus_infinity_above(chunk))?.exp()?;
    let keys_t = keys.swap_axes(-1, -2)?;
    let key_scores = keys.matmul(&keys_t)?.multiply(&mask)?;
    let key_scores = key_scores.multiply(&betas)?;
    let query_scores = queries.matmul(&keys_t)?.multiply(&mask)?;

    // Corrections for a state of zero, and the keys by which the actual state is subtracted.
    let inverse = inverse_of_unit_lower(&key_scores, chunk)?;
    let corrections_of_zero = inverse.matmul(values.multiply(&betas)?)?;
    let decayed_keys = keys.multiply(betas.multiply(&decays)?)?;
    let state_keys = inverse.matmul(decayed_keys)?;
    let decayed_queries = queries.multiply(&decays)?;
    // With their decay up to the end of the chunk.
    let decay_to_end = slice_axis(&mask, 3, chunk - 1, chunk)?.swap_axes(-1, -2)?;
    let end_keys = keys.multiply(decay_to_end)?;

    let mut state = state.clone();
    let mut outs = Vec::with_capacity(queries.dim(0) as usize);
    for index in 0..queries.dim(0) {
        let part = |x: &Array| slice_axis(x, 0, index, index + 1)?.squeeze_axes(&[0]);
        let by_key = state.swap_axes(-1, -2)?;
        let of_state = part(&state_keys)?.matmul(&by_key)?;
        let corrections = part(&corrections_of_zero)?.subtract(of_state)?;
        let before = part(&decayed_queries)?.matmul(&by_key)?;
        outs.push(before.add(part(&query_scores)?.matmul(&corrections)?)?);
        let decayed = state.multiply(part(&decay_at_end)?)?;
        let corrections = corrections.swap_axes(-1, -2)?;
        state = decayed.add(corrections.matmul(part(&end_keys)?)?)?;
    }
    let out = ops::stack(&outs, 0)?
        .transpose_axes(&[0, 3, 1, 2, 4])?
        .reshape(&[-1, n_key_heads * n_groups, value_dim])?;
    Ok((slice_axis(&out, 0, 0, n_tokens)?, state))
}

/// Returns `[size, size]` with minus infinity above the diagonal and 0 elsewhere.
fn minus_infinity_above(size: i32) -> Array {
    matrix(
        size,
        |row, column| {
            if column > row { f32::NEG_INFINITY } else { 0.0 }
        },
    )
}

fn matrix(size: i32, value: impl Fn(i32, i32) -> f32) -> Array {
    let values: Vec<f32> = (0..size)
        .flat_map(|row| (0..size).map(move |column| (row, column)))
        .map(|(row, column)| value(row, column))
        .collect();
    Array::from_slice(&values, &[size, size])
}

/// Returns the inverses of matrices with ones on the diagonal and, below it, the elements of
/// `lower` `[…, size, size]`. `size` is a power of two.
///
/// Starts with blocks of one element on the diagonal and merges pairs of blocks: with inverses `A`
/// and `D` of two blocks and `B` below, the pair's inverse has `−D B A` below. Each step computes
/// entries of the result and no large powers that cancel each other, so it is as exact as
/// substitution.
fn inverse_of_unit_lower(lower: &Array, size: i32) -> MlxResult<Array> {
    let below = |block: i32| {
        matrix(size, |row, column| {
            let is_below = row / block == column / block + 1 && (row / block) % 2 == 1;
            f32::from(u8::from(is_below))
        })
    };
    let one = matrix(size, |row, column| f32::from(u8::from(row == column)));
    let mut inverse = one.subtract(lower.multiply(below(1))?)?;
    let mut block = 2;
    while block < size {
        let product = inverse.matmul(lower.multiply(below(block))?)?;
        inverse = inverse.subtract(product.matmul(&inverse)?)?;
        block *= 2;
    }
    Ok(inverse)
}
