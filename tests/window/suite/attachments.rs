//! Documents that are attached to a message.

use std::fs;
use std::path::{Path, PathBuf};

use transom_window_tests::drag::Drag;
use transom_window_tests::programs::checkout;
use transom_window_tests::{Failure, Outcome, Page, TestSetup, check, run_test, until};

use crate::{actions, archives};

/// The size of the text of a document that is some kilobytes in a file.
const EXPANDED_BYTES: usize = 32 << 20;

/// Returns the path of a document that another program wrote.
fn document(name: &str) -> PathBuf {
    let folder = "crates/document-reader/tests/fixtures/files";
    checkout().join(folder).join(name)
}

/// Opens the chat and drops a document on it.
async fn open_and_drop(setup: &mut TestSetup, document: &Path) -> Outcome<Page> {
    let name = document.file_name().unwrap_or_default().display();
    let chat = setup.open().await?;
    until("the chat has the keyboard", async || {
        Ok(chat.has_keyboard().await?.then_some(()))
    })
    .await?;
    let drag = Drag::over(&setup.desktop, document).await?;
    chat.until_says(&format!("Drop {name} to attach its text"))
        .await?;
    drag.drop().await?;
    Ok(chat)
}

#[tokio::test]
async fn a_dropped_pdf_is_attached_with_its_tokens_and_sent() {
    run_test("a_pdf_is_dropped", async |setup| {
        let chat = open_and_drop(setup, &document("crazyones.pdf")).await?;
        let chip = r"^crazyones\.pdf \d+ tokens$";
        chat.by("button", chip).await?;
        chat.until_says(r"\d+ used . [\d,]+ left").await?;
        actions::ask(&chat, "What is it about?").await?;
        // Before the response is so long that the question is scrolled out and not in the page.
        until("the question is shown", async || {
            let questions = actions::questions(&chat).await?;
            let seen = Failure::Wrong(format!("the questions are {questions:?}"));
            let is_shown = questions == ["What is it about?"];
            is_shown.then_some(Some(())).ok_or(seen)
        })
        .await?;
        chat.until_gone("button", r"^Remove crazyones\.pdf$")
            .await?;
        actions::until_written(&chat, 1).await?;
        // A question about a document is not greedy, so the starter may not come to an end.
        setup.desktop.press("ctrl+period")?;
        actions::until_ended(&chat).await?;

        // It is stored with the message.
        let chat = setup.restart().await?;
        actions::open_from_history(&chat, "What is it about").await?;
        chat.click("button", chip).await?;
        chat.until_says("The round pegs in the square holes")
            .await
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn an_encrypted_pdf_is_refused_with_the_reason() {
    run_test("an_encrypted_pdf_is_dropped", async |setup| {
        let name = "libreoffice-writer-password.pdf";
        let chat = open_and_drop(setup, &document(name)).await?;
        chat.by("alert", &format!("^{name}: .*protected by a password"))
            .await?;
        check(chat.find("button", " tokens$").await?.is_none(), || {
            "a document without text is attached".into()
        })?;
        chat.click("button", &format!("^Remove {name}$")).await?;
        chat.until_gone("alert", name).await?;
        actions::ask_to_the_end(&chat, "What is a haiku?")
            .await
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_document_that_expands_without_end_is_refused_while_the_user_types() {
    run_test("a_zip_bomb_is_dropped", async |setup| {
        let mut text = b"<w:document xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\"><w:body><w:p><w:r><w:t>".to_vec();
        text.resize(EXPANDED_BYTES, b'a');
        text.extend(b"</w:t></w:r></w:p></w:body></w:document>");
        let kind = "wordprocessingml.document";
        let bomb = archives::office(kind, "word/document.xml", &text, &[]);
        let folder = tempfile::tempdir().map_err(Failure::doing("make a folder"))?;
        let path = folder.path().join("bomb.docx");
        fs::write(&path, bomb).map_err(Failure::doing("write the document"))?;

        let chat = open_and_drop(setup, &path).await?;
        let composer = chat.by("textbox", "^Message$").await?;
        composer.send_keys("What is a haiku?").await?;
        chat.by("alert", r"^bomb\.docx: This file is damaged").await?;
        check(chat.find("button", " tokens$").await?.is_none(), || {
            "a document without text is attached".into()
        })?;
        chat.click("button", r"^Remove bomb\.docx$").await?;
        let typed = composer.prop("value").await?.unwrap_or_default();
        check(typed == "What is a haiku?", || {
            format!("the composer has “{typed}”")
        })
    })
    .await;
}
