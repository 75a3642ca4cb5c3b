//! Connects and disconnects hundreds of clients. This test has its own program, because it counts
//! the resources of the process.

use std::time::Duration;

use transom_signals::ScriptedSignals;
use transom_supervisor::instance::{self, Connection};
use transom_supervisor::test_support::{
    ScriptedWorkers, WorkerScript, generate_request, supervisor,
};
use transom_supervisor::{ResponseEvent, Tuning};

const N_CLIENTS: usize = 300;

fn n_descriptors() -> usize {
    let folder = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd"));
    folder.expect("the system lists them").count()
}

fn n_tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// Waits until tasks that are ending have ended.
async fn until_there_are(n_wanted: usize) {
    let fewer = async {
        while n_tasks() > n_wanted {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(60), fewer).await;
    assert!(gone.is_ok(), "{} tasks are left, not {n_wanted}", n_tasks());
}

#[tokio::test]
async fn clients_that_come_and_go_leak_nothing() {
    let data = tempfile::tempdir().unwrap();
    let workers = ScriptedWorkers::all(WorkerScript {
        load_time: Duration::ZERO,
        token_interval: Duration::from_millis(1),
        ..WorkerScript::default()
    });
    let start = || {
        supervisor(
            workers.clone(),
            ScriptedSignals::default(),
            Tuning::default(),
        )
    };
    let owner = instance::open(data.path(), start).await.unwrap();
    assert!(owner.is_own());
    let mut before = None;
    for number in 0..N_CLIENTS {
        let client = instance::open(data.path(), || panic!("there is an owner"));
        let client = client.await.unwrap();
        let mut response = client.handle().submit(generate_request("chat"));
        // Every third client disconnects in the middle of its response.
        while let Some(event) = response.next().await {
            if number % 3 == 0 && matches!(event, ResponseEvent::Token { .. }) {
                break;
            }
        }
        drop(response);
        Connection::close(client).await;
        match before {
            None => {
                // These tasks stay: the owner's driver, saved states and socket, the worker, and
                // two that forward its messages.
                until_there_are(6).await;
                before = Some((n_tasks(), n_descriptors()));
            }
            Some((n_tasks, _)) => until_there_are(n_tasks).await,
        }
    }
    assert_eq!(before, Some((n_tasks(), n_descriptors())));
    assert_eq!(owner.n_remote_requests(), 0);
    assert_eq!(workers.n_started(), 1);
    owner.close().await;
    until_there_are(0).await;
    assert_eq!(workers.n_alive(), 0);
}
