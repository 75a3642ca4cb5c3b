//! The quantizations that a catalog may name, and the file sizes that follow.
//!
//! Rule: names for GGUF are those of llama.cpp (`llama-quantize --help`). Names for MLX are the bits
//! as mlx-lm counts them, or the names of its other modes.

use crate::facts::Format;

/// Quantizations of an MLX folder: name, bits per weight, and type of most tensors. Scales and
/// biases of quantized layers are extra. MLX stores quantized weights in 32-bit words.
const MLX: [(&str, f64, &str); 13] = [
    ("2-bit", 2.0, "U32"),
    ("3-bit", 3.0, "U32"),
    ("4-bit", 4.0, "U32"),
    ("5-bit", 5.0, "U32"),
    ("6-bit", 6.0, "U32"),
    ("8-bit", 8.0, "U32"),
    ("MXFP4", 4.0, "U32"),
    // Experts are in MXFP4 and the rest, which is small, in 8 bits.
    ("MXFP4-Q8", 4.0, "U32"),
    ("MXFP8", 8.0, "U32"),
    ("NVFP4", 4.0, "U32"),
    ("BF16", 16.0, "BF16"),
    ("F16", 16.0, "F16"),
    ("F32", 32.0, "F32"),
];

/// Quantizations of a GGUF file: name, bits per weight in most tensors, and type of those tensors.
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

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantization {
    /// Bits per weight in most of the tensors.
    pub(super) bits: f64,
    /// Type name of most tensors in the file.
    pub(super) kind: &'static str,
}

pub(super) fn names(format: Format) -> Vec<&'static str> {
    table(format).iter().map(|(name, ..)| *name).collect()
}

/// Returns the quantization with this name. A name for GGUF may have the prefix `UD-`, which means
/// a mix that was chosen by measurements.
pub(super) fn of(format: Format, name: &str) -> Option<Quantization> {
    let name = match format {
        Format::Gguf => name.strip_prefix("UD-").unwrap_or(name),
        Format::Safetensors => name,
    };
    let (_, bits, kind) = table(format).iter().find(|(other, ..)| *other == name)?;
    let (bits, kind) = (*bits, *kind);
    Some(Quantization { bits, kind })
}

pub(crate) fn bits_of(format: Format, name: &str) -> Option<f64> {
    of(format, name).map(|quantization| quantization.bits)
}

impl Quantization {
    /// Returns true if MLX quantized the weights, which it stores in 32-bit words.
    pub(super) fn is_words(&self) -> bool {
        self.kind == "U32"
    }
}

fn table(format: Format) -> &'static [(&'static str, f64, &'static str)] {
    match format {
        Format::Safetensors => &MLX,
        Format::Gguf => &GGUF,
    }
}
