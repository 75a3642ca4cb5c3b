//! Asking, stopping, and what becomes of an answer.

use transom_window_tests::on_stage;

#[tokio::test]
async fn the_chat_opens_with_the_focus_in_the_composer() {
    on_stage("opens", async |stage| {
        let chat = stage.open().await?;
        chat.by("textbox", "").await?;
        Ok(())
    })
    .await;
}
