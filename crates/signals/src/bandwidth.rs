//! Measures the memory bandwidth.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::hardware::Hardware;

/// Measures the bytes per second at which all performance cores together read memory. This limits
/// the decode speed of a model, because each token reads every weight once. Takes about half a
/// second and 256 MB.
///
/// The GPU of the same chip may reach more than the CPU.
pub fn measure_bandwidth() -> u64 {
    // Larger than every cache.
    const BYTES: usize = 256 << 20;
    const TIME: Duration = Duration::from_millis(400);
    let words = vec![1u64; BYTES / 8];
    let n_threads = Hardware::detect().n_performance_cores;
    let share = words.len().div_ceil(n_threads);
    let began = Instant::now();
    // Each thread reads its part repeatedly, so the time to start threads does not count.
    let read_for_a_while = |part: &[u64]| {
        let mut n_read = 0;
        while began.elapsed() < TIME {
            black_box(sum(part));
            n_read += size_of_val(part);
        }
        n_read
    };
    let n_read: usize = std::thread::scope(|scope| {
        let parts = words.chunks(share);
        let readers: Vec<_> = parts
            .map(|part| scope.spawn(move || read_for_a_while(part)))
            .collect();
        // A reader cannot panic; if one did, its bytes would not count.
        let read = readers.into_iter().map(|reader| reader.join().unwrap_or(0));
        read.sum()
    });
    (n_read as f64 / began.elapsed().as_secs_f64()) as u64
}

/// Sums with eight accumulators, so that the time is spent on reading.
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
    fn the_bandwidth_is_plausible() {
        let bandwidth = measure_bandwidth();
        assert!(
            (100_000_000..20_000_000_000_000).contains(&bandwidth),
            "{bandwidth}"
        );
    }
}
