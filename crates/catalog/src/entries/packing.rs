//! The ways in which weights are packed that a list may name, and what they say of a file's size.
//!
//! Rule: GGUF's are llama.cpp's own names (`llama-quantize --help`), MLX's are bits as mlx-lm counts
//! them, or the names of its other modes.

use crate::facts::Format;

/// Packings of a folder for MLX, with bits of a weight, and the name of the type of most tensors;
/// scales and biases of what is quantized come on top. MLX packs that into 32-bit words.
const MLX: [(&str, f64, &str); 13] = [
    ("2-bit", 2.0, "U32"),
    ("3-bit", 3.0, "U32"),
    ("4-bit", 4.0, "U32"),
    ("5-bit", 5.0, "U32"),
    ("6-bit", 6.0, "U32"),
    ("8-bit", 8.0, "U32"),
    ("MXFP4", 4.0, "U32"),
    // Experts in MXFP4 and all else in 8 bits, of which there is little.
    ("MXFP4-Q8", 4.0, "U32"),
    ("MXFP8", 8.0, "U32"),
    ("NVFP4", 4.0, "U32"),
    ("BF16", 16.0, "BF16"),
    ("F16", 16.0, "F16"),
    ("F32", 32.0, "F32"),
];

/// Packings of a GGUF file, with bits of a weight in most of its tensors, and the name of those.
const GGUF: [(&str, f64, &str); 43] = [
    ("IQ1_S", 1.5625, "IQ1_S"),
    ("IQ1_M", 1.75, "IQ1_M"),
    ("TQ1_0", 1.6875, "TQ1_0"),
    ("TQ2_0", 2.0625, "TQ2_0"),
    ("IQ2_XXS", 2.0625, "IQ2_XXS"),
    ("IQ2_XS", 2.3125, "IQ2_XS"),
    ("IQ2_S", 2.3125, "IQ2_XS"),
    ("IQ2_M", 2.5625, "IQ2_S"),
    ("IQ3_XXS", 3.0625, "IQ3_XXS"),
    ("IQ3_XS", 3.0625, "IQ3_XXS"),
    ("IQ3_S", 3.4375, "IQ3_S"),
    ("IQ3_M", 3.4375, "IQ3_S"),
    ("IQ4_XS", 4.25, "IQ4_XS"),
    ("IQ4_NL", 4.5, "IQ4_NL"),
    ("Q2_K", 2.625, "Q2_K"),
    ("Q2_K_S", 2.625, "Q2_K"),
    ("Q2_K_L", 2.625, "Q2_K"),
    ("Q2_K_XL", 2.625, "Q2_K"),
    ("Q3_K_S", 3.4375, "Q3_K"),
    ("Q3_K_M", 3.4375, "Q3_K"),
    ("Q3_K_L", 3.4375, "Q3_K"),
    ("Q3_K_XL", 3.4375, "Q3_K"),
    ("Q4_0", 4.5, "Q4_0"),
    ("Q4_1", 5.0, "Q4_1"),
    ("Q4_K_S", 4.5, "Q4_K"),
    ("Q4_K_M", 4.5, "Q4_K"),
    ("Q4_K_L", 4.5, "Q4_K"),
    ("Q4_K_XL", 4.5, "Q4_K"),
    ("Q5_0", 5.5, "Q5_0"),
    ("Q5_1", 6.0, "Q5_1"),
    ("Q5_K_S", 5.5, "Q5_K"),
    ("Q5_K_M", 5.5, "Q5_K"),
    ("Q5_K_L", 5.5, "Q5_K"),
    ("Q5_K_XL", 5.5, "Q5_K"),
    ("Q6_K", 6.5625, "Q6_K"),
    ("Q6_K_L", 6.5625, "Q6_K"),
    ("Q6_K_XL", 6.5625, "Q6_K"),
    ("Q8_0", 8.5, "Q8_0"),
    ("Q8_K_XL", 8.5, "Q8_0"),
    ("MXFP4", 4.25, "MXFP4"),
    ("BF16", 16.0, "BF16"),
    ("F16", 16.0, "F16"),
    ("F32", 32.0, "F32"),
];

/// How weights are packed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Packing {
    /// Bits of a weight in most of the tensors.
    pub(super) bits: f64,
    /// As the type of most tensors is named in the file.
    pub(super) kind: &'static str,
}

/// All names of packings of this form.
pub(super) fn names(format: Format) -> Vec<&'static str> {
    table(format).iter().map(|(name, ..)| *name).collect()
}

/// The packing of this name; `None` if there is none. `UD-`, for a mix that was chosen by measuring,
/// may stand before a name of GGUF.
pub(super) fn of(format: Format, name: &str) -> Option<Packing> {
    let name = match format {
        Format::Gguf => name.strip_prefix("UD-").unwrap_or(name),
        Format::Safetensors => name,
    };
    let (_, bits, kind) = table(format).iter().find(|(other, ..)| *other == name)?;
    let (bits, kind) = (*bits, *kind);
    Some(Packing { bits, kind })
}

/// Bits of a weight in most of the tensors of a packing; `None` if there is none of this name.
pub(crate) fn bits_of(format: Format, name: &str) -> Option<f64> {
    of(format, name).map(|packing| packing.bits)
}

fn table(format: Format) -> &'static [(&'static str, f64, &'static str)] {
    match format {
        Format::Safetensors => &MLX,
        Format::Gguf => &GGUF,
    }
}
