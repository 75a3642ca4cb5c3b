//! Benchmarks as pages see them: the last results and the one that runs.

use serde::{Deserialize, Serialize};
use transom_bench::Benchmark;
use transom_bench::plot::Axes;
use ts_rs::TS;

/// The last results, and the benchmark that runs.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct BenchmarksView {
    /// The newest first, one of each kind for each model.
    pub results: Vec<BenchmarkView>,
    /// The benchmark that the app runs now.
    pub running: Option<BenchmarkProgress>,
}

/// A result, with what a page needs to draw it.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct BenchmarkView {
    /// Identifies it for commands.
    pub key: String,
    /// The result.
    pub benchmark: Benchmark,
    /// The axes of speeds over time; `None` for other results.
    pub axes: Option<Axes>,
}

impl From<Benchmark> for BenchmarkView {
    fn from(benchmark: Benchmark) -> Self {
        Self {
            key: benchmark.key(),
            axes: benchmark.axes(),
            benchmark,
        }
    }
}

/// A benchmark in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct BenchmarkProgress {
    /// Display name of the model.
    pub model: String,
    /// The engine that is measured; `None` while its files are loaded.
    pub engine: Option<String>,
    /// Seconds that were measured, in all engines.
    pub seconds: u64,
    /// Seconds to measure, in all engines.
    pub total_seconds: u64,
}

/// The file format of an exported result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum BenchmarkFormat {
    /// The plot as an image.
    Svg,
    /// All numbers.
    Json,
}
