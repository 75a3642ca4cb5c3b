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

mod cache;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use mlx_rs::fast::{ScaledDotProductAttentionMask as Mask, scaled_dot_product_attention};
use mlx_rs::ops::indexing::argmax_axis;
use mlx_rs::transforms::{async_eval, eval};
use mlx_rs::{Array, Device, DeviceType, Dtype, fast, memory, ops, random};

use cache::{BITS, Cache, Packed, Way, slice};

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
