//! How fast memory delivers, measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::hardware::Hardware;

/// Bytes a second at which all performance cores together read memory, which bounds how fast a
/// model can decode: each token reads every weight once. Takes about half a second and 256 MB.
///
/// A CPU's figure: the GPU of the same chip may reach more.
pub fn measure_bandwidth() -> u64 {
    // Beyond every cache that a machine of today has.
    const BYTES: usize = 256 << 20;
    const TIME: Duration = Duration::from_millis(400);
    let words = vec![1u64; BYTES / 8];
    let n_threads = Hardware::detect().n_performance_cores;
    let share = words.len().div_ceil(n_threads);
    let began = Instant::now();
    let mut n_rounds = 0;
    while began.elapsed() < TIME {
        std::thread::scope(|scope| {
            for part in words.chunks(share) {
                scope.spawn(move || black_box(sum(part)));
            }
        });
        n_rounds += 1;
    }
    (BYTES as f64 * f64::from(n_rounds) / began.elapsed().as_secs_f64()) as u64
}

/// Eight sums side by side, so that reading is what takes the time.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0u64; 8];
    for chunk in words.chunks_exact(8) {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_delivers_something_between_a_slow_disk_and_a_data_centre() {
        let bandwidth = measure_bandwidth();
        assert!(
            (100_000_000..20_000_000_000_000).contains(&bandwidth),
            "{bandwidth}"
        );
    }
}
