//! The ground that the other tests stand on: a desktop of our own, and a browser on it.

use transom_window_tests::gallery::Gallery;
use transom_window_tests::{check, on_stage, processes, until};

#[tokio::test]
async fn a_desktop_of_our_own_takes_keys_and_leaves_nothing_behind() {
    let mut left = Vec::new();
    on_stage("the_desktop", async |stage| {
        let other = stage.desktop.command("xev");
        let other = stage.desktop.start_child(other, "start a program")?;
        until("its window has the focus", async || {
            let window = stage.desktop.active_window()?;
            Ok((!window.is_empty()).then_some(()))
        })
        .await?;
        let browser = Gallery::open(&mut stage.desktop).await?;
        browser.resize(500, 400).await?;
        left = stage.desktop.processes();
        check(left.iter().any(|process| process.pid == other), || {
            format!("a program is not among those of the desktop: {left:?}")
        })
    })
    .await;
    assert!(left.len() > 4, "{left:?}");
    left.retain(|process| processes::is_alive(process.pid));
    assert!(left.is_empty(), "{left:?}");
}
