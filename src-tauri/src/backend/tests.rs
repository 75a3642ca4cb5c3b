use std::path::Path;

use transom_engine::test_support::{Script, ScriptedEngine};
use transom_engine::{ConversationId, Engine, GenerationParams, Prompt, Truncation};
use transom_engine_host::ThreadWorkers;
use transom_engine_host::wire::Request;
use transom_library::LoadSettings;
use transom_library::test_support::{computer, library};
use transom_signals::{ScriptedSignals, SystemSignals};
use transom_supervisor::{
    ClientId, MemorySecrets, ModelRequest, Outcome, ResponseEvent, SavingLimits, Work,
};

use super::*;

type Start = Box<dyn Fn() -> Supervisor>;

/// Sends the same chat as always. Returns the tokens of its prompt that were in the KV cache.
async fn cached_tokens(handle: &Handle) -> usize {
    let library = library(Path::new("/nowhere"), computer());
    let model = library.resolve("./scripted").unwrap();
    let request = Request {
        prompt: Prompt::Text("What is the capital of France?".to_owned()),
        truncation: Truncation::Disabled,
        params: GenerationParams {
            conversation: Some(ConversationId(1)),
            ..GenerationParams::default()
        },
    };
    let mut response = handle.submit(ModelRequest::new(
        ClientId::app(),
        library.spec(&model, &LoadSettings::default()),
        Work::Generate(Box::new(request)),
    ));
    while let Some(event) = response.next().await {
        match event {
            ResponseEvent::Ended {
                outcome: Outcome::Finished { stats, .. },
            } => return stats.cached_tokens,
            ResponseEvent::Ended { outcome } => panic!("{outcome:?}"),
            _ => {}
        }
    }
    panic!("the response has no end");
}

/// Runs `work` with a data folder and what starts a supervisor on it, with the same keys each time.
fn with_supervisors<F: Future<Output = ()>>(work: impl FnOnce(PathBuf, Start) -> F) {
    let data = tempfile::tempdir().unwrap();
    let saving = Saving {
        limits: SavingLimits::on_a_large_disk(),
        secrets: Some(Arc::new(MemorySecrets::default())),
    };
    let start = move || {
        let engines = || -> Vec<Box<dyn Engine>> {
            let script = Script::responding(["Paris"]);
            vec![Box::new(ScriptedEngine { script })]
        };
        let workers = Arc::new(ThreadWorkers::new(engines));
        let signals = Arc::new(ScriptedSignals::new(SystemSignals::default()));
        let hardware = Hardware::detect();
        let supervisor = Supervisor::start(workers, signals, &hardware, Tuning::default());
        supervisor.with_saving(saving.clone())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .unwrap()
        .block_on(work(data.path().to_owned(), Box::new(start)));
}

#[test]
fn a_chat_continues_after_the_app_has_quit() {
    with_supervisors(|data, start| async move {
        let connection = instance::open(&data, &start).await.unwrap();
        assert_eq!(cached_tokens(&connection.handle()).await, 0);
        close_connection(connection).await;
        let connection = instance::open(&data, &start).await.unwrap();
        assert!(cached_tokens(&connection.handle()).await > 0);
        close_connection(connection).await;
    });
}

#[test]
fn a_chat_that_is_deleted_between_two_supervisors_does_not_continue() {
    with_supervisors(|data, start| async move {
        let connection = instance::open(&data, &start).await.unwrap();
        let ended = connection.handle();
        cached_tokens(&ended).await;
        close_connection(connection).await;
        let forgotten = Forgotten::default();
        forgotten.forget(Some(ConversationId(1)), || ended);
        let connection = instance::open(&data, &start).await.unwrap();
        forgotten.repeat(&connection.handle());
        assert_eq!(cached_tokens(&connection.handle()).await, 0);
        close_connection(connection).await;
    });
}
