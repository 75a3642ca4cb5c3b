//! The icon in the panel and its menu, by real clicks.

use transom_window_tests::{on_stage_with_tray, until};

#[tokio::test]
async fn the_tray_icon_is_there_and_its_menu_opens_the_chat() {
    on_stage_with_tray("the_tray_icon", async |stage| {
        let chat = stage.open().await?;
        until("the icon is in the tray", async || {
            Ok(stage.desktop.tray_items()?.filter(|&n_items| n_items > 0))
        })
        .await?;
        stage.desktop.press("Escape")?;
        until("the chat is hidden", async || {
            Ok((!chat.has_keyboard().await?).then_some(()))
        })
        .await?;
        until("the menu's first item opens the chat", async || {
            // The only icon stands at the right end of the panel.
            stage.desktop.output(
                "xdotool",
                &[
                    "mousemove",
                    "1264",
                    "14",
                    "click",
                    "1",
                    "key",
                    "Down",
                    "key",
                    "Return",
                ],
            )?;
            Ok(chat.has_keyboard().await?.then_some(()))
        })
        .await
    })
    .await;
}
