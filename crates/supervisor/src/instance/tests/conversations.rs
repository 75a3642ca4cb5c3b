//! A conversation on its whole road: socket, driver, core, wire, the child's own loop, and a file in
//! the data folder.

use transom_engine::test_support::WEIGHT_BYTES;

use super::*;

#[tokio::test]
async fn a_guests_conversation_goes_on_after_its_model_made_room() {
    let data = data_folder();
    let start = || {
        supervisor(
            paris_on_the_wire(),
            ScriptedSignals::default(),
            Tuning::default(),
        )
    };
    let owner = in_time(open(data.path(), start)).await.unwrap();
    let guest = in_time(connect(data.path())).await.unwrap().unwrap();
    let n_kept = || {
        let folder = std::fs::read_dir(data.path().join("conversations"));
        folder.unwrap().count()
    };

    finish(&mut guest.ask(ask("chat"))).await;
    guest.tune(Tuning {
        memory_budget_bytes: Some(WEIGHT_BYTES / 2),
        ..Tuning::default()
    });
    let status = status_where(&guest, |status| status.models.is_empty()).await;
    assert_eq!(n_kept(), 1, "{:?}", status.last_unload);

    guest.tune(Tuning::default());
    finish(&mut guest.ask(ask("chat"))).await;
    let status = status_where(&guest, is_idle).await;
    let n_said = ask_tokens() + 3;
    assert_eq!((status.models[0].restored_tokens, n_kept()), (n_said, 0));

    guest.tune(Tuning {
        memory_budget_bytes: Some(WEIGHT_BYTES / 2),
        ..Tuning::default()
    });
    status_where(&guest, |status| status.models.is_empty()).await;
    assert_eq!(n_kept(), 1);
    in_time(owner.close()).await;
    assert_eq!(n_kept(), 0, "it is private text");
}

/// Tokens of the prompt that [`ask`] asks: the scripted engine counts bytes.
fn ask_tokens() -> usize {
    match ask("chat").work {
        Work::Generate(request) => match request.prompt {
            transom_engine::Prompt::Text(text) => text.len(),
            other => panic!("{other:?}"),
        },
        Work::Load => panic!("an ask for an answer"),
    }
}
