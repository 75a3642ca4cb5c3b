//! Tests of the test environment: a separate desktop, and a browser on it.

use transom_window_tests::gallery::Gallery;
use transom_window_tests::{check, processes, run_test, until};

#[tokio::test]
async fn a_test_desktop_takes_keys_and_leaves_no_process() {
    let mut left = Vec::new();
    run_test("the_desktop", async |setup| {
        let other = setup.desktop.command("xev");
        let other = setup.desktop.start_child(other, "start a program")?;
        until("its window has the focus", async || {
            let window = setup.desktop.active_window()?;
            Ok((!window.is_empty()).then_some(()))
        })
        .await?;
        let browser = Gallery::open(&mut setup.desktop).await?;
        browser.resize(500, 400).await?;
        left = setup.desktop.processes();
        check(left.iter().any(|process| process.pid == other), || {
            format!("a program is not among those of the desktop: {left:?}")
        })
    })
    .await;
    assert!(left.len() > 4, "{left:?}");
    left.retain(|process| processes::is_alive(process.pid));
    assert!(left.is_empty(), "{left:?}");
}
