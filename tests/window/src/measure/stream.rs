//! Measures the cost of drawing a streamed response: CPU time of the page's process, at fixed
//! rates, after an empty and after a long response. It runs in the browser, where the rate can be
//! set.
//!
//! The rate is in words; the gallery sends as many words as an engine sends tokens.

use super::Figure;
use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome, until};
use crate::gallery::Gallery;
use crate::processes;

/// About 50 kB.
const LONG: u32 = 8_000;

pub(super) async fn measure() -> Outcome<Vec<Figure>> {
    let mut figures = Vec::new();
    for (rate, n_words) in [(50, 1_200), (500, 9_000)] {
        for initial in [0, LONG] {
            let mut desktop = Desktop::start().await?;
            let gallery = Gallery::open(&mut desktop).await?;
            gallery.resize(460, 680).await?;
            gallery.stream(rate, initial).await?;
            let thirds = costs(&desktop, &gallery, n_words).await?;
            let kb = if initial == 0 { 0 } else { 50 };
            let what = format!("drawing 1,000 tokens at {rate}/s after {kb} kB, by thirds");
            figures.push(Figure::new(what, "ms of CPU", thirds));
        }
    }
    Ok(figures)
}

/// Returns the CPU time per 1,000 words, for each third of the stream.
async fn costs(desktop: &Desktop, gallery: &Gallery, n_words: u32) -> Outcome<Vec<f64>> {
    let pages = desktop.processes_named(Gallery::PAGE_PROCESS);
    let cpu = || -> f64 {
        let times = pages
            .iter()
            .filter_map(|page| processes::cpu_time(page.pid));
        times.map(|time| time.as_secs_f64() * 1000.0).sum()
    };
    let initial = until("the response has started", async || {
        Ok(Some(gallery.n_words().await?))
    })
    .await?;
    let mut marks = vec![(initial, cpu())];
    for third in 1..=3 {
        let wanted = initial + n_words * third / 3;
        let now = until("the response grows", async || {
            let now = gallery.n_words().await?;
            let seen = Failure::Wrong(format!("{now} words are there"));
            (now >= wanted).then_some(Some(now)).ok_or(seen)
        })
        .await?;
        marks.push((now, cpu()));
    }
    let cost =
        |pair: &[(u32, f64)]| (pair[1].1 - pair[0].1) * 1000.0 / f64::from(pair[1].0 - pair[0].0);
    Ok(marks.windows(2).map(cost).collect())
}
