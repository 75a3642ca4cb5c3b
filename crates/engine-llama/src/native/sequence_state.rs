//! llama.cpp's form of the cache of a sequence, for models whose layers attend to all tokens.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic, id of the sequence |
//! | 4 | number of sequences of the context that have caches of their own |
//! | 4 | number of tokens in each of these; what follows is about the one with tokens |
//! | 12 or 24 for each token | position, 1, what positions in images need, id of the sequence |
//! | 16 | whether values are transposed, number of layers, rotation of keys and of values |
//! | for each layer | type of the keys (4), size of a row (8), a row for each token |
//! | for each layer | the same for its values, or type (4), size of a number (4), number of rows (4), and rows with a number for each token |
//!
//! Layers whose keys contain their values have no values.

use std::borrow::Cow;
use std::ops::Range;

/// Bytes of a sequence's state that are not in its file: magic, and the id of the sequence.
pub(super) const SEQUENCE_OFFSET: usize = 8;

/// Bytes of the number of sequences of the context, which follow, and of the number of tokens that begins
/// the contents of each.
const COUNT_BYTES: usize = 4;

/// Bytes before the tokens, in a context of one sequence.
const HEADER_BYTES: usize = SEQUENCE_OFFSET + 2 * COUNT_BYTES;

/// Bytes of a token without, and with, a position in an image.
const TOKEN_BYTES: [usize; 2] = [12, 24];

/// Bytes before the first layer, and before the rows of each.
const LAYERS_BYTES: usize = 16;
const LAYER_BYTES: usize = 12;

/// Rows that contain a number of bytes for each token.
struct Table {
    bytes: Range<usize>,
    n_rows: usize,
    bytes_per_token: usize,
}

/// Converts the state of a sequence in a context of `n` to that of the only sequence of a context: it loses
/// the numbers of tokens, 0, of the others.
pub(super) fn alone(mut state: Vec<u8>, sequence: usize, n: usize) -> Vec<u8> {
    if n > 1 {
        let start = SEQUENCE_OFFSET + COUNT_BYTES;
        state.truncate(state.len().saturating_sub((n - 1 - sequence) * COUNT_BYTES));
        state.drain(start.min(state.len())..(start + sequence * COUNT_BYTES).min(state.len()));
        if let Some(count) = state.get_mut(SEQUENCE_OFFSET..start) {
            count.copy_from_slice(&1_u32.to_ne_bytes());
        }
    }
    state
}

/// The reverse of [`alone`].
pub(super) fn beside_others(state: &[u8], sequence: usize, n: usize) -> Cow<'_, [u8]> {
    let start = SEQUENCE_OFFSET + COUNT_BYTES;
    if n == 1 || state.len() < start {
        return state.into();
    }
    let mut bytes = Vec::with_capacity(state.len() + (n - 1) * COUNT_BYTES);
    bytes.extend(&state[..SEQUENCE_OFFSET]);
    bytes.extend((n as u32).to_ne_bytes());
    bytes.resize(start + sequence * COUNT_BYTES, 0);
    bytes.extend(&state[start..]);
    bytes.resize(state.len() + (n - 1) * COUNT_BYTES, 0);
    bytes.into()
}

/// Returns the number of tokens in the state of the only sequence of a context.
pub(super) fn n_tokens(state: &[u8]) -> Option<usize> {
    number(state, SEQUENCE_OFFSET + COUNT_BYTES)
}

/// Returns the part with the tokens at the positions `tokens` of the state of the only sequence of a
/// context, in the same form. Returns `None` if it has not all of them, if it has another form, or if there
/// is not enough memory.
pub(crate) fn part_of_state(state: &[u8], tokens: Range<usize>) -> Option<Vec<u8>> {
    let n_all = n_tokens(state)?;
    let mut sizes = TOKEN_BYTES.into_iter();
    let tables = sizes.find_map(|token_bytes| tables(state, n_all, token_bytes))?;
    let token_bytes = tables.first()?.bytes_per_token;
    let position = |index| number(state, HEADER_BYTES + index * token_bytes);
    // They are in the order of llama.cpp's cells, which is another one after tokens were removed.
    let all = (0..n_all).map(|index| Some((position(index)?, index)));
    let mut found: Vec<(usize, usize)> = all.collect::<Option<_>>()?;
    found.retain(|(position, _)| tokens.contains(position));
    found.sort_unstable();
    if !found.iter().map(|(position, _)| *position).eq(tokens) {
        return None;
    }
    let mut runs: Vec<Range<usize>> = Vec::new();
    for &(_, index) in &found {
        match runs.last_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ => runs.push(index..index + 1),
        }
    }
    let rows = tables
        .iter()
        .map(|table| table.n_rows * table.bytes_per_token);
    let n_bytes = rows.sum::<usize>() * found.len() + tables.len() * LAYER_BYTES + 64;
    let mut part = Vec::new();
    part.try_reserve_exact(n_bytes).ok()?;
    part.extend(&state[..HEADER_BYTES - COUNT_BYTES]);
    part.extend((found.len() as u32).to_ne_bytes());
    let mut end = HEADER_BYTES;
    for table in &tables {
        part.extend(&state[end..table.bytes.start]);
        let size = table.bytes_per_token;
        for row in 0..table.n_rows {
            let start = table.bytes.start + row * n_all * size;
            for run in &runs {
                part.extend(&state[start + run.start * size..start + run.end * size]);
            }
        }
        end = table.bytes.end;
    }
    Some(part)
}

/// Returns the tokens, and the keys and values of the layers; `None` if the state has another form.
fn tables(state: &[u8], n_tokens: usize, token_bytes: usize) -> Option<Vec<Table>> {
    let has_one_sequence =
        |index: usize| number(state, HEADER_BYTES + index * token_bytes + 4) == Some(1);
    if n_tokens == 0 || !(0..n_tokens).all(has_one_sequence) {
        return None;
    }
    let table = |start: usize, n_rows: usize, bytes_per_token: usize| {
        let row = n_tokens.checked_mul(bytes_per_token)?;
        let end = start.checked_add(row.checked_mul(n_rows)?)?;
        (end <= state.len()).then_some(Table {
            bytes: start..end,
            n_rows,
            bytes_per_token,
        })
    };
    let mut tables = vec![table(HEADER_BYTES, 1, token_bytes)?];
    let mut end = tables.last()?.bytes.end;
    let is_transposed = number(state, end)? != 0;
    let n_layers = number(state, end + 4)?;
    end += LAYERS_BYTES;
    while end < state.len() {
        // The first table has the tokens.
        let has_values = tables.len() > n_layers;
        let (size, n_rows) = (number(state, end + 4)?, number(state, end + 8)?);
        let n_rows = match has_values && is_transposed {
            true => n_rows,
            // The upper half of the size of a row.
            false if n_rows == 0 => 1,
            false => return None,
        };
        tables.push(table(end + LAYER_BYTES, n_rows, size)?);
        end = tables.last()?.bytes.end;
    }
    (tables.len() > n_layers).then_some(tables)
}

/// Returns the number of 4 bytes at `at`.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(COUNT_BYTES)?)?;
    usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
}
