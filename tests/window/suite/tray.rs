//! The icon in the panel and its menu, by real clicks.

use transom_window_tests::{on_stage_with_tray, until};

#[tokio::test]
async fn the_tray_icon_is_there_and_its_menu_opens_the_chat() {
    on_stage_with_tray("the_tray_icon", async |stage| {
        let chat = stage.open().await?;
        stage.desktop.press("Escape")?;
        until("the chat is hidden", async || {
            Ok((!chat.has_keyboard().await?).then_some(()))
        })
        .await?;
        stage.desktop.open_tray_menu().await?;
        stage.desktop.press("Down")?;
        stage.desktop.press("Return")?;
        until("the menu's first item opens the chat", async || {
            Ok(chat.has_keyboard().await?.then_some(()))
        })
        .await
    })
    .await;
}
