//! The tray icon and its menu, with real clicks.

use transom_window_tests::{run_test_with_tray, until};

#[tokio::test]
async fn the_tray_icon_exists_and_its_menu_opens_the_chat() {
    run_test_with_tray("the_tray_icon", async |setup| {
        let chat = setup.open().await?;
        setup.desktop.press("Escape")?;
        until("the chat is hidden", async || {
            Ok((!chat.has_keyboard().await?).then_some(()))
        })
        .await?;
        setup.desktop.open_tray_menu().await?;
        setup.desktop.press("Down")?;
        setup.desktop.press("Return")?;
        until("the menu's first item opens the chat", async || {
            Ok(chat.has_keyboard().await?.then_some(()))
        })
        .await
    })
    .await;
}
