//! Encodes rows of f32 in GGUF's types, with the layouts of llama.cpp's `ggml-common.h`.
//!
//! F16, Q8_0 and Q4_1 have the same bytes as from llama.cpp's reference quantizers.

use half::f16;

use crate::gguf::TensorType;

/// A value that a type can't represent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OutOfRange(pub(crate) f32);

/// Appends `row`, encoded as `kind`, to `to`. Its length must be a multiple of the type's block.
pub(crate) fn pack_row(kind: TensorType, row: &[f32], to: &mut Vec<u8>) -> Result<(), OutOfRange> {
    if let Some(value) = row.iter().find(|value| !value.is_finite()) {
        return Err(OutOfRange(*value));
    }
    let (blocks, _) = row.as_chunks::<32>();
    match kind {
        TensorType::F16 => row.iter().try_for_each(|&value| push_half(value, to)),
        TensorType::Q8_0 => blocks.iter().try_for_each(|block| pack_q8_0(block, to)),
        TensorType::Q4_1 => blocks.iter().try_for_each(|block| pack_q4_1(block, to)),
        _ => {
            to.extend(row.iter().flat_map(|value| value.to_le_bytes()));
            Ok(())
        }
    }
}

/// Appends codes of at most 4 bits with the scale and the bias of each group, as Q4_1. Scales and
/// biases that f16 can't represent are rounded to the nearest that it can: bf16 and f16 numbers of
/// at least 2^-14 stay exact, f32 numbers have 11 bits, and smaller ones are exact to 2^-24.
pub(crate) fn pack_codes_as_q4_1(
    codes: &[u8],
    groups: &[(f32, f32)],
    group_size: usize,
    to: &mut Vec<u8>,
) -> Result<(), OutOfRange> {
    for (codes, &(scale, bias)) in codes.chunks_exact(group_size).zip(groups) {
        let (blocks, _) = codes.as_chunks::<32>();
        for block in blocks {
            push_half(scale, to)?;
            push_half(bias, to)?;
            to.extend(nibbles(block));
        }
    }
    Ok(())
}

/// Appends the nearest f16; a tie goes to the even neighbor.
fn push_half(value: f32, to: &mut Vec<u8>) -> Result<(), OutOfRange> {
    let half = f16::from_f32(value);
    if !half.is_finite() {
        return Err(OutOfRange(value));
    }
    to.extend_from_slice(&half.to_le_bytes());
    Ok(())
}

/// Returns 16 bytes whose low halves are the first 16 codes, and whose high halves are the last.
fn nibbles(codes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|index| codes[index] | codes[index + 16] << 4)
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

fn pack_q8_0(block: &[f32; 32], to: &mut Vec<u8>) -> Result<(), OutOfRange> {
    let most = block
        .iter()
        .fold(0.0f32, |most, value| most.max(value.abs()));
    let scale = most / 127.0;
    push_half(scale, to)?;
    let inverse = inverse(scale);
    to.extend(block.map(|value| (value * inverse).round() as i8 as u8));
    Ok(())
}

fn pack_q4_1(block: &[f32; 32], to: &mut Vec<u8>) -> Result<(), OutOfRange> {
    let least = block.iter().copied().fold(f32::INFINITY, f32::min);
    let most = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scale = (most - least) / 15.0;
    push_half(scale, to)?;
    push_half(least, to)?;
    let inverse = inverse(scale);
    let codes = block.map(|value| ((value - least) * inverse + 0.5).min(15.0) as u8);
    to.extend(nibbles(&codes));
    Ok(())
}
