//! Measures attention over keys and values in 16 bits (32 on a CPU) and in 8 bits:
//! `cargo bench -p transom-engine-mlx --bench kv_cache -- [TOKENS [LAYERS]]`.
//!
//! Decodes with models of random weights in the shapes of Qwen3 0.6B and 8B after TOKENS tokens of
//! context (4096 by default). With fewer LAYERS than the model has, the head shrinks by as much. On a GPU
//! all layers are measured and weights have 4 bits; on a CPU there are two layers in dense f32, as the
//! engine computes them. In the forms of 8 bits, every 256 tokens are quantized when they are complete, in
//! groups of 64:
//!
//! - `products`: MLX's quantized products over these tokens, plain products over the newest ones, and one
//!   softmax over both
//! - `dequantized`: each step dequantizes the keys and values of a layer, and uses MLX's attention
//!
//! Prints the milliseconds of a step in the fastest of several rounds, in which the ways alternate, the
//! peak memory beyond the weights while decoding and while reading the prompt (in steps of 2048 tokens,
//! which dequantize), and the size of the KV cache, each in MB. As in the engine, a step is queued before
//! the one before it has ended.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    unsafe_code,
    reason = "a benchmark prints a table and stops at the first error; it calls mlx-c as the engine does"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use mlx_rs::fast::{ScaledDotProductAttentionMask as Mask, scaled_dot_product_attention};
use mlx_rs::ops::indexing::argmax_axis;
use mlx_rs::transforms::{async_eval, eval};
use mlx_rs::{Array, Device, DeviceType, Dtype, Stream, fast, memory, ops, random};

const BLOCK: i32 = 256;
const GROUP: i32 = 64;
const BITS: i32 = 8;
const CHUNK: i32 = 2048;
const N_ROUNDS: usize = 5;

#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    hidden: i32,
    n_heads: i32,
    feed_forward: i32,
    n_layers: i32,
}

const N_KV_HEADS: i32 = 8;
const HEAD_DIM: i32 = 128;
const VOCAB: i32 = 151_936;
const SHAPES: [Shape; 2] = [
    Shape {
        name: "0.6B",
        hidden: 1024,
        n_heads: 16,
        feed_forward: 3072,
        n_layers: 28,
    },
    Shape {
        name: "8B",
        hidden: 4096,
        n_heads: 32,
        feed_forward: 12_288,
        n_layers: 36,
    },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Products,
    Dequantized,
}

const WAYS: [(&str, Way); 3] = [
    ("plain", Way::Plain),
    ("products", Way::Products),
    ("dequantized", Way::Dequantized),
];

fn main() {
    // Without `--bench`, which cargo adds.
    let given = std::env::args().skip(1);
    let mut given = given.filter(|argument| !argument.starts_with('-'));
    let mut number = || given.next().map(|number| number.parse::<i32>().unwrap());
    let context = number().unwrap_or(4096);
    let layers = number();
    let device = Device::try_default().unwrap().get_type().unwrap();
    let on_cpu = matches!(device, DeviceType::Cpu);
    memory::set_cache_limit(256 << 20).unwrap();
    println!("model   layers  KV cache     ms/step  ratio  peak decoding  peak prompt  KV cache");
    for mut shape in SHAPES {
        let all = shape.n_layers;
        shape.n_layers = layers.unwrap_or(if on_cpu { 2 } else { all }).min(all);
        measure(shape, VOCAB / all * shape.n_layers, context, on_cpu);
    }
}

fn measure(shape: Shape, vocab: i32, context: i32, on_cpu: bool) {
    let model = Model::new(shape, vocab, on_cpu);
    let mut caches: Vec<Vec<Cache>> = Vec::new();
    let mut prompt_peaks = Vec::new();
    let weights = memory::active_memory().unwrap();
    for (_, way) in WAYS {
        memory::clear_cache().unwrap();
        let others = memory::active_memory().unwrap();
        memory::reset_peak_memory().unwrap();
        let mut own = (0..shape.n_layers)
            .map(|_| Cache::new(way))
            .collect::<Vec<_>>();
        let mut n = 0;
        while n < context {
            let n_new = CHUNK.min(context - n);
            let x = random::normal::<f32>(&[1, n_new, shape.hidden], None, None, None);
            let x = x.unwrap().as_dtype(model.dtype).unwrap();
            model.hidden(&x, &mut own);
            eval(own.iter().flat_map(Cache::arrays)).unwrap();
            n += n_new;
        }
        prompt_peaks.push(memory::peak_memory().unwrap() - others);
        caches.push(own);
    }
    let kv: Vec<usize> = caches
        .iter()
        .map(|own| own.iter().flat_map(Cache::arrays).map(Array::nbytes).sum())
        .collect();
    let of_all: usize = kv.iter().sum();
    let mut fastest = [f64::INFINITY; WAYS.len()];
    let mut peaks = [0; WAYS.len()];
    for _ in 0..N_ROUNDS {
        for index in 0..WAYS.len() {
            memory::clear_cache().unwrap();
            memory::reset_peak_memory().unwrap();
            let mut own: Vec<Cache> = caches[index].iter().map(Cache::copy).collect();
            // The copies beside the originals do not count.
            let held = weights + of_all;
            // A device may lack a kernel for one of the ways.
            let decode = AssertUnwindSafe(|| model.decode(&mut own));
            let seconds = catch_unwind(decode).unwrap_or(f64::INFINITY);
            fastest[index] = fastest[index].min(seconds);
            peaks[index] = memory::peak_memory().unwrap().saturating_sub(held);
        }
    }
    let mb = |bytes: usize| bytes as f64 / 1e6;
    for (index, (way, _)) in WAYS.into_iter().enumerate() {
        println!(
            "{:<7} {:>6}  {way:<11} {:>8.3} {:>5.2}x {:>14.1} {:>12.1} {:>9.1}",
            shape.name,
            shape.n_layers,
            fastest[index] * 1e3,
            fastest[0] / fastest[index],
            mb(peaks[index]),
            mb(prompt_peaks[index]),
            mb(kv[index]),
        );
    }
}

enum Matrix {
    Dense(Array),
    Packed(Packed),
}

impl Matrix {
    fn random(n_out: i32, n_in: i32, on_cpu: bool) -> Self {
        let scale = (n_in as f32).sqrt().recip();
        let weight = random::normal::<f32>(&[n_out, n_in], None, scale, None).unwrap();
        let matrix = match on_cpu {
            true => Self::Dense(weight),
            false => Self::Packed(Packed::new(&weight.as_dtype(Dtype::Bfloat16).unwrap(), 4)),
        };
        match &matrix {
            Self::Dense(weight) => eval([weight]).unwrap(),
            Self::Packed(packed) => eval(&packed.0).unwrap(),
        }
        matrix
    }

    fn product(&self, x: &Array) -> Array {
        match self {
            Self::Dense(weight) => x.matmul(weight.transpose().unwrap()).unwrap(),
            Self::Packed(packed) => packed.product(x, true, 4),
        }
    }
}

/// Words, scales and biases.
#[derive(Clone)]
struct Packed([Array; 3]);

impl Packed {
    fn new(x: &Array, bits: i32) -> Self {
        let (words, scales, biases) = ops::quantize(x, GROUP, bits).unwrap();
        Self([words, scales, biases])
    }

    fn product(&self, x: &Array, transpose: bool, bits: i32) -> Array {
        let [words, scales, biases] = &self.0;
        ops::quantized_matmul(x, words, scales, biases, transpose, GROUP, bits).unwrap()
    }

    fn dequantized(&self) -> Array {
        let [words, scales, biases] = &self.0;
        ops::dequantize(words, scales, biases, GROUP, BITS).unwrap()
    }

    /// Appends the tokens of `other`.
    fn extended(self, other: Self) -> Self {
        let mut other = other.0.into_iter();
        Self(
            self.0
                .map(|own| ops::concatenate(&[own, other.next().unwrap()], 2).unwrap()),
        )
    }
}

/// Keys and values of one layer: the complete blocks in 8 bits, and the others in a buffer.
struct Cache {
    way: Way,
    packed: Option<[Packed; 2]>,
    buffer: Option<[Array; 2]>,
    n_buffered: i32,
}

impl Cache {
    fn new(way: Way) -> Self {
        Self {
            way,
            packed: None,
            buffer: None,
            n_buffered: 0,
        }
    }

    fn arrays(&self) -> impl Iterator<Item = &Array> {
        let packed = self.packed.iter().flatten().flat_map(|packed| &packed.0);
        packed.chain(self.buffer.iter().flatten())
    }

    fn copy(&self) -> Self {
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
    fn append(&mut self, new: [Array; 2]) -> [Array; 2] {
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
    fn pack(&mut self) {
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

struct Layer {
    qkv: Matrix,
    output: Matrix,
    gate_up: Matrix,
    down: Matrix,
}

struct Model {
    shape: Shape,
    dtype: Dtype,
    on_cpu: bool,
    layers: Vec<Layer>,
    head: Matrix,
    embedding: Array,
    norm: Array,
    head_norm: Array,
}

impl Model {
    fn new(shape: Shape, vocab: i32, on_cpu: bool) -> Self {
        let dtype = match on_cpu {
            true => Dtype::Float32,
            false => Dtype::Bfloat16,
        };
        let Shape {
            hidden,
            n_heads,
            feed_forward,
            ..
        } = shape;
        let attended = n_heads * HEAD_DIM;
        let layers = (0..shape.n_layers).map(|_| Layer {
            qkv: Matrix::random(attended + 2 * N_KV_HEADS * HEAD_DIM, hidden, on_cpu),
            output: Matrix::random(hidden, attended, on_cpu),
            gate_up: Matrix::random(2 * feed_forward, hidden, on_cpu),
            down: Matrix::random(hidden, feed_forward, on_cpu),
        });
        let embedding = random::normal::<f32>(&[1000, hidden], None, None, None).unwrap();
        let model = Self {
            layers: layers.collect(),
            head: Matrix::random(vocab, hidden, on_cpu),
            embedding: embedding.as_dtype(dtype).unwrap(),
            norm: ops::ones_dtype(&[hidden], dtype).unwrap(),
            head_norm: ops::ones_dtype(&[HEAD_DIM], dtype).unwrap(),
            shape,
            dtype,
            on_cpu,
        };
        eval([&model.embedding, &model.norm, &model.head_norm]).unwrap();
        model
    }

    /// Decodes, and returns the seconds of a step.
    fn decode(&self, caches: &mut [Cache]) -> f64 {
        // On a GPU, enough to complete and quantize a block.
        let n_steps = if self.on_cpu { 32 } else { 256 };
        let mut token = Array::from_slice(&[7_u32], &[1]);
        let mut start = Instant::now();
        for index in 0..=n_steps {
            let x = self.embedding.take_axis(&token, 0).unwrap();
            let x = self.hidden(&x.expand_dims(0).unwrap(), caches);
            let logits = self.head.product(&x);
            let next = argmax_axis(&logits, -1, false).unwrap();
            let next = next
                .reshape(&[1])
                .unwrap()
                .remainder(Array::from_slice(&[1000_u32], &[1]));
            let next = next.unwrap();
            async_eval([&next]).unwrap();
            eval([&token]).unwrap();
            if index == 0 {
                eval([&next]).unwrap();
                start = Instant::now();
            }
            token = next;
        }
        eval([&token]).unwrap();
        start.elapsed().as_secs_f64() / n_steps as f64
    }

    /// Returns the normalized outputs of `[1, tokens, hidden]`.
    fn hidden(&self, x: &Array, caches: &mut [Cache]) -> Array {
        let mut x = x.clone();
        for (layer, cache) in self.layers.iter().zip(caches) {
            let normed = fast::rms_norm(&x, Some(&self.norm), 1e-6).unwrap();
            x = x.add(self.attention(layer, &normed, cache)).unwrap();
            let normed = fast::rms_norm(&x, Some(&self.norm), 1e-6).unwrap();
            let both = layer.gate_up.product(&normed);
            let n = self.shape.feed_forward;
            let (gate, up) = (slice(&both, 2, 0, n), slice(&both, 2, n, 2 * n));
            let active = gate.multiply(ops::sigmoid(&gate).unwrap()).unwrap();
            x = x
                .add(layer.down.product(&active.multiply(up).unwrap()))
                .unwrap();
        }
        fast::rms_norm(&x, Some(&self.norm), 1e-6).unwrap()
    }

    fn attention(&self, layer: &Layer, x: &Array, cache: &mut Cache) -> Array {
        let n_heads = self.shape.n_heads;
        let n_tokens = x.dim(1);
        let all = layer.qkv.product(x);
        let all = all
            .reshape(&[1, n_tokens, n_heads + 2 * N_KV_HEADS, HEAD_DIM])
            .unwrap();
        let all = all.transpose_axes(&[0, 2, 1, 3]).unwrap();
        let rotated = slice(&all, 1, 0, n_heads + N_KV_HEADS);
        let rotated = fast::rms_norm(&rotated, Some(&self.head_norm), 1e-6).unwrap();
        let rotated = fast::rope(&rotated, HEAD_DIM, false, 1e6, 1.0, 4000, None).unwrap();
        let queries = slice(&rotated, 1, 0, n_heads);
        let keys = slice(&rotated, 1, n_heads, n_heads + N_KV_HEADS);
        let values = slice(&all, 1, n_heads + N_KV_HEADS, n_heads + 2 * N_KV_HEADS);
        let seen = cache.append([keys, values]);
        let attended = match (&cache.packed, cache.way) {
            (None, _) => self.plain(&queries, &seen),
            (Some(packed), Way::Products) if n_tokens == 1 => products(&queries, packed, &seen),
            (Some([keys, values]), _) => {
                let [new_keys, new_values] = &seen;
                let joined = |old: &Packed, new: &Array| {
                    ops::concatenate(&[&old.dequantized(), new], 2).unwrap()
                };
                self.plain(
                    &queries,
                    &[joined(keys, new_keys), joined(values, new_values)],
                )
            }
        };
        cache.pack();
        let attended = attended.transpose_axes(&[0, 2, 1, 3]).unwrap();
        layer.output.product(
            &attended
                .reshape(&[1, n_tokens, n_heads * HEAD_DIM])
                .unwrap(),
        )
    }

    fn plain(&self, queries: &Array, [keys, values]: &[Array; 2]) -> Array {
        let n_tokens = queries.dim(2);
        if !self.on_cpu || n_tokens > 1 {
            let mask = (n_tokens > 1).then_some(Mask::Causal);
            return scaled_dot_product_attention(queries, keys, values, scale(), mask, None)
                .unwrap();
        }
        // As the engine does on a CPU: the heads that share keys are rows of one product.
        let rows = rows(queries);
        let scores = rows.matmul(transposed(keys)).unwrap();
        let weights = ops::softmax_axis(&scores, -1, true).unwrap();
        weights
            .matmul(values)
            .unwrap()
            .reshape(queries.shape())
            .unwrap()
    }
}

fn products(queries: &Array, [keys, values]: &[Packed; 2], seen: &[Array; 2]) -> Array {
    let rows = rows(queries);
    let old = keys.product(&rows, true, BITS);
    let new = rows.matmul(transposed(&seen[0])).unwrap();
    let (n_old, n_new) = (old.dim(3), new.dim(3));
    let scores = ops::concatenate(&[&old, &new], 3).unwrap();
    let weights = ops::softmax_axis(&scores, -1, true).unwrap();
    let of_old = values.product(&slice(&weights, 3, 0, n_old), false, BITS);
    let of_new = slice(&weights, 3, n_old, n_old + n_new)
        .matmul(&seen[1])
        .unwrap();
    of_old
        .add(of_new)
        .unwrap()
        .reshape(queries.shape())
        .unwrap()
}

fn scale() -> f32 {
    (HEAD_DIM as f32).sqrt().recip()
}

/// Returns the scaled queries of one token, as rows of the head whose keys they use.
fn rows(queries: &Array) -> Array {
    let group = queries.dim(1) / N_KV_HEADS;
    let scale = Array::from_f32(scale()).as_dtype(queries.dtype()).unwrap();
    let scaled = queries.multiply(scale).unwrap();
    scaled.reshape(&[1, N_KV_HEADS, group, HEAD_DIM]).unwrap()
}

fn transposed(keys: &Array) -> Array {
    keys.transpose_axes(&[0, 1, 3, 2]).unwrap()
}

fn one(like: &Array) -> Array {
    ops::ones_dtype(&[], like.dtype()).unwrap()
}

fn zeros(like: &Array, n_tokens: i32) -> Array {
    ops::zeros_dtype(&[1, like.dim(1), n_tokens, like.dim(3)], like.dtype()).unwrap()
}

fn slice(array: &Array, axis: usize, start: i32, stop: i32) -> Array {
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

/// Writes `update` to the tokens `start..end` of `buffer`, in place.
fn write(buffer: Array, update: &Array, start: i32, end: i32) -> Array {
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
