//! Five hundred random courses of events: faults of all kinds, and crashes at any await.
//!
//! Rule: each ends whole and verified, or with a sentence and with parts that a clean run completes;
//! never is there a file in place that is not the hub's. A failing seed is printed.

#![cfg(test)]

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::join_all;
use tempfile::TempDir;

use super::*;
use crate::test_support::{Fault as HubFault, LocalHub, Route, TightDisk};
use crate::{Patience, WantedFile};

const REPOSITORY: &str = "owner/model";
const N_SCHEDULES: u64 = 500;
const AT_ONCE: u64 = 10;

/// One course of events.
struct Schedule {
    seed: u64,
    random: fastrand::Rng,
    hub: LocalHub,
    desk: TempDir,
    wanted: Wanted,
    can_change: bool,
    log: String,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let hub = LocalHub::start().unwrap();
        let desk = desk();
        let mut files = Vec::new();
        for (name, size) in [
            ("config.json", 1..900),
            ("tokenizer.json", 1000..4000),
            ("model.safetensors", 3000..60_000),
        ] {
            let bytes: Vec<u8> = (0..random.usize(size)).map(|_| random.u8(..)).collect();
            files.push(WantedFile::named(name));
            hub.put(REPOSITORY, name, bytes);
        }
        let wanted = Wanted {
            key: format!("model {seed}"),
            name: "Model".to_owned(),
            repository: REPOSITORY.to_owned(),
            revision: "main".to_owned(),
            files: if random.bool() { files } else { Vec::new() },
            folder: desk.path().join("models/owner/model"),
        };
        let can_change = random.u8(0..4) == 0;
        Self {
            seed,
            random,
            hub,
            desk,
            wanted,
            can_change,
            log: String::new(),
        }
    }

    fn fault(&mut self) -> HubFault {
        let random = &mut self.random;
        match random.u8(0..12) {
            0 => HubFault::Refuse,
            1..=4 => HubFault::Drop(random.u64(0..40_000)),
            5 => HubFault::Status(*random.choice(&[500, 502, 503, 504]).unwrap(), None),
            6 => HubFault::Status(429, Some(0).filter(|_| random.bool())),
            7 => HubFault::Status(*random.choice(&[401, 403, 404, 416]).unwrap(), None),
            8 => HubFault::Length(random.i64(-2000..2000)),
            9 => HubFault::WrongBytes,
            10 => HubFault::IgnoreRange,
            _ if self.can_change => HubFault::Change,
            _ => HubFault::ExpireLinks,
        }
    }

    /// A run of the job with these faults; it is dropped after some polls, if they are given.
    async fn run(&mut self, is_clean: bool, n_polls: Option<u32>) -> Option<Result<(), HubError>> {
        let mut options = DownloadsOptions::in_folder(self.desk.path().join("parts"));
        options.piece_bytes = self.random.u64(1500..20_000);
        options.connections_a_file = self.random.usize(1..5);
        options.spare_bytes = 0;
        if !is_clean && self.random.u8(0..8) == 0 {
            let disk = TightDisk::with_room(self.random.u64(0..80_000));
            disk.claim(self.random.u64(0..100_000));
            self.log += &format!("{disk:?}; ");
            options.disk = Arc::new(disk);
        }
        options.patience = Patience {
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(4),
            n_tries: if is_clean { 1000 } else { 4 },
        };
        let hub = self.hub.hub().unwrap();
        let (news, _heard) = mpsc::unbounded_channel();
        let (_order, order) = watch::channel(Order::default());
        let job = Job {
            shared: Arc::new(Shared::new(hub, options)),
            wanted: self.wanted.clone(),
            teller: Teller {
                id: DownloadId(1),
                run: 1,
                news,
            },
            order,
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

    /// Returns how the faulty part of it ended.
    async fn play(mut self) -> Ended {
        let n_crashes = self.random.u32(0..4);
        let mut result = None;
        for attempt in 0..=n_crashes {
            for _ in 0..self.random.u32(0..5) {
                let routes = [Route::Listing, Route::Resolve, Route::Blob, Route::Blob];
                let route = *self.random.choice(&routes).unwrap();
                let (fault, n_times) = (self.fault(), self.random.u32(1..4));
                self.log += &format!("{route:?} {fault:?} x {n_times}; ");
                self.hub.fail(route, fault, n_times);
            }
            let n_polls = (attempt < n_crashes).then(|| self.random.u32(1..120));
            self.log += &format!("run of {n_polls:?} polls; ");
            result = self.run(false, n_polls).await;
            self.log += &format!("{result:?}; ");
            self.nothing_bad_is_in_place();
            if result.is_some() {
                break;
            }
        }
        if result != Some(Ok(())) {
            if let Some(Err(error)) = &result {
                assert!(error.to_string().len() > 10, "{}", self.about());
                // A move that had begun goes to its end without the job that was dropped.
                let folder = &self.wanted.folder;
                let is_whole = || {
                    let mut names = ["config.json", "model.safetensors"].iter();
                    names.all(|name| folder.join(name).exists())
                };
                let is_good = !folder.exists() || is_whole();
                assert!(is_good, "half a model: {}", self.about());
            }
            self.hub.heal();
            let clean = self.run(true, None).await;
            assert_eq!(clean, Some(Ok(())), "a clean run: {}", self.about());
        }
        self.nothing_bad_is_in_place();
        for name in ["config.json", "model.safetensors"] {
            assert!(self.wanted.folder.join(name).exists(), "{}", self.about());
        }
        let parts = std::fs::read_dir(self.desk.path().join("parts"));
        assert_eq!(
            parts.unwrap().count(),
            0,
            "parts are left: {}",
            self.about()
        );
        Ended {
            code: match &result {
                Some(Ok(())) => "whole",
                Some(Err(error)) => error.code(),
                None => "crashed",
            },
            has_crashed: self.log.contains("None; "),
            has_changed: self.log.contains("Change x"),
        }
    }

    fn nothing_bad_is_in_place(&self) {
        let Ok(entries) = std::fs::read_dir(&self.wanted.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().into_string().unwrap();
            let right = self.hub.bytes(REPOSITORY, &name);
            let found = std::fs::read(entry.path()).unwrap();
            assert!(right == Some(found), "{name} is wrong: {}", self.about());
        }
    }

    fn about(&self) -> String {
        format!("seed {}: {}", self.seed, self.log)
    }
}

/// How a schedule ended before its clean run.
struct Ended {
    code: &'static str,
    has_crashed: bool,
    has_changed: bool,
}

/// In memory where the system has such a folder: thousands of syncs are not what is tested.
fn desk() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_schedule_of_faults_and_crashes_ends_whole_or_resumable() {
    let mut ended = Vec::new();
    for first in (0..N_SCHEDULES).step_by(AT_ONCE as usize) {
        let seeds = first..first + AT_ONCE;
        let played = seeds.map(|seed| async move {
            let played = tokio::spawn(Schedule::new(seed).play());
            let limit = Duration::from_secs(60);
            match tokio::time::timeout(limit, played).await {
                Ok(Ok(ended)) => ended,
                Ok(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
                Err(_) => panic!("seed {seed} did not end in 60 s"),
            }
        });
        ended.extend(join_all(played).await);
    }
    // Otherwise nothing was tried.
    let n_with = |is_so: &dyn Fn(&Ended) -> bool| ended.iter().filter(|it| is_so(it)).count();
    assert_eq!(ended.len(), N_SCHEDULES as usize);
    assert!(n_with(&|it| it.code == "whole") > 50);
    assert!(n_with(&|it| it.has_crashed) > 100);
    assert!(n_with(&|it| it.has_changed) > 10);
    let codes: BTreeSet<&str> = ended.iter().map(|it| it.code).collect();
    assert!(codes.contains("disk_full") && codes.len() > 5, "{codes:?}");
}
