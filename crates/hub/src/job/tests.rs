//! Runs a job with 500 random sequences of faults of all kinds, and crashes at any await point.
//!
//! Rule: each job ends with a complete and verified model, or with an error and part files that a
//! run without faults completes. No wrong file is ever in its final place. A failing seed is
//! printed.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::join_all;
use tempfile::TempDir;

use super::*;
use crate::test_support::{Fault as InjectedFault, LimitedDisk, LocalHub, Route};
use crate::{RequestedFile, RetryOptions};

const REPOSITORY: &str = "owner/model";
const N_SCHEDULES: u64 = 500;
const AT_ONCE: u64 = 10;

/// A random sequence of faults.
struct FaultSchedule {
    seed: u64,
    rng: fastrand::Rng,
    hub: LocalHub,
    folder: TempDir,
    request: DownloadRequest,
    can_change: bool,
    log: String,
}

impl FaultSchedule {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let hub = LocalHub::start().unwrap();
        let folder = temp_folder();
        let mut files = Vec::new();
        for (name, size) in [
            ("config.json", 1..900),
            ("tokenizer.json", 1000..4000),
            ("model.safetensors", 3000..60_000),
        ] {
            let bytes: Vec<u8> = (0..rng.usize(size)).map(|_| rng.u8(..)).collect();
            files.push(RequestedFile::named(name));
            hub.put(REPOSITORY, name, bytes);
        }
        let request = DownloadRequest {
            key: format!("model {seed}"),
            name: "Model".to_owned(),
            repository: REPOSITORY.to_owned(),
            revision: "main".to_owned(),
            files: if rng.bool() { files } else { Vec::new() },
            folder: folder.path().join("models/owner/model"),
        };
        let can_change = rng.u8(0..4) == 0;
        Self {
            seed,
            rng,
            hub,
            folder,
            request,
            can_change,
            log: String::new(),
        }
    }

    fn fault(&mut self) -> InjectedFault {
        let rng = &mut self.rng;
        match rng.u8(0..12) {
            0 => InjectedFault::Refuse,
            1..=4 => InjectedFault::Drop(rng.u64(0..40_000)),
            5 => InjectedFault::Status(*rng.choice(&[500, 502, 503, 504]).unwrap(), None),
            6 => InjectedFault::Status(429, Some(0).filter(|_| rng.bool())),
            7 => InjectedFault::Status(*rng.choice(&[401, 403, 404, 416]).unwrap(), None),
            8 => InjectedFault::Length(rng.i64(-2000..2000)),
            9 => InjectedFault::WrongBytes,
            10 => InjectedFault::IgnoreRange,
            _ if self.can_change => InjectedFault::Change,
            _ => InjectedFault::ExpireLinks,
        }
    }

    /// Runs the job with the current faults, and drops it after `n_polls` polls if given.
    async fn run(&mut self, is_clean: bool, n_polls: Option<u32>) -> Option<Result<(), HubError>> {
        let mut options = DownloadsOptions::in_folder(self.folder.path().join("parts"));
        options.piece_bytes = self.rng.u64(1500..20_000);
        options.connections_per_file = self.rng.usize(1..5);
        options.spare_bytes = 0;
        if !is_clean && self.rng.u8(0..8) == 0 {
            let disk = LimitedDisk::with_free_bytes(self.rng.u64(0..80_000));
            disk.report_free_bytes(self.rng.u64(0..100_000));
            self.log += &format!("{disk:?}; ");
            options.disk = Arc::new(disk);
        }
        options.retry = RetryOptions {
            initial_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(4),
            max_attempts: if is_clean { 1000 } else { 4 },
        };
        let hub = self.hub.hub().unwrap();
        let (sender, _receiver) = mpsc::unbounded_channel();
        let (_control_sender, control) = watch::channel(JobControl::default());
        let job = Job {
            shared: Arc::new(Shared::new(hub, options)),
            request: self.request.clone(),
            events: EventSender {
                id: DownloadId(1),
                run: 1,
                sender,
            },
            control,
        };
        let mut work = pin!(job.run());
        let mut n_left = n_polls.unwrap_or(u32::MAX);
        std::future::poll_fn(move |context| {
            if n_left == 0 {
                return Poll::Ready(None);
            }
            n_left -= 1;
            work.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Runs the job until it ends, then once without faults. Returns how the part with faults
    /// ended.
    async fn run_all(mut self) -> ScheduleResult {
        let n_crashes = self.rng.u32(0..4);
        let mut result = None;
        for attempt in 0..=n_crashes {
            for _ in 0..self.rng.u32(0..5) {
                let routes = [Route::Listing, Route::Resolve, Route::Blob, Route::Blob];
                let route = *self.rng.choice(&routes).unwrap();
                let (fault, n_times) = (self.fault(), self.rng.u32(1..4));
                self.log += &format!("{route:?} {fault:?} x {n_times}; ");
                self.hub.fail(route, fault, n_times);
            }
            // No job ends within a few polls, so many of these crashes happen on any machine.
            let n_polls = (attempt < n_crashes).then(|| 1 << self.rng.u32(0..7));
            self.log += &format!("run of {n_polls:?} polls; ");
            result = self.run(false, n_polls).await;
            self.log += &format!("{result:?}; ");
            self.assert_correct_files();
            if result.is_some() {
                break;
            }
        }
        if result != Some(Ok(())) {
            if let Some(Err(error)) = &result {
                assert!(error.to_string().len() > 10, "{}", self.describe());
                // Moving the files to their folder continues after the job was dropped.
                let folder = &self.request.folder;
                let is_complete = || {
                    let mut names = ["config.json", "model.safetensors"].iter();
                    names.all(|name| folder.join(name).exists())
                };
                let is_complete_or_absent = !folder.exists() || is_complete();
                assert!(is_complete_or_absent, "half a model: {}", self.describe());
            }
            self.hub.clear_faults();
            let clean = self.run(true, None).await;
            assert_eq!(clean, Some(Ok(())), "a clean run: {}", self.describe());
        }
        self.assert_correct_files();
        for name in ["config.json", "model.safetensors"] {
            assert!(
                self.request.folder.join(name).exists(),
                "{}",
                self.describe()
            );
        }
        let parts = std::fs::read_dir(self.folder.path().join("parts"));
        assert_eq!(
            parts.unwrap().count(),
            0,
            "parts are left: {}",
            self.describe()
        );
        ScheduleResult {
            code: match &result {
                Some(Ok(())) => "complete".to_owned(),
                Some(Err(error)) => error.code(),
                None => "crashed".to_owned(),
            },
            has_crashed: self.log.contains("None; "),
            has_changed: self.log.contains("Change x"),
        }
    }

    fn assert_correct_files(&self) {
        let Ok(entries) = std::fs::read_dir(&self.request.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().into_string().unwrap();
            let right = self.hub.bytes(REPOSITORY, &name);
            let found = std::fs::read(entry.path()).unwrap();
            assert!(right == Some(found), "{name} is wrong: {}", self.describe());
        }
    }

    fn describe(&self) -> String {
        format!("seed {}: {}", self.seed, self.log)
    }
}

/// How a job ended before its run without faults.
struct ScheduleResult {
    code: String,
    has_crashed: bool,
    has_changed: bool,
}

/// Returns a folder in memory if the system has one, because the thousands of syncs are not tested
/// here.
fn temp_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_and_crashes_leave_a_complete_or_resumable_download() {
    let mut results = Vec::new();
    for first in (0..N_SCHEDULES).step_by(AT_ONCE as usize) {
        let seeds = first..first + AT_ONCE;
        let schedules = seeds.map(|seed| async move {
            let task = tokio::spawn(FaultSchedule::new(seed).run_all());
            let limit = Duration::from_secs(60);
            match tokio::time::timeout(limit, task).await {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
                Err(_) => panic!("seed {seed} did not end in 60 s"),
            }
        });
        results.extend(join_all(schedules).await);
    }
    // Without these cases the test would prove nothing.
    let n_with =
        |matches: &dyn Fn(&ScheduleResult) -> bool| results.iter().filter(|it| matches(it)).count();
    assert_eq!(results.len(), N_SCHEDULES as usize);
    assert!(n_with(&|it| it.code == "complete") > 50);
    assert!(n_with(&|it| it.has_crashed) > 100);
    assert!(n_with(&|it| it.has_changed) > 10);
    let codes: BTreeSet<&str> = results.iter().map(|it| &*it.code).collect();
    assert!(codes.contains("disk_full") && codes.len() > 5, "{codes:?}");
}
