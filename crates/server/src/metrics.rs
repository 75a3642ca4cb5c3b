//! Counters of the server, as Prometheus reads them.
//!
//! Rule: labels are routes, statuses and kinds. Nothing comes from a prompt, a key or a file.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use transom_engine::Stats;

/// Number of buckets of a histogram, without the last one, which has no bound.
const N_BUCKETS: usize = 8;

/// Upper bounds of the buckets for waits and first tokens, in seconds.
const WAIT_BUCKETS: [f64; N_BUCKETS] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Upper bounds of the buckets for the time of one token, in seconds.
const TOKEN_BUCKETS: [f64; N_BUCKETS] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// Upper bounds of the buckets for the time of one mask, in seconds.
const MASK_BUCKETS: [f64; N_BUCKETS] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.003, 0.01,
];

/// Counts what the server does.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: BTreeMap<(String, u16), u64>,
    prompt_tokens: u64,
    cached_tokens: u64,
    generated_tokens: u64,
    reasoning_tokens: u64,
    constrained_tokens: u64,
    canceled: u64,
    open: u64,
    queue: Histogram,
    first_token: Histogram,
    token: Histogram,
    mask: Histogram,
}

/// Counts of values up to each bound.
#[derive(Debug, Default)]
struct Histogram {
    buckets: [u64; N_BUCKETS],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// Counts a request of a route, which ended with this status.
    pub(crate) fn count_request(&self, route: &str, status: u16) {
        let mut counts = self.counts.lock();
        *counts
            .requests
            .entry((route.to_owned(), status))
            .or_default() += 1;
    }

    /// Counts a response: its wait before the engine started, and its time until the first text.
    pub(crate) fn count_response(
        &self,
        stats: &Stats,
        reasoning_tokens: usize,
        wait: Duration,
        first_text: Option<Duration>,
    ) {
        let mut counts = self.counts.lock();
        counts.prompt_tokens += stats.prompt_tokens as u64;
        counts.cached_tokens += stats.cached_tokens as u64;
        counts.generated_tokens += stats.generated_tokens as u64;
        counts.reasoning_tokens += reasoning_tokens as u64;
        counts.queue.add(wait.as_secs_f64(), &WAIT_BUCKETS);
        if let Some(time) = first_text {
            counts.first_token.add(time.as_secs_f64(), &WAIT_BUCKETS);
        }
        if let Some(speed) = stats
            .decode_tokens_per_second()
            .filter(|speed| *speed > 0.0)
        {
            counts.token.add(1.0 / speed, &TOKEN_BUCKETS);
        }
        // The constraint begins after the reasoning, and has a mask for the end of the text, too.
        let n_masks = stats.generated_tokens.saturating_sub(reasoning_tokens) + 1;
        if !stats.mask_time.is_zero() {
            let seconds = stats.mask_time.as_secs_f64() / n_masks as f64;
            counts.mask.add(seconds, &MASK_BUCKETS);
        }
    }

    /// Counts the tokens of a response that a constraint chose from.
    pub(crate) fn count_constrained(&self, n_tokens: usize) {
        self.counts.lock().constrained_tokens += n_tokens as u64;
    }

    /// Counts the tokens of embedded texts.
    pub(crate) fn count_embedded(&self, n_tokens: usize) {
        self.counts.lock().prompt_tokens += n_tokens as u64;
    }

    /// Counts a request for responses until [`Metrics::count_closed`].
    pub(crate) fn count_opened(&self) {
        self.counts.lock().open += 1;
    }

    /// Counts the end of a request for responses.
    pub(crate) fn count_closed(&self) {
        let mut counts = self.counts.lock();
        counts.open = counts.open.saturating_sub(1);
    }

    /// Returns the number of open requests for responses.
    pub(crate) fn n_open(&self) -> u64 {
        self.counts.lock().open
    }

    /// Counts a response whose client went away.
    pub(crate) fn count_canceled(&self) {
        self.counts.lock().canceled += 1;
    }

    /// Returns the counters as text.
    pub(crate) fn text(&self) -> String {
        let counts = self.counts.lock();
        let requests = counts.requests.iter().map(|((route, status), n)| {
            let labels = format!("{{route=\"{route}\",status=\"{status}\"}}");
            (format!("requests_total{labels}"), *n as f64)
        });
        let tokens = [
            ("prompt", counts.prompt_tokens),
            ("cached", counts.cached_tokens),
            ("generated", counts.generated_tokens),
            ("reasoning", counts.reasoning_tokens),
        ];
        let tokens = tokens.map(|(kind, n)| (format!("tokens_total{{kind=\"{kind}\"}}"), n as f64));
        [
            family(
                "requests_total",
                "counter",
                "Requests by route and status.",
                requests,
            ),
            family("tokens_total", "counter", "Tokens by kind.", tokens),
            single(
                "constrained_tokens_total",
                "counter",
                "Generated tokens that had to match a constraint.",
                counts.constrained_tokens,
            ),
            single(
                "canceled_total",
                "counter",
                "Requests whose client went away.",
                counts.canceled,
            ),
            counts.queue.text(
                "queue_seconds",
                "Time before the engine started.",
                &WAIT_BUCKETS,
            ),
            counts
                .first_token
                .text("ttft_seconds", "Time to the first text.", &WAIT_BUCKETS),
            counts.token.text(
                "token_seconds",
                "Mean time of a generated token of a response.",
                &TOKEN_BUCKETS,
            ),
            counts.mask.text(
                "mask_seconds",
                "Mean time to compute the tokens that a constraint allows, of a response.",
                &MASK_BUCKETS,
            ),
        ]
        .concat()
    }
}

impl Histogram {
    fn add(&mut self, value: f64, bounds: &[f64; N_BUCKETS]) {
        self.count += 1;
        self.sum += value;
        for (bucket, bound) in self.buckets.iter_mut().zip(bounds) {
            *bucket += u64::from(value <= *bound);
        }
    }

    fn text(&self, name: &str, help: &str, bounds: &[f64; N_BUCKETS]) -> String {
        let bucket = |bound: &str, n: u64| (format!("{name}_bucket{{le=\"{bound}\"}}"), n as f64);
        let buckets = self.buckets.iter().zip(bounds);
        let buckets = buckets.map(|(n, bound)| bucket(&bound.to_string(), *n));
        let all = [
            bucket("+Inf", self.count),
            (format!("{name}_sum"), self.sum),
            (format!("{name}_count"), self.count as f64),
        ];
        family(name, "histogram", help, buckets.chain(all))
    }
}

/// Returns a metric as text. `help` says what it counts or measures. Its samples are names with labels, and
/// values.
pub(crate) fn family(
    name: &str,
    kind: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, f64)>,
) -> String {
    let head = format!("# HELP transom_{name} {help}\n# TYPE transom_{name} {kind}\n");
    let samples = samples.into_iter();
    let lines = samples.map(|(name, value)| format!("transom_{name} {value}\n"));
    head + &lines.collect::<String>()
}

/// Returns a metric with one sample, which has no labels.
pub(crate) fn single(name: &str, kind: &str, help: &str, value: u64) -> String {
    family(name, kind, help, [(name.to_owned(), value as f64)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_written_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        metrics.count_request("/v1/models", 200);
        metrics.count_request("/v1/models", 200);
        metrics.count_canceled();
        metrics.count_constrained(5);
        let stats = Stats {
            prompt_tokens: 7,
            generated_tokens: 3,
            decode_time: Duration::from_millis(80),
            mask_time: Duration::from_micros(210),
            ..Stats::default()
        };
        let wait = Duration::from_millis(200);
        metrics.count_response(&stats, 1, wait, Some(Duration::from_secs(100)));
        let loaded = ["a", "b"].map(|name| (format!("model_loaded{{model=\"{name}\"}}"), 1.0));
        let text = metrics.text() + &family("model_loaded", "gauge", "1 if loaded.", loaded);
        for expected in [
            "transom_requests_total{route=\"/v1/models\",status=\"200\"} 2\n",
            "transom_tokens_total{kind=\"prompt\"} 7\n",
            "transom_tokens_total{kind=\"reasoning\"} 1\n",
            "transom_constrained_tokens_total 5\n",
            "transom_canceled_total 1\n",
            "transom_queue_seconds_bucket{le=\"0.1\"} 0\n",
            "transom_queue_seconds_bucket{le=\"0.25\"} 1\n",
            "transom_ttft_seconds_bucket{le=\"60\"} 0\n",
            "transom_ttft_seconds_bucket{le=\"+Inf\"} 1\n",
            "transom_token_seconds_count 1\n",
            "transom_mask_seconds_bucket{le=\"0.00005\"} 0\n",
            "transom_mask_seconds_bucket{le=\"0.0001\"} 1\n",
            "transom_model_loaded{model=\"b\"} 1\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        assert_eq!(text.matches("# TYPE transom_model_loaded gauge").count(), 1);
    }
}
