//! Compares the delta rule with its definition, computed element by element in f64.

use mlx_rs::Array;

use super::{DeltaRule, Inputs};

const HEADS: usize = 2;
const GROUPS: usize = 2;
const KEY: usize = 8;
const VALUE: usize = 4;

/// The inputs of one case, in the layout of [`Inputs`].
struct Case {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    log_decays: Vec<f32>,
    betas: Vec<f32>,
}

/// Pseudo-random numbers between -1 and 1, the same in every run.
fn noise(seed: usize, n: usize) -> Vec<f32> {
    let wave = |i: usize| ((i * 37 + seed * 101) as f32 * 0.618).sin() * 43_758.547;
    (0..n).map(|i| wave(i).fract()).collect()
}

fn unit_length(mut rows: Vec<f32>) -> Vec<f32> {
    for row in rows.chunks_mut(KEY) {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter_mut().for_each(|x| *x /= length);
    }
    rows
}

impl Case {
    /// Different tokens, some with a very strong decay.
    fn different(n_tokens: usize) -> Self {
        let wide = n_tokens * HEADS * GROUPS;
        let decay = |x: f32| if x > 0.9 { -30.0 } else { -x.abs() };
        Self {
            queries: unit_length(noise(1, n_tokens * HEADS * KEY)),
            keys: unit_length(noise(2, n_tokens * HEADS * KEY)),
            values: noise(3, wide * VALUE),
            log_decays: noise(4, wide).into_iter().map(decay).collect(),
            betas: noise(5, wide).into_iter().map(f32::abs).collect(),
        }
    }

    /// The same token in every position, with full correction and no decay: the system inside a
    /// chunk is as far from the identity as possible.
    fn repeated(n_tokens: usize) -> Self {
        let wide = n_tokens * HEADS * GROUPS;
        let key = unit_length(noise(2, KEY)).repeat(n_tokens * HEADS);
        Self {
            queries: key.clone(),
            keys: key,
            values: noise(3, wide * VALUE),
            log_decays: vec![0.0; wide],
            betas: vec![1.0; wide],
        }
    }

    fn n_tokens(&self) -> usize {
        self.keys.len() / HEADS / KEY
    }

    fn inputs(&self, start: usize, stop: usize) -> Inputs {
        let n_tokens = stop - start;
        let part = |all: &[f32], shape: &[usize]| {
            let size: usize = shape.iter().product();
            let shape: Vec<i32> = [&[n_tokens], shape]
                .concat()
                .iter()
                .map(|&n| n as i32)
                .collect();
            Array::from_slice(&all[start * size..stop * size], &shape)
        };
        Inputs {
            queries: part(&self.queries, &[HEADS, KEY]),
            keys: part(&self.keys, &[HEADS, KEY]),
            values: part(&self.values, &[HEADS * GROUPS, VALUE]),
            log_decays: part(&self.log_decays, &[HEADS * GROUPS]),
            betas: part(&self.betas, &[HEADS * GROUPS]),
        }
    }

    /// The output of each token by the definition.
    fn expected(&self) -> Vec<f64> {
        let n_tokens = self.n_tokens();
        let mut out = vec![0.0; n_tokens * HEADS * GROUPS * VALUE];
        for head in 0..HEADS * GROUPS {
            let mut state = [[0.0_f64; VALUE]; KEY];
            for token in 0..n_tokens {
                let at = token * HEADS * GROUPS + head;
                let shared = (token * HEADS + head / GROUPS) * KEY;
                let key = &self.keys[shared..shared + KEY];
                let query = &self.queries[shared..shared + KEY];
                let decay = f64::from(self.log_decays[at]).exp();
                let read = |state: &[[f64; VALUE]; KEY], by: &[f32], column: usize| -> f64 {
                    state
                        .iter()
                        .zip(by)
                        .map(|(row, &x)| row[column] * f64::from(x))
                        .sum()
                };
                state
                    .as_flattened_mut()
                    .iter_mut()
                    .for_each(|x| *x *= decay);
                for column in 0..VALUE {
                    let value = f64::from(self.values[at * VALUE + column]);
                    let error = value - read(&state, key, column);
                    let correction = f64::from(self.betas[at]) * error;
                    for (row, &x) in state.iter_mut().zip(key) {
                        row[column] += f64::from(x) * correction;
                    }
                    out[at * VALUE + column] = read(&state, query, column);
                }
            }
        }
        out
    }

    /// The output of each token, computed in steps of these sizes.
    fn computed(&self, steps: &[usize]) -> Vec<f32> {
        let rule = DeltaRule { language: None };
        let mut out = Vec::new();
        let mut state: Option<Array> = None;
        let mut start = 0;
        for &n_tokens in steps {
            let inputs = self.inputs(start, start + n_tokens);
            let (step, mut after) = rule.compute(&inputs, &[state]).expect("MLX");
            assert_eq!(step.shape()[0], n_tokens as i32);
            let step = step.contiguous().expect("contiguous");
            out.extend_from_slice(step.as_slice::<f32>());
            state = after.pop();
            start += n_tokens;
        }
        assert_eq!(start, self.n_tokens());
        out
    }

    fn check(&self, steps: &[usize]) {
        let computed = self.computed(steps);
        for (index, (a, b)) in computed.iter().zip(self.expected()).enumerate() {
            let error = (f64::from(*a) - b).abs();
            assert!(
                error < 2e-5,
                "steps {steps:?}, element {index}: {a} instead of {b}"
            );
        }
    }
}

#[test]
fn chunks_and_single_tokens_follow_the_definition() {
    for steps in [
        &[1][..],
        &[2],
        &[7],
        &[64],
        &[65],
        &[200],
        &[1, 1, 1],
        &[100, 1, 1, 30],
        &[3, 64, 1, 128],
    ] {
        Case::different(steps.iter().sum()).check(steps);
    }
}

#[test]
fn a_repeated_token_loses_no_precision() {
    Case::repeated(200).check(&[200]);
    Case::repeated(65).check(&[64, 1]);
}
