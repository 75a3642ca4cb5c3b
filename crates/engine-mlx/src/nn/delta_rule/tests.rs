//! The delta rule against its definition, computed number by number in f64.

use mlx_rs::Array;

use super::{Inputs, delta_rule};

const HEADS: usize = 2;
const GROUPS: usize = 2;
const KEY: usize = 8;
const VALUE: usize = 4;

/// Numbers of one case, in the layout of [`Inputs`].
struct Case {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    log_decays: Vec<f32>,
    strengths: Vec<f32>,
}

/// Numbers between -1 and 1 that look random and are always the same.
fn noise(seed: usize, n: usize) -> Vec<f32> {
    let wave = |i: usize| ((i * 37 + seed * 101) as f32 * 0.618).sin() * 43_758.547;
    (0..n).map(|i| wave(i).fract()).collect()
}

fn unit(mut rows: Vec<f32>) -> Vec<f32> {
    for row in rows.chunks_mut(KEY) {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter_mut().for_each(|x| *x /= length);
    }
    rows
}

impl Case {
    /// Diverse tokens, of which some are forgotten at once.
    fn diverse(n_tokens: usize) -> Self {
        let wide = n_tokens * HEADS * GROUPS;
        let decay = |x: f32| if x > 0.9 { -30.0 } else { -x.abs() };
        Self {
            queries: unit(noise(1, n_tokens * HEADS * KEY)),
            keys: unit(noise(2, n_tokens * HEADS * KEY)),
            values: noise(3, wide * VALUE),
            log_decays: noise(4, wide).into_iter().map(decay).collect(),
            strengths: noise(5, wide).into_iter().map(f32::abs).collect(),
        }
    }

    /// One token again and again that corrects in full and forgets nothing: the system inside a
    /// chunk is as far from the identity as it gets.
    fn repeated(n_tokens: usize) -> Self {
        let wide = n_tokens * HEADS * GROUPS;
        let key = unit(noise(2, KEY)).repeat(n_tokens * HEADS);
        Self {
            queries: key.clone(),
            keys: key,
            values: noise(3, wide * VALUE),
            log_decays: vec![0.0; wide],
            strengths: vec![1.0; wide],
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
            strengths: part(&self.strengths, &[HEADS * GROUPS]),
        }
    }

    /// What each token reads, by the definition.
    fn expected(&self) -> Vec<f64> {
        let n_tokens = self.n_tokens();
        let mut out = vec![0.0; n_tokens * HEADS * GROUPS * VALUE];
        for head in 0..HEADS * GROUPS {
            let mut memory = [[0.0_f64; VALUE]; KEY];
            for token in 0..n_tokens {
                let at = token * HEADS * GROUPS + head;
                let shared = (token * HEADS + head / GROUPS) * KEY;
                let key = &self.keys[shared..shared + KEY];
                let query = &self.queries[shared..shared + KEY];
                let decay = f64::from(self.log_decays[at]).exp();
                let read = |memory: &[[f64; VALUE]; KEY], by: &[f32], column: usize| -> f64 {
                    memory
                        .iter()
                        .zip(by)
                        .map(|(row, &x)| row[column] * f64::from(x))
                        .sum()
                };
                memory
                    .as_flattened_mut()
                    .iter_mut()
                    .for_each(|x| *x *= decay);
                for column in 0..VALUE {
                    let value = f64::from(self.values[at * VALUE + column]);
                    let missing = value - read(&memory, key, column);
                    let correction = f64::from(self.strengths[at]) * missing;
                    for (row, &x) in memory.iter_mut().zip(key) {
                        row[column] += f64::from(x) * correction;
                    }
                    out[at * VALUE + column] = read(&memory, query, column);
                }
            }
        }
        out
    }

    /// What each token reads when tokens come in pieces of these sizes.
    fn found(&self, pieces: &[usize]) -> Vec<f32> {
        let mut out = Vec::new();
        let mut memory: Option<Array> = None;
        let mut start = 0;
        for &n_tokens in pieces {
            let inputs = self.inputs(start, start + n_tokens);
            let (read, after) = delta_rule(&inputs, memory.as_ref()).expect("MLX");
            assert_eq!(read.shape()[0], n_tokens as i32);
            let read = read.contiguous().expect("contiguous");
            out.extend_from_slice(read.as_slice::<f32>());
            memory = Some(after);
            start += n_tokens;
        }
        assert_eq!(start, self.n_tokens());
        out
    }

    fn check(&self, pieces: &[usize]) {
        let found = self.found(pieces);
        for (place, (a, b)) in found.iter().zip(self.expected()).enumerate() {
            let error = (f64::from(*a) - b).abs();
            assert!(
                error < 2e-5,
                "pieces {pieces:?}, number {place}: {a} against {b}"
            );
        }
    }
}

#[test]
fn chunks_and_single_tokens_are_what_the_definition_says() {
    for pieces in [
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
        Case::diverse(pieces.iter().sum()).check(pieces);
    }
}

#[test]
fn a_token_said_again_and_again_costs_no_precision() {
    Case::repeated(200).check(&[200]);
    Case::repeated(65).check(&[64, 1]);
}
