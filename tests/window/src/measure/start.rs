//! Measures the time from the start of the process until its icon is in the tray.

use std::time::Instant;

use super::Figure;
use crate::desktop::Desktop;
use crate::failure::{Outcome, until};
use crate::programs;

pub(super) async fn measure(n_rounds: usize) -> Outcome<Vec<Figure>> {
    let mut rounds = Vec::new();
    for _ in 0..n_rounds {
        let mut desktop = Desktop::start().await?;
        desktop.start_panel().await?;
        until("the panel's tray is ready", async || {
            Ok(desktop.tray_items()?.map(drop))
        })
        .await?;
        let mut app = desktop.command(programs::ours("transom-app")?);
        app.arg("--hidden");
        let started = Instant::now();
        desktop.start_child(app, "start the app")?;
        until("the icon is in the tray", async || {
            Ok(desktop.tray_items()?.filter(|&n_items| n_items > 0))
        })
        .await?;
        rounds.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    let what = "start of the process to the icon in the tray";
    Ok(vec![Figure::new(what, "ms", rounds)])
}
