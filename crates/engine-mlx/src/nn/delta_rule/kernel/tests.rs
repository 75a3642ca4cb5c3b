use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use mlx_rs::{Device, Dtype};

use super::super::DeltaRule;
use super::super::check::{difference, example};
use super::*;

const SIZES: Sizes = Sizes {
    n_key_heads: 2,
    n_groups: 2,
    key_dim: 16,
    value_dim: 2,
};

#[test]
fn groups_of_threads_compute_whole_columns() {
    for (key_dim, value_dim, lanes, expected) in [
        (128, 128, 8, Some(16)),
        (128, 128, 32, Some(4)),
        (256, 256, 8, Some(16)),
        // Too many elements for the registers.
        (512, 128, 8, None),
        // A column that threads cannot share evenly.
        (100, 128, 8, None),
        (16, 8, 8, Some(8)),
        (16, 12, 8, Some(4)),
        // Fewer threads than run in lockstep.
        (16, 6, 8, None),
        (128, 33, 32, Some(1)),
    ] {
        let sizes = Sizes {
            key_dim,
            value_dim,
            ..SIZES
        };
        let columns = columns_per_group(sizes, lanes);
        assert_eq!(columns, expected, "{sizes:?}, {lanes} lanes");
    }
    let huge = Sizes {
        n_key_heads: 1 << 10,
        n_groups: 1 << 9,
        key_dim: 128,
        value_dim: 128,
    };
    assert_eq!(columns_per_group(huge, 8), None);
}

/// Compiles the body as C++, which every machine that builds this crate can do.
#[test]
fn the_body_computes_the_delta_rule() {
    Device::set_default(&Device::cpu());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("kernel");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/nn/delta_rule");
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| OsString::from("c++"));
    let numbers = [
        ("KEY_HEADS", SIZES.n_key_heads),
        ("GROUPS", SIZES.n_groups),
        ("KEY_DIM", SIZES.key_dim),
        ("VALUE_DIM", SIZES.value_dim),
        ("LANES", 4),
    ];
    let compiled = Command::new(&compiler)
        .args(["-std=c++20", "-pthread", "-Wall", "-Werror"])
        .arg("-Wno-unknown-pragmas")
        .args(numbers.map(|(name, number)| format!("-D{name}={number}")))
        .arg("-I")
        .arg(&source)
        .arg(source.join("kernel/tests.cpp"))
        .arg("-o")
        .arg(&program)
        .status();
    match compiled {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: there is no compiler {}", compiler.display());
            return;
        }
        compiled => assert!(compiled.expect("it runs").success(), "it does not compile"),
    }
    for n_tokens in [1, 4] {
        let (inputs, state) = example(SIZES, Dtype::Float32, n_tokens).expect("MLX");
        let run = |inputs: &Inputs, states: &[Array]| Ok(run(&program, inputs, &states[0]));
        let difference = difference(&inputs, &[state], run).expect("MLX");
        assert!(difference < 1e-5, "{n_tokens} tokens: {difference}");
    }
}

/// Returns the outputs of the compiled body.
fn run(program: &Path, inputs: &Inputs, state: &Array) -> (Array, Vec<Array>) {
    let n_tokens = inputs.n_tokens();
    let mut child = Command::new(program)
        .arg(n_tokens.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = child.stdin.take().expect("it has an input");
    for array in [
        &inputs.queries,
        &inputs.keys,
        &inputs.values,
        &inputs.log_decays,
        &inputs.betas,
        state,
    ] {
        let numbers = array.as_slice::<f32>().iter();
        let bytes: Vec<u8> = numbers.flat_map(|number| number.to_ne_bytes()).collect();
        pipe.write_all(&bytes).expect("it reads its input");
    }
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{:?}", output.status);
    let chunks = output.stdout.as_chunks::<4>().0.iter();
    let numbers: Vec<f32> = chunks.map(|bytes| f32::from_ne_bytes(*bytes)).collect();
    let shape = inputs.values.shape();
    let (out, state) = numbers.split_at(inputs.values.size());
    let out = Array::from_slice(out, shape);
    (out, vec![Array::from_slice(state, &SIZES.state())])
}

#[test]
fn without_a_kernel_the_graph_computes() {
    Device::set_default(&Device::cpu());
    let (inputs, state) = example(SIZES, Dtype::Float32, 4).expect("MLX");
    // On a machine with CUDA the kernel may compute.
    let rule = DeltaRule {
        language: Some(KernelLanguage::Cuda),
    };
    for _ in 0..2 {
        let computed = |inputs: &Inputs, states: &[Array]| {
            rule.compute(
                inputs,
                &states.iter().cloned().map(Some).collect::<Vec<_>>(),
            )
        };
        let difference = difference(&inputs, std::slice::from_ref(&state), computed);
        assert!(difference.expect("MLX") < 1e-5);
    }
}

#[test]
fn inputs_of_other_shapes_are_refused() {
    Device::set_default(&Device::cpu());
    let kernel = Kernel::new(KernelLanguage::Metal, SIZES).expect("MLX");
    let kernel = kernel.expect("the sizes are supported");
    let (mut inputs, state) = example(SIZES, Dtype::Float32, 2).expect("MLX");
    inputs.betas = inputs.log_decays.reshape(&[-1]).expect("MLX");
    let error = kernel
        .compute(&inputs, &[state])
        .expect_err("a shape is wrong");
    assert_eq!(error.what(), "the delta rule got [8] instead of [2, 4]");
}
