//! Encodes rows of f32 in GGUF's types, with the layouts of llama.cpp's `ggml-common.h`.
//!
//! F16, Q8_0 and Q4_1 have the same bytes as from llama.cpp's reference quantizers. Q4_K and Q6_K
//! are simpler: each block's scale comes from its extremes, while llama.cpp searches a better one.

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
    match kind {
        TensorType::F16 => row.iter().try_for_each(|&value| push_half(value, to)),
        TensorType::Q8_0 => blocks::<32>(row, |block| pack_q8_0(block, to)),
        TensorType::Q4_1 => blocks::<32>(row, |block| pack_q4_1(block, to)),
        TensorType::Q4_K => blocks::<256>(row, |block| pack_q4_k(block, to)),
        TensorType::Q6_K => blocks::<256>(row, |block| pack_q6_k(block, to)),
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

fn blocks<const N: usize>(
    row: &[f32],
    pack: impl FnMut(&[f32; N]) -> Result<(), OutOfRange>,
) -> Result<(), OutOfRange> {
    let (blocks, _) = row.as_chunks::<N>();
    blocks.iter().try_for_each(pack)
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

fn extremes(values: &[f32]) -> (f32, f32) {
    let least = values.iter().copied().fold(f32::INFINITY, f32::min);
    let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (least, most)
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
    let (least, most) = extremes(block);
    let scale = (most - least) / 15.0;
    push_half(scale, to)?;
    push_half(least, to)?;
    let inverse = inverse(scale);
    let codes = block.map(|value| ((value - least) * inverse + 0.5).min(15.0) as u8);
    to.extend(nibbles(&codes));
    Ok(())
}

/// Eight blocks of 32: element = `d` × scale × code − `dmin` × minimum, scales and minima in 6 bits.
fn pack_q4_k(block: &[f32; 256], to: &mut Vec<u8>) -> Result<(), OutOfRange> {
    let (parts, _) = block.as_chunks::<32>();
    let (mut scales, mut minima) = ([0.0f32; 8], [0.0f32; 8]);
    for (index, part) in parts.iter().enumerate() {
        let (least, most) = extremes(part);
        let least = least.min(0.0);
        minima[index] = -least;
        scales[index] = (most.max(0.0) - least) / 15.0;
    }
    let (d, scales) = six_bits(&scales, to)?;
    let (dmin, minima) = six_bits(&minima, to)?;
    let mut packed = [0; 12];
    for index in 0..4 {
        let (high_scale, high_minimum) = (scales[index + 4], minima[index + 4]);
        packed[index] = scales[index] | (high_scale >> 4) << 6;
        packed[index + 4] = minima[index] | (high_minimum >> 4) << 6;
        packed[index + 8] = (high_scale & 15) | (high_minimum & 15) << 4;
    }
    to.extend(packed);
    let mut codes = [0u8; 256];
    for (index, value) in block.iter().enumerate() {
        let scale = d * f32::from(scales[index / 32]);
        let minimum = dmin * f32::from(minima[index / 32]);
        codes[index] = ((value + minimum) * inverse(scale))
            .round()
            .clamp(0.0, 15.0) as u8;
    }
    let (pairs, _) = codes.as_chunks::<64>();
    for pair in pairs {
        to.extend((0..32).map(|index| pair[index] | pair[index + 32] << 4));
    }
    Ok(())
}

/// Appends the f16 scale of nonnegative `values`, and returns it with their 6-bit codes.
fn six_bits(values: &[f32; 8], to: &mut Vec<u8>) -> Result<(f32, [u8; 8]), OutOfRange> {
    let most = values.iter().copied().fold(0.0, f32::max);
    push_half(most / 63.0, to)?;
    let scale = f16::from_f32(most / 63.0).to_f32();
    let codes = values.map(|value| (value * inverse(scale)).round().min(63.0) as u8);
    Ok((scale, codes))
}

/// Sixteen blocks of 16: element = `d` × scale × (code − 32).
fn pack_q6_k(block: &[f32; 256], to: &mut Vec<u8>) -> Result<(), OutOfRange> {
    let (parts, _) = block.as_chunks::<16>();
    let mut scales = [0.0f32; 16];
    for (scale, part) in scales.iter_mut().zip(parts) {
        *scale = part
            .iter()
            .fold(0.0f32, |most, value| most.max(value.abs()))
            / 31.0;
    }
    let most = scales.iter().copied().fold(0.0, f32::max);
    let d = f16::from_f32(most / 127.0).to_f32();
    let scales = scales.map(|scale| (scale * inverse(d)).round().min(127.0) as u8);
    let mut codes = [0u8; 256];
    for (index, value) in block.iter().enumerate() {
        let scale = d * f32::from(scales[index / 16]);
        codes[index] = ((value * inverse(scale)).round().clamp(-32.0, 31.0) + 32.0) as u8;
    }
    let (halves, _) = codes.as_chunks::<128>();
    for half in halves {
        to.extend((0..64).map(|index| half[index] & 15 | (half[index + 64] & 15) << 4));
    }
    for half in halves {
        to.extend((0..32).map(|index| {
            let high = |part: usize| (half[index + 32 * part] >> 4) << (2 * part);
            high(0) | high(1) | high(2) | high(3)
        }));
    }
    to.extend(scales);
    push_half(most / 127.0, to)
}
