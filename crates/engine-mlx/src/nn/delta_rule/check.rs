//! Decides whether the kernel computes the delta rule: only after it has computed a small step as the
//! graph does on the CPU, because kernels are compiled by the system of each machine.

use std::cell::RefCell;
use std::rc::Rc;

use mlx_rs::transforms::eval;
use mlx_rs::{Array, Device, Dtype, with_device};

use super::kernel::Kernel;
use super::{Inputs, Sizes, graph};
use crate::error::MlxResult;
use crate::ops::KernelLanguage;

/// Largest difference of an output or a state, which are about one. The kernel adds in another order,
/// and its exponential may be less exact.
const TOLERANCE: f32 = 1e-4;

/// Tokens of the checked step.
const N_TOKENS: i32 = 3;

/// What a kernel depends on.
type Variant = (KernelLanguage, Sizes, Dtype);

thread_local! {
    /// The variants that were checked, with the kernel if it may be used.
    static CHECKED: RefCell<Vec<(Variant, Option<Rc<Kernel>>)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the kernel for layers of these sizes, whose values have this type, if it may be used. The
/// first call checks it, and logs a warning if it fails.
pub(super) fn checked_kernel(
    language: KernelLanguage,
    sizes: Sizes,
    values: Dtype,
) -> Option<Rc<Kernel>> {
    let variant = (language, sizes, values);
    let known = CHECKED.with_borrow(|checked| {
        let mut checked = checked.iter();
        let found = checked.find(|(other, _)| *other == variant);
        found.map(|(_, kernel)| kernel.clone())
    });
    known.unwrap_or_else(|| {
        let kernel = usable(Kernel::new(language, sizes), sizes, values);
        CHECKED.with_borrow_mut(|checked| checked.push((variant, kernel.clone())));
        kernel
    })
}

/// Lets the graph compute the layers of the models that this thread has loaded.
pub(super) fn drop_kernels() {
    CHECKED.with_borrow_mut(|checked| checked.iter_mut().for_each(|(_, kernel)| *kernel = None));
}

fn usable(kernel: MlxResult<Option<Kernel>>, sizes: Sizes, values: Dtype) -> Option<Rc<Kernel>> {
    let checked = match kernel {
        Ok(Some(kernel)) => {
            let check = check(sizes, values, |inputs, states| {
                kernel.compute(inputs, states)
            });
            check.map(|()| kernel)
        }
        Ok(None) => {
            tracing::info!(?sizes, "no kernel of the delta rule has these sizes");
            return None;
        }
        Err(error) => Err(error.what().to_owned()),
    };
    match checked {
        Ok(kernel) => Some(Rc::new(kernel)),
        Err(reason) => {
            tracing::warn!(
                ?sizes,
                reason,
                "the kernel of the delta rule can't be used on this device; responses are slower"
            );
            None
        }
    }
}

/// Compares `compute` with the graph on the CPU. Returns why they differ.
fn check(
    sizes: Sizes,
    values: Dtype,
    compute: impl FnOnce(&Inputs, &[Array]) -> MlxResult<(Array, Vec<Array>)>,
) -> Result<(), String> {
    let failed = |error: mlx_rs::error::Exception| error.what().to_owned();
    let (inputs, state) = example(sizes, values, N_TOKENS).map_err(failed)?;
    let difference = difference(&inputs, &[state], compute).map_err(failed)?;
    match difference <= TOLERANCE {
        true => Ok(()),
        false => Err(format!("its results differ by {difference}")),
    }
}

/// Returns the largest difference between the results of `compute` and of the graph on the CPU; NaN or
/// infinity if they can't be compared.
pub(super) fn difference(
    inputs: &Inputs,
    states: &[Array],
    compute: impl FnOnce(&Inputs, &[Array]) -> MlxResult<(Array, Vec<Array>)>,
) -> MlxResult<f32> {
    let all = |(out, states): (Array, Vec<Array>)| [vec![out], states].concat();
    let expected = with_device(Device::cpu(), || {
        let expected = all(graph::compute(inputs, states)?);
        eval(&expected).map(|()| expected)
    })?;
    let computed = all(compute(inputs, states)?);
    eval(&computed)?;
    let mut largest = 0.0_f32;
    for (a, b) in computed.iter().zip(&expected) {
        if a.shape() != b.shape() || a.dtype() != b.dtype() {
            return Ok(f32::INFINITY);
        }
        let (a, b) = (a.contiguous()?, b.contiguous()?);
        eval([&a, &b])?;
        for (a, b) in a.as_slice::<f32>().iter().zip(b.as_slice::<f32>()) {
            let difference = (a - b).abs();
            if difference.is_nan() {
                return Ok(difference);
            }
            largest = largest.max(difference);
        }
    }
    Ok(largest)
}

/// Returns inputs of so many tokens, the same in every run, and a state.
pub(super) fn example(sizes: Sizes, values: Dtype, n_tokens: i32) -> MlxResult<(Inputs, Array)> {
    let noise = |seed: u32, shape: &[i32], scale: f32, dtype: Dtype| {
        let n: i32 = shape.iter().product();
        let mut number = seed;
        let elements = (0..n).map(|_| {
            // Numerical Recipes' generator; its upper bits are good.
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((number >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
        });
        let elements: Vec<f32> = elements.collect();
        Array::from_slice(&elements, shape).as_dtype(dtype)
    };
    let heads = [n_tokens, sizes.n_heads()];
    let by_key = [n_tokens, sizes.n_key_heads, sizes.key_dim];
    let by_value = [n_tokens, sizes.n_heads(), sizes.value_dim];
    // No key is longer than one.
    let unit = (sizes.key_dim as f32).sqrt().recip();
    let inputs = with_device(Device::cpu(), || {
        MlxResult::Ok(Inputs {
            queries: noise(1, &by_key, unit, Dtype::Float32)?,
            keys: noise(2, &by_key, unit, Dtype::Float32)?,
            values: noise(3, &by_value, 1.0, values)?,
            log_decays: noise(4, &heads, 1.0, Dtype::Float32)?.abs()?.negative()?,
            betas: noise(5, &heads, 1.0, Dtype::Float32)?.abs()?,
        })
    })?;
    let state = noise(6, &sizes.state(), 1.0, Dtype::Float32)?;
    eval([
        &inputs.queries,
        &inputs.keys,
        &inputs.values,
        &inputs.log_decays,
        &inputs.betas,
        &state,
    ])?;
    Ok((inputs, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        n_key_heads: 2,
        n_groups: 3,
        key_dim: 16,
        value_dim: 8,
    };

    #[test]
    fn a_kernel_that_computes_the_delta_rule_passes() {
        for values in [Dtype::Float32, Dtype::Bfloat16] {
            assert_eq!(check(SIZES, values, graph::compute), Ok(()));
        }
    }

    #[test]
    fn a_kernel_that_computes_anything_else_fails() {
        type Change = fn(Array, Vec<Array>) -> MlxResult<(Array, Vec<Array>)>;
        let changes: [(Change, &str); 5] = [
            (
                |out, states| Ok((out.add(Array::from_f32(2e-4))?, states)),
                "its results differ by 0.0002",
            ),
            (
                |out, states| Ok((out, vec![states[0].multiply(Array::from_f32(f32::NAN))?])),
                "its results differ by NaN",
            ),
            (
                |out, states| Ok((out, vec![states[0].swap_axes(0, 1)?])),
                "its results differ by inf",
            ),
            (
                |out, states| Ok((out.as_dtype(Dtype::Bfloat16)?, states)),
                "its results differ by inf",
            ),
            (
                |_, _| Err(mlx_rs::error::Exception::custom("it does not compile")),
                "it does not compile",
            ),
        ];
        for (change, expected) in changes {
            let changed = |inputs: &Inputs, states: &[Array]| {
                let (out, states) = graph::compute(inputs, states)?;
                change(out, states)
            };
            let reason = check(SIZES, Dtype::Float32, changed).expect_err(expected);
            assert!(reason.starts_with(expected), "{reason}");
        }
    }
}
