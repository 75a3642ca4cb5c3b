//! What drawing a streamed answer costs: processor time of the page's process, at fixed rates, with
//! an empty and with a long answer before; in the browser, where the rate can be chosen.

use serde_json::json;

use super::Figure;
use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome, until};
use crate::gallery::{Gallery, Look};
use crate::processes;

/// Tokens to stream for a figure.
const N_TOKENS: u32 = 3000;

pub(super) async fn measure() -> Outcome<Vec<Figure>> {
    let mut figures = Vec::new();
    for rate in [50_u32, 500] {
        for begun_kb in [0_u32, 50] {
            let n_tokens = if rate < 100 { N_TOKENS / 3 } else { N_TOKENS };
            let mut desktop = Desktop::start().await?;
            let gallery = Gallery::open(&mut desktop).await?;
            gallery.resize(460, 680).await?;
            let query = format!("stream&rate={rate}&begun={begun_kb}&tokens={n_tokens}");
            gallery.show(&query, Look::Light).await?;
            let thirds = costs(&desktop, &gallery, n_tokens).await?;
            let what = format!("drawing 1,000 tokens at {rate}/s after {begun_kb} kB");
            figures.push(Figure::new(what, "ms of CPU", thirds));
        }
    }
    Ok(figures)
}

/// Processor time for 1,000 tokens, in each third of the answer.
async fn costs(desktop: &Desktop, gallery: &Gallery, n_tokens: u32) -> Outcome<Vec<f64>> {
    let pages = desktop.processes_named(Gallery::PAGE_PROCESS);
    let cpu = || -> f64 {
        let times = pages
            .iter()
            .filter_map(|page| processes::cpu_time(page.pid));
        times.map(|time| time.as_secs_f64() * 1000.0).sum()
    };
    let mut marks = Vec::new();
    for third in 0..=3 {
        let wanted = n_tokens * third / 3;
        until("the answer grows", async || {
            let written = gallery
                .run("return window.__written ?? -1;", vec![])
                .await?;
            let is_there = written.as_i64().is_some_and(|n| n >= i64::from(wanted));
            is_there
                .then_some(Some(()))
                .ok_or(Failure::Wrong(format!("{written} tokens are written")))
        })
        .await?;
        marks.push(cpu());
        if third == 0 {
            gallery.run("window.__go?.();", vec![json!(null)]).await?;
        }
    }
    let per_third = f64::from(n_tokens) / 3.0;
    Ok(marks
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) * 1000.0 / per_third)
        .collect())
}
