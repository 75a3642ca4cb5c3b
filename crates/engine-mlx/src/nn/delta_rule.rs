//! The gated delta rule (Yang, Kautz and Hatamizadeh 2024): a memory of fixed size that each token
//! fades, corrects and reads.
//!
//! With a decay `g`, a strength `β`, a key, a value and a query a token, the memory `P` (keys by
//! values) goes `δ = β (v − (g P)ᵀ k)`, `P ← g P + k δᵀ`, and the token gets `Pᵀ q`. One token is
//! computed like that. Many are computed in chunks: inside a chunk the corrections depend on each
//! other through a triangular system that is solved for all chunks at once, so that only the
//! handful of products that carry the memory from chunk to chunk run one after the other. Rule: both
//! are the same function, and differ by rounding only.

use mlx_rs::{Array, Dtype, ops};

use crate::error::MlxResult;
use crate::ops::slice_axis;

/// Tokens of a chunk: the products grow with it, the number of chunks that wait for each other falls.
const CHUNK: i32 = 64;

/// What a step brings to the memory. Values have `n_groups` heads for each key head.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// `[tokens, n_key_heads, key_dim]`.
    pub(crate) queries: Array,
    /// `[tokens, n_key_heads, key_dim]`, of length one at most.
    pub(crate) keys: Array,
    /// `[tokens, n_key_heads * n_groups, value_dim]`.
    pub(crate) values: Array,
    /// Logarithms of the decays, at most 0: `[tokens, n_key_heads * n_groups]`.
    pub(crate) log_decays: Array,
    /// Strengths between 0 and 1: `[tokens, n_key_heads * n_groups]`.
    pub(crate) strengths: Array,
}

/// Sizes that the shapes of [`Inputs`] imply.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    n_tokens: i32,
    n_key_heads: i32,
    n_groups: i32,
    key_dim: i32,
    value_dim: i32,
}

impl Inputs {
    fn sizes(&self) -> Sizes {
        let n_key_heads = self.keys.dim(1);
        Sizes {
            n_tokens: self.keys.dim(0),
            n_key_heads,
            n_groups: self.values.dim(1) / n_key_heads,
            key_dim: self.keys.dim(2),
            value_dim: self.values.dim(2),
        }
    }
}

/// What each token reads, `[tokens, n_key_heads * n_groups, value_dim]`, and the memory after the
/// last, both in f32. `memory` is `[n_key_heads, n_groups, key_dim, value_dim]`, `None` when empty.
pub(crate) fn delta_rule(inputs: &Inputs, memory: Option<&Array>) -> MlxResult<(Array, Array)> {
    let Sizes {
        n_tokens,
        n_key_heads,
        n_groups,
        key_dim,
        value_dim,
    } = inputs.sizes();
    let empty;
    let memory = match memory {
        Some(memory) => memory,
        None => {
            let shape = [n_key_heads, n_groups, key_dim, value_dim];
            empty = ops::zeros_dtype(&shape, Dtype::Float32)?;
            &empty
        }
    };
    if n_tokens == 1 {
        one_token(inputs, memory)
    } else {
        let chunk = (n_tokens.cast_unsigned().next_power_of_two().cast_signed()).min(CHUNK);
        in_chunks(inputs, memory, chunk)
    }
}

fn one_token(inputs: &Inputs, memory: &Array) -> MlxResult<(Array, Array)> {
    let Sizes {
        n_key_heads,
        n_groups,
        key_dim,
        value_dim,
        ..
    } = inputs.sizes();
    let full = |x: &Array, shape: &[i32]| x.as_dtype(Dtype::Float32)?.reshape(shape);
    let key = full(&inputs.keys, &[n_key_heads, 1, 1, key_dim])?;
    let query = full(&inputs.queries, &[n_key_heads, 1, 1, key_dim])?;
    let value = full(&inputs.values, &[n_key_heads, n_groups, 1, value_dim])?;
    let decay = full(&inputs.log_decays, &[n_key_heads, n_groups, 1, 1])?.exp()?;
    let strength = full(&inputs.strengths, &[n_key_heads, n_groups, 1, 1])?;
    // Both reads in one product: that of the corrected memory is this one's, and the correction's.
    let rows = ops::concatenate(&[&key, &query], 2)?;
    let read = rows.matmul(memory)?.multiply(&decay)?;
    let (by_key, by_query) = (slice_axis(&read, 2, 0, 1)?, slice_axis(&read, 2, 1, 2)?);
    let correction = value.subtract(by_key)?.multiply(strength)?;
    let alike = key.multiply(query)?.sum_axis(-1, true)?;
    let out = by_query.add(correction.multiply(alike)?)?;
    let column = key.reshape(&[n_key_heads, 1, key_dim, 1])?;
    let memory = memory.multiply(decay)?.add(column.multiply(correction)?)?;
    Ok((
        out.reshape(&[1, n_key_heads * n_groups, value_dim])?,
        memory,
    ))
}

/// Tokens as chunks of heads: `[n, heads…, chunk, features]` of `[tokens, heads…, features]`, filled
/// up with zeros, which change nothing in the memory.
fn chunked(x: &Array, chunk: i32, heads: &[i32]) -> MlxResult<Array> {
    let n_tokens = x.dim(0);
    let n_chunks = (n_tokens + chunk - 1) / chunk;
    let n_features = (x.size() as i32) / n_tokens / heads.iter().product::<i32>();
    let x = x.as_dtype(Dtype::Float32)?.reshape(&[n_tokens, -1])?;
    let missing = n_chunks * chunk - n_tokens;
    let x = if missing > 0 {
        let more = ops::zeros_dtype(&[missing, x.dim(1)], Dtype::Float32)?;
        ops::concatenate(&[&x, &more], 0)?
    } else {
        x
    };
    x.reshape(&[&[n_chunks, chunk], heads, &[n_features]].concat())?
        .transpose_axes(&[0, 2, 3, 1, 4])?
        .contiguous()
}

fn in_chunks(inputs: &Inputs, memory: &Array, chunk: i32) -> MlxResult<(Array, Array)> {
    let Sizes {
        n_tokens,
        n_key_heads,
        n_groups,
        value_dim,
        ..
    } = inputs.sizes();
    // Shapes below are `[n_chunks, n_key_heads, n_groups, chunk, …]`; keys and queries, which a group
    // shares, have one in place of `n_groups`.
    let heads = [n_key_heads, n_groups];
    let queries = chunked(&inputs.queries, chunk, &[n_key_heads, 1])?;
    let keys = chunked(&inputs.keys, chunk, &[n_key_heads, 1])?;
    let values = chunked(&inputs.values, chunk, &heads)?;
    let strengths = chunked(&inputs.strengths, chunk, &heads)?;
    // How much is left, at each token of a chunk, of the memory before the chunk.
    let log_left = chunked(&inputs.log_decays, chunk, &heads)?.cumsum(-2, None, None)?;
    let left = log_left.exp()?;
    let at_end = slice_axis(&left, 3, chunk - 1, chunk)?;

    // What is left at a token (row) of what an earlier token of its chunk (column) wrote; zero for
    // later ones, which would be infinite before they are left out.
    let spans = log_left.subtract(log_left.swap_axes(-1, -2)?)?;
    let spans = spans.add(minus_infinity_above(chunk))?.exp()?;
    let keys_across = keys.swap_axes(-1, -2)?;
    let pulls = keys.matmul(&keys_across)?.multiply(&spans)?;
    let pulls = pulls.multiply(&strengths)?;
    let reads = queries.matmul(&keys_across)?.multiply(&spans)?;

    // Corrections, first as if the memory before the chunk were empty, then what it takes off.
    let solved = inverse_of_unit_lower(&pulls, chunk)?;
    let own = solved.matmul(values.multiply(&strengths)?)?;
    let faded_keys = keys.multiply(strengths.multiply(&left)?)?;
    let of_memory = solved.matmul(faded_keys)?;
    let faded_queries = queries.multiply(&left)?;
    // Keys by tokens, each faded as it will be at the chunk's end.
    let to_end = slice_axis(&spans, 3, chunk - 1, chunk)?;
    let writes = keys_across.multiply(to_end)?;

    let mut memory = memory.clone();
    let mut outs = Vec::with_capacity(queries.dim(0) as usize);
    for number in 0..queries.dim(0) {
        let part = |x: &Array| slice_axis(x, 0, number, number + 1)?.squeeze_axes(&[0]);
        let corrections = part(&own)?.subtract(part(&of_memory)?.matmul(&memory)?)?;
        let before = part(&faded_queries)?.matmul(&memory)?;
        outs.push(before.add(part(&reads)?.matmul(&corrections)?)?);
        let faded = memory.multiply(part(&at_end)?)?;
        memory = faded.add(part(&writes)?.matmul(&corrections)?)?;
    }
    let out = ops::stack(&outs, 0)?
        .transpose_axes(&[0, 3, 1, 2, 4])?
        .reshape(&[-1, n_key_heads * n_groups, value_dim])?;
    Ok((slice_axis(&out, 0, 0, n_tokens)?, memory))
}

/// `[size, size]`: minus infinity above the diagonal, else 0.
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

/// The inverses of the matrices that have ones on the diagonal and, below it, what `lower`
/// `[…, size, size]` has there; `size` is a power of two.
///
/// Blocks on the diagonal are inverted first, then pairs of them joined: with inverses `A` and `D` of
/// two blocks and `B` below, the pair's inverse has `−D B A` below. Each step computes entries of the
/// result, never large powers that cancel each other, so it is as exact as substitution.
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
        let joint = inverse.matmul(lower.multiply(below(block))?)?;
        inverse = inverse.subtract(joint.matmul(&inverse)?)?;
        block *= 2;
    }
    Ok(inverse)
}

#[cfg(test)]
mod tests;
