//! A chat template that takes too much memory ends the process of its model, and only that.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/test_worker.rs"]
mod test_worker;

use transom_engine_host::WorkerEnd;

use test_worker::{TestWorker, workers};

#[tokio::test]
async fn a_template_that_takes_too_much_memory_ends_its_process() {
    let mut worker = TestWorker::start(&workers("doubling-template"));
    worker.send(engine::load());
    let WorkerEnd::Died { how, stderr_tail } = worker.end().await else {
        panic!("the process ends by itself");
    };
    assert_eq!(how, "exit code 5");
    let expected = "ERROR the chat template of the model took more than 1024 MB of memory";
    assert_eq!(stderr_tail, expected);
}
