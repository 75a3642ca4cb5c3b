//! Counters of the server, as Prometheus reads them.
//!
//! Rule: labels are routes, statuses and kinds. Nothing comes from a prompt, a key or a file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
        let mut counts = self.counts();
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
        let mut counts = self.counts();
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
        self.counts().constrained_tokens += n_tokens as u64;
    }

    /// Counts the tokens of embedded texts.
    pub(crate) fn count_embedded(&self, n_tokens: usize) {
        self.counts().prompt_tokens += n_tokens as u64;
    }

    /// Counts a request for responses until [`Metrics::count_closed`].
    pub(crate) fn count_opened(&self) {
        self.counts().open += 1;
    }

    /// Counts the end of a request for responses.
    pub(crate) fn count_closed(&self) {
        let mut counts = self.counts();
        counts.open = counts.open.saturating_sub(1);
    }

    /// Returns the number of open requests for responses.
    pub(crate) fn n_open(&self) -> u64 {
        self.counts().open
    }

    /// Counts a response whose client went away.
    pub(crate) fn count_canceled(&self) {
        self.counts().canceled += 1;
    }

    /// Returns the counters as text. `gauges` are names, help texts and present values.
    pub(crate) fn text(&self, gauges: &[(&str, &str, f64)]) -> String {
        let counts = self.counts();
        let mut text = String::new();
        head(
            &mut text,
            "requests_total",
            "counter",
            "Requests by route and status.",
        );
        for ((route, status), n) in &counts.requests {
            let labels = format!("{{route=\"{route}\",status=\"{status}\"}}");
            line(&mut text, "requests_total", &labels, *n as f64);
        }
        head(&mut text, "tokens_total", "counter", "Tokens by kind.");
        for (kind, n) in [
            ("prompt", counts.prompt_tokens),
            ("cached", counts.cached_tokens),
            ("generated", counts.generated_tokens),
            ("reasoning", counts.reasoning_tokens),
        ] {
            line(
                &mut text,
                "tokens_total",
                &format!("{{kind=\"{kind}\"}}"),
                n as f64,
            );
        }
        let help = "Generated tokens that had to match a constraint.";
        head(&mut text, "constrained_tokens_total", "counter", help);
        let n_constrained = counts.constrained_tokens as f64;
        line(&mut text, "constrained_tokens_total", "", n_constrained);
        let help = "Requests whose client went away.";
        head(&mut text, "canceled_total", "counter", help);
        line(&mut text, "canceled_total", "", counts.canceled as f64);
        let help = "Time before the engine started.";
        counts
            .queue
            .write(&mut text, "queue_seconds", help, &WAIT_BUCKETS);
        let help = "Time to the first text.";
        counts
            .first_token
            .write(&mut text, "ttft_seconds", help, &WAIT_BUCKETS);
        let help = "Mean time of a generated token of a response.";
        counts
            .token
            .write(&mut text, "token_seconds", help, &TOKEN_BUCKETS);
        let help = "Mean time to compute the tokens that a constraint allows, of a response.";
        counts
            .mask
            .write(&mut text, "mask_seconds", help, &MASK_BUCKETS);
        for (name, help, value) in gauges {
            // Several values of one name follow each other, with one head.
            let (base, labels) = name.split_at(name.find('{').unwrap_or(name.len()));
            if !text.contains(&format!("# TYPE transom_{base} ")) {
                head(&mut text, base, "gauge", help);
            }
            line(&mut text, base, labels, *value);
        }
        text
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn write(&self, text: &mut String, name: &str, help: &str, bounds: &[f64; N_BUCKETS]) {
        head(text, name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (n, bound) in self.buckets.iter().zip(bounds) {
            line(text, &bucket, &format!("{{le=\"{bound}\"}}"), *n as f64);
        }
        line(text, &bucket, "{le=\"+Inf\"}", self.count as f64);
        line(text, &format!("{name}_sum"), "", self.sum);
        line(text, &format!("{name}_count"), "", self.count as f64);
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "# HELP transom_{name} {help}\n# TYPE transom_{name} {kind}"
    );
}

fn line(text: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(text, "transom_{name}{labels} {value}");
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
        let text = metrics.text(&[
            ("model_loaded{model=\"a\"}", "Loaded.", 1.0),
            ("model_loaded{model=\"b\"}", "Loaded.", 1.0),
        ]);
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
