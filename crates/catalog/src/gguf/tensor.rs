//! Tensors and their types.

use std::fmt;

use crate::file_error::{Fault, quoted};

/// The position and shape of a tensor. Offsets are relative to the data section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorInfo<'a> {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: &'a str,
    /// Sizes of the axes, the fastest first. Only the first `n_axes` are used; the others are 1.
    pub shape: [u64; 4],
    /// Number of axes.
    pub n_axes: usize,
    /// Type of the elements.
    pub kind: TensorType,
    /// Byte offset in the data section.
    pub offset: u64,
    /// Size in bytes.
    pub n_bytes: u64,
}

impl TensorInfo<'_> {
    /// Returns the number of elements.
    pub fn n_elements(&self) -> u64 {
        // The reader has checked this product for overflow.
        self.shape.iter().product()
    }
}

/// The type of a tensor's elements: llama.cpp's `ggml_type`, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorType {
    number: u32,
}

/// Number, name, elements per block, bytes per block (`ggml-common.h`). Types that llama.cpp removed
/// from the format are not listed.
const TYPES: [(u32, &str, u64, u64); 35] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
];

impl TensorType {
    /// Four bytes per element.
    pub const F32: Self = Self { number: 0 };
    /// Two bytes per element.
    pub const F16: Self = Self { number: 1 };
    /// Blocks of 32 elements with 4 bits each, an f16 scale and an f16 minimum.
    pub const Q4_1: Self = Self { number: 3 };
    /// Blocks of 32 elements with 8 bits each and an f16 scale.
    pub const Q8_0: Self = Self { number: 8 };

    /// Returns the type with this number, if it is known.
    pub fn from_number(number: u32) -> Option<Self> {
        row(number).map(|_| Self { number })
    }

    /// Returns the number of the type in files.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns the name of the type: `Q4_K`, `F16`, ….
    pub fn name(self) -> &'static str {
        row(self.number).map_or("", |row| row.1)
    }

    /// Returns the number of elements in a block.
    pub fn block_elements(self) -> u64 {
        row(self.number).map_or(1, |row| row.2)
    }

    /// Returns the bytes of a block.
    pub fn block_bytes(self) -> u64 {
        row(self.number).map_or(1, |row| row.3)
    }

    pub(super) fn n_bytes(self, name: &str, shape: &[u64; 4]) -> Result<u64, Fault> {
        let bad = |reason: String| bad_shape(name, &reason);
        if !shape[0].is_multiple_of(self.block_elements()) {
            return Err(bad(format!(
                "{} elements a row are not a multiple of {}, the block of {self}",
                shape[0],
                self.block_elements()
            )));
        }
        let n_elements = shape
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(size));
        n_elements
            .and_then(|n| (n / self.block_elements()).checked_mul(self.block_bytes()))
            .ok_or_else(|| bad(format!("{shape:?} has more elements than can be counted")))
    }
}

pub(super) fn bad_shape(name: &str, reason: &str) -> Fault {
    Fault::damaged(format!("tensor {} has a bad shape: {reason}", quoted(name)))
}

fn row(number: u32) -> Option<&'static (u32, &'static str, u64, u64)> {
    TYPES.iter().find(|row| row.0 == number)
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
