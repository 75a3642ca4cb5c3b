//! Questions and answers.
//!
//! Rule: what is asked comes back as a name at once; the answer itself is followed. A page that goes
//! away stops following, and its answers go on.

use std::sync::Arc;

use tauri::ipc::Channel;
use tauri::{State, WebviewWindow};
use transom_chat::Update;
use transom_chat::turns::Begun;
use transom_store::{ConversationId, MessageId};

use crate::measuring;
use crate::models::{self, Asked};
use crate::rooms::Rooms;
use crate::shell::{Shell, blocking, guarded};
use crate::wire::{Refusal, Window};

type Done<T> = Result<T, Refusal>;

#[tauri::command]
pub(crate) async fn ask(
    shell: State<'_, Shell>,
    conversation: Option<ConversationId>,
    text: String,
    attachment: String,
    insist: bool,
) -> Done<Begun> {
    let (rooms, asked) = asking(&shell, insist).await?;
    guarded(async move {
        let (asking, measured) = measuring::of(&rooms, asked);
        let begun = rooms.turns.ask(conversation, &text, &attachment, asking);
        Ok(measured.follow(begun.await?))
    })
    .await
}

#[tauri::command]
pub(crate) async fn regenerate(
    shell: State<'_, Shell>,
    answer: MessageId,
    insist: bool,
) -> Done<Begun> {
    let (rooms, asked) = asking(&shell, insist).await?;
    guarded(async move {
        let (asking, measured) = measuring::of(&rooms, asked);
        Ok(measured.follow(rooms.turns.regenerate(answer, asking).await?))
    })
    .await
}

#[tauri::command]
pub(crate) async fn edit_message(
    shell: State<'_, Shell>,
    message: MessageId,
    text: String,
) -> Done<Begun> {
    let (rooms, asked) = asking(&shell, false).await?;
    guarded(async move {
        let (asking, measured) = measuring::of(&rooms, asked);
        Ok(measured.follow(rooms.turns.edit(message, &text, asking).await?))
    })
    .await
}

#[tauri::command]
pub(crate) async fn stop(shell: State<'_, Shell>, answer: MessageId) -> Done<()> {
    shell.rooms().await?.turns.stop(answer);
    Ok(())
}

#[tauri::command]
pub(crate) async fn follow(
    page: WebviewWindow,
    shell: State<'_, Shell>,
    answer: MessageId,
    updates: Channel<Update>,
) -> Done<u32> {
    let window = Window::of_label(page.label()).ok_or(Refusal::NotFound)?;
    let mut news = shell.rooms().await?.turns.follow(answer);
    Ok(shell.followers.join(window, async move {
        while let Some(update) = news.next().await {
            if updates.send(update).is_err() {
                break;
            }
        }
    }))
}

#[tauri::command]
pub(crate) async fn unfollow(shell: State<'_, Shell>, follower: u32) -> Done<()> {
    shell.followers.end(follower);
    Ok(())
}

/// The rooms, and what is asked of the model that is chosen now.
async fn asking(shell: &Shell, insist: bool) -> Done<(Arc<Rooms>, Asked)> {
    let rooms = shell.rooms().await?;
    let of = rooms.clone();
    let asked = blocking(move || models::asking(&of.library(), &of.settings(), insist));
    Ok((rooms, asked.await?))
}
