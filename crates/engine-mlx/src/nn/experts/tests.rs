//! Gathered products with every kind of quantization, and mixtures of experts with few and many
//! tokens.

use mlx_rs::{Array, ops};

use super::{Activation, ExpertShape, Experts, Routing};
use crate::config::{Quantization, QuantizationMode};
use crate::linear::{Linear, LinearGroup, Matrix};
use crate::nn::Gate;
use crate::ops::QuantizedMatrix;

/// Pseudo-random numbers between -1 and 1, the same in every run.
fn noise(seed: i32, shape: &[i32]) -> Array {
    let n: i32 = shape.iter().product();
    let wave = |i: i32| ((i * 37 + seed * 1009) as f32 * 0.618).sin() * 43_758.547;
    let values: Vec<f32> = (0..n).map(|i| wave(i).fract()).collect();
    Array::from_slice(&values, shape)
}

fn assert_close(found: &Array, expected: &Array, case: &str) {
    assert_eq!(found.shape(), expected.shape(), "{case}");
    let difference = found.subtract(expected).and_then(|d| d.abs()?.max(None));
    let difference = difference.expect("MLX").item_exact::<f32>();
    assert!(difference < 1e-4, "{case}: off by {difference}");
}

/// A stack of 5 matrices `[16, 128]` with pseudo-random words and scales, and the same dequantized.
fn quantized_stack(quantization: Quantization) -> (Matrix, Array) {
    let Quantization {
        group_size,
        bits,
        mode,
    } = quantization;
    let words: Vec<u32> = (0..5 * 16 * (128 / 32 * bits) as u32)
        .map(|i| i.wrapping_mul(2_654_435_761) ^ (i << 7))
        .collect();
    let packed = Array::from_slice(&words, &[5, 16, 128 / 32 * bits]);
    let groups = [5, 16, 128 / group_size];
    let n_groups: i32 = groups.iter().product();
    let (scales, biases) = if mode.is_affine() {
        let small = |x: Array| x.multiply(Array::from_f32(0.01)).expect("MLX");
        (small(noise(1, &groups)), Some(small(noise(2, &groups))))
    } else {
        // Small numbers in both 8-bit formats.
        let bytes = (0..n_groups).map(|i| match mode {
            QuantizationMode::Nvfp4 => 0x10 + (i % 8) as u8,
            _ => 116 + (i % 4) as u8,
        });
        let bytes: Vec<u8> = bytes.collect();
        (Array::from_slice(&bytes, &groups), None)
    };
    let stored = QuantizedMatrix {
        words: packed,
        scales,
        biases,
        quantization,
    };
    let numbers = stored.dequantized().expect("MLX");
    let numbers = numbers.as_dtype(mlx_rs::Dtype::Float32).expect("MLX");
    (Matrix::Quantized(stored), numbers)
}

#[test]
fn products_with_a_quantized_stack_equal_those_with_the_dequantized_stack() {
    mlx_rs::Device::set_default(&mlx_rs::Device::cpu());
    let affine = [2, 3, 4, 5, 6, 8].into_iter().flat_map(|bits| {
        [32, 64, 128].map(|group_size| (group_size, bits, QuantizationMode::Affine))
    });
    let others = [
        (32, 4, QuantizationMode::Mxfp4),
        (32, 8, QuantizationMode::Mxfp8),
        (16, 4, QuantizationMode::Nvfp4),
    ];
    let indices = Array::from_slice(&[0_u32, 0, 1, 3, 4, 4], &[6]);
    let x = noise(3, &[6, 1, 128]);
    for (group_size, bits, mode) in affine.chain(others) {
        let quantization = Quantization {
            group_size,
            bits,
            mode,
        };
        let (matrix, numbers) = quantized_stack(quantization);
        let found = matrix.gathered_product(&x, &indices, true).expect("MLX");
        let dense = Matrix::Dense(numbers);
        let expected = dense.gathered_product(&x, &indices, true).expect("MLX");
        assert_close(&found, &expected, &format!("{quantization:?}"));
        let largest = expected.abs().and_then(|x| x.max(None)).expect("MLX");
        assert!(largest.item_exact::<f32>() > 1e-3, "{quantization:?}");
    }
}

const SHAPE: ExpertShape = ExpertShape {
    hidden_size: 16,
    intermediate_size: 8,
    n_experts: 6,
    n_used: 2,
};

fn mixture(routing: Routing, is_fused: bool) -> Experts {
    let stack = |seed, n_out, n_in| {
        let weight = noise(seed, &[SHAPE.n_experts, n_out, n_in]);
        let bias = noise(seed + 1, &[SHAPE.n_experts, n_out]);
        Linear::new(Matrix::Dense(weight), Some(bias))
    };
    let gate_up = vec![stack(10, 8, 16), stack(20, 8, 16)];
    let gate_up = LinearGroup::new(gate_up, is_fused).expect("MLX");
    assert_eq!(matches!(gate_up, LinearGroup::Fused(_)), is_fused);
    Experts {
        router: Linear::new(Matrix::Dense(noise(30, &[6, 16])), None),
        routing,
        shape: SHAPE,
        gate_up,
        down: stack(40, 16, 8),
        activation: Activation::new(Gate::Silu, true),
        scales: None,
        shared: None,
    }
}

#[test]
fn a_token_gets_the_same_output_alone_and_sorted_among_many() {
    mlx_rs::Device::set_default(&mlx_rs::Device::cpu());
    let x = noise(50, &[1, 70, 16]);
    for routing in [
        Routing::SoftmaxThenTop { normalize: true },
        Routing::SoftmaxThenTop { normalize: false },
        Routing::TopThenSoftmax,
    ] {
        let fused = mixture(routing, true);
        let many = fused.forward(&x).expect("MLX");
        let one_by_one: Vec<Array> = (0..70)
            .map(|token| {
                let token = crate::ops::slice_axis(&x, 1, token, token + 1).expect("MLX");
                fused.forward(&token).expect("MLX")
            })
            .collect();
        let one_by_one = ops::concatenate(&one_by_one, 1).expect("MLX");
        assert_close(&many, &one_by_one, &format!("{routing:?}"));
        let separate = mixture(routing, false).forward(&x).expect("MLX");
        assert_close(&many, &separate, &format!("{routing:?}, separate"));
    }
}
