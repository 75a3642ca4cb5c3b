//! Keys and values of a layer, and the operations on arrays that they need.

use mlx_rs::transforms::eval;
use mlx_rs::{Array, Stream, ops};

pub(crate) const BLOCK: i32 = 256;
pub(crate) const GROUP: i32 = 64;
pub(crate) const BITS: i32 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    Products,
    Dequantized,
}

/// Words, scales and biases.
#[derive(Clone)]
pub(crate) struct Packed(pub(crate) [Array; 3]);

impl Packed {
    pub(crate) fn new(x: &Array, bits: i32) -> Self {
        let (words, scales, biases) = ops::quantize(x, GROUP, bits).unwrap();
        Self([words, scales, biases])
    }

    pub(crate) fn product(&self, x: &Array, transpose: bool, bits: i32) -> Array {
        let [words, scales, biases] = &self.0;
        ops::quantized_matmul(x, words, scales, biases, transpose, GROUP, bits).unwrap()
    }

    pub(crate) fn dequantized(&self) -> Array {
        let [words, scales, biases] = &self.0;
        ops::dequantize(words, scales, biases, GROUP, BITS).unwrap()
    }

    /// Appends the tokens of `other`.
    pub(crate) fn extended(self, other: Self) -> Self {
        let mut other = other.0.into_iter();
        Self(
            self.0
                .map(|own| ops::concatenate(&[own, other.next().unwrap()], 2).unwrap()),
        )
    }
}

/// Keys and values of one layer: the complete blocks in 8 bits, and the others in a buffer.
pub(crate) struct Cache {
    pub(crate) way: Way,
    pub(crate) packed: Option<[Packed; 2]>,
    buffer: Option<[Array; 2]>,
    n_buffered: i32,
}

impl Cache {
    pub(crate) fn new(way: Way) -> Self {
        Self {
            way,
            packed: None,
            buffer: None,
            n_buffered: 0,
        }
    }

    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        let packed = self.packed.iter().flatten().flat_map(|packed| &packed.0);
        packed.chain(self.buffer.iter().flatten())
    }

    pub(crate) fn copy(&self) -> Self {
        let copied = |array: &Array| {
            let copy = ops::concatenate(&[array], 0)
                .unwrap()
                .multiply(one(array))
                .unwrap();
            eval([&copy]).unwrap();
            copy
        };
        let packed = self.packed.as_ref();
        let packed = packed.map(|both| {
            both.each_ref()
                .map(|one| Packed(one.0.each_ref().map(copied)))
        });
        Self {
            way: self.way,
            packed,
            buffer: self.buffer.as_ref().map(|both| both.each_ref().map(copied)),
            n_buffered: self.n_buffered,
        }
    }

    /// Appends keys and values to the buffer, and returns those in it.
    pub(crate) fn append(&mut self, new: [Array; 2]) -> [Array; 2] {
        let end = self.n_buffered + new[0].dim(2);
        let capacity = (end + BLOCK - 1) / BLOCK * BLOCK;
        let mut old = self.buffer.take().map(<[Array; 2]>::into_iter);
        let n_old = self.n_buffered;
        let written = new.map(|new| {
            let old = old.as_mut().map(|old| old.next().unwrap());
            let buffer = match old {
                Some(old) if old.dim(2) >= end => old,
                Some(old) => {
                    let zeros = zeros(&new, capacity - n_old);
                    ops::concatenate(&[slice(&old, 2, 0, n_old), zeros], 2).unwrap()
                }
                None => zeros(&new, capacity),
            };
            write(buffer, &new, n_old, end)
        });
        self.n_buffered = end;
        let seen = written.each_ref().map(|buffer| slice(buffer, 2, 0, end));
        self.buffer = Some(written);
        seen
    }

    /// Quantizes the complete blocks of the buffer.
    pub(crate) fn pack(&mut self) {
        let n_complete = self.n_buffered / BLOCK * BLOCK;
        if self.way == Way::Plain || n_complete == 0 {
            return;
        }
        let Some(buffers) = self.buffer.take() else {
            return;
        };
        let packed = buffers
            .each_ref()
            .map(|buffer| Packed::new(&slice(buffer, 2, 0, n_complete), BITS));
        self.packed = Some(match self.packed.take() {
            Some([keys, values]) => {
                let [new_keys, new_values] = packed;
                [keys.extended(new_keys), values.extended(new_values)]
            }
            None => packed,
        });
        let end = self.n_buffered;
        self.n_buffered -= n_complete;
        if self.n_buffered > 0 {
            let rest = buffers.each_ref().map(|buffer| {
                let rest = slice(buffer, 2, n_complete, end);
                let zeros = zeros(buffer, BLOCK - rest.dim(2));
                ops::concatenate(&[rest, zeros], 2).unwrap()
            });
            self.buffer = Some(rest);
        }
    }
}

pub(crate) fn one(like: &Array) -> Array {
    ops::ones_dtype(&[], like.dtype()).unwrap()
}

pub(crate) fn zeros(like: &Array, n_tokens: i32) -> Array {
    ops::zeros_dtype(&[1, like.dim(1), n_tokens, like.dim(3)], like.dtype()).unwrap()
}

pub(crate) fn slice(array: &Array, axis: usize, start: i32, stop: i32) -> Array {
    let mut starts = vec![0; array.ndim()];
    let mut stops = array.shape().to_vec();
    starts[axis] = start;
    stops[axis] = stop;
    let strides = [1; 8];
    let stream = Stream::thread_local_or_default();
    // SAFETY: every pointer comes with its length and is valid during the call, which copies the data;
    // `Array` frees the handle.
    unsafe {
        let mut handle = mlx_sys::mlx_array_new();
        let status = mlx_sys::mlx_slice(
            &mut handle,
            array.as_ptr(),
            starts.as_ptr(),
            starts.len(),
            stops.as_ptr(),
            stops.len(),
            strides.as_ptr(),
            starts.len(),
            stream.as_ref().as_ptr(),
        );
        assert_eq!(status, 0);
        Array::from_ptr(handle)
    }
}

/// Writes `update` to the tokens `start..end` of `buffer`. MLX copies it if a step in flight reads it.
pub(crate) fn write(buffer: Array, update: &Array, start: i32, end: i32) -> Array {
    let (from, to) = ([0, 0, start, 0], [1, buffer.dim(1), end, buffer.dim(3)]);
    let strides = [1; 4];
    let stream = Stream::thread_local_or_default();
    // SAFETY: as for `slice`.
    unsafe {
        let mut handle = mlx_sys::mlx_array_new();
        let status = mlx_sys::mlx_slice_update(
            &mut handle,
            buffer.as_ptr(),
            update.as_ptr(),
            from.as_ptr(),
            from.len(),
            to.as_ptr(),
            to.len(),
            strides.as_ptr(),
            strides.len(),
            stream.as_ref().as_ptr(),
        );
        assert_eq!(status, 0);
        Array::from_ptr(handle)
    }
}
