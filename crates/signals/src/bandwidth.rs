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
    // Each goes over its own part again and again, so that starting threads costs nothing.
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
        // A reader cannot panic; if one did, what it read would count for nothing.
        let read = readers.into_iter().map(|reader| reader.join().unwrap_or(0));
        read.sum()
    });
    (n_read as f64 / began.elapsed().as_secs_f64()) as u64
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
