//! Tests of saved states through all layers: socket, driver, core, protocol, the child's own loop,
//! and files in the data folder.

use transom_engine::test_support::WEIGHT_BYTES;

use super::*;
use crate::test_support::n_saved_files;

/// Returns the number of files of saved KV caches: three of each conversation.
fn n_saved(data: &Path) -> usize {
    n_saved_files(&data.join("cache/saved-states"))
}

#[tokio::test]
async fn a_clients_conversation_continues_after_an_eviction() {
    let data = data_folder();
    let start = || {
        supervisor(
            paris_on_the_wire(),
            ScriptedSignals::default(),
            Tuning::default(),
        )
    };
    let owner = in_time(open(data.path(), start)).await.unwrap();
    let client = in_time(connect(data.path())).await.unwrap().unwrap();
    let n_kept = || n_saved(data.path());

    finish(&mut client.submit(generate_request("chat"))).await;
    client.set_tuning(Tuning {
        memory_budget_bytes: Some(WEIGHT_BYTES / 2),
        ..Tuning::default()
    });
    let status = status_where(&client, |status| status.models.is_empty()).await;
    assert_eq!(n_kept(), 3, "{:?}", status.last_unload);

    client.set_tuning(Tuning::default());
    finish(&mut client.submit(generate_request("chat"))).await;
    let status = status_where(&client, is_idle).await;
    let n_said = prompt_tokens() + 3;
    assert_eq!((status.models[0].saved_tokens, n_kept()), (n_said, 3));

    client.set_tuning(Tuning {
        memory_budget_bytes: Some(WEIGHT_BYTES / 2),
        ..Tuning::default()
    });
    status_where(&client, |status| status.models.is_empty()).await;
    assert_eq!(n_kept(), 3, "nothing is written again");
    in_time(owner.close()).await;
    assert_eq!(n_kept(), 0, "saved states contain private text");
}

/// Returns the number of tokens in the prompt of [`generate_request`]: the scripted engine counts
/// bytes.
fn prompt_tokens() -> usize {
    match generate_request("chat").work {
        Work::Generate(request) => match request.prompt {
            transom_engine::Prompt::Text(text) => text.len(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Prompts of the owner and of clients are handled in the same way.
#[tokio::test]
async fn a_client_can_delete_saved_conversations() {
    let data = data_folder();
    std::fs::create_dir(data.path().join("conversations")).unwrap();
    std::fs::write(data.path().join("conversations/old"), "text").unwrap();
    let start = || {
        supervisor(
            paris_on_the_wire(),
            ScriptedSignals::default(),
            Tuning::default(),
        )
    };
    let owner = in_time(open(data.path(), start)).await.unwrap();
    assert!(!data.path().join("conversations").exists(), "the old place");
    let client = in_time(connect(data.path())).await.unwrap().unwrap();
    let n_saved = || n_saved(data.path());
    let unload_saving = async || {
        client.set_tuning(Tuning {
            memory_budget_bytes: Some(WEIGHT_BYTES / 2),
            ..Tuning::default()
        });
        status_where(&client, |status| status.models.is_empty()).await;
        client.set_tuning(Tuning::default());
        // The reply follows all file operations.
        let nobody = ModelSelector::Model("nobody".to_owned());
        in_time(client.unload(nobody)).await.unwrap();
    };

    finish(&mut client.submit(generate_request("chat"))).await;
    unload_saving().await;
    assert_eq!(n_saved(), 3);
    client.forget_conversations(None);
    in_time(client.unload(ModelSelector::Model("nobody".to_owned())))
        .await
        .unwrap();
    assert_eq!(n_saved(), 0);

    finish(&mut client.submit(generate_request("chat"))).await;
    client.forget_conversations(None);
    unload_saving().await;
    assert_eq!(n_saved(), 0);
    in_time(owner.close()).await;
}
