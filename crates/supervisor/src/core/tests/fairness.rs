//! Fairness between clients, on a simulated machine: every job takes one second and every load
//! three. Exhaustive for small workloads, random for long ones.
//!
//! Rule: a client is served in its order, a background request never starts before a waiting
//! interactive one, and how many requests of others of the same class start before a request is
//! bounded by the number of clients and by the requests that its own client sent before it, however
//! many the others send.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use transom_engine::{FinishReason, GenerationParams, Prompt, Stats, Truncation};
use transom_engine_host::wire::{Command, JobId, JobSummary, Report, Request};
use transom_engine_host::{WorkerEnd, WorkerReport};

use super::models::{self, TestModels};
use crate::core::schedule::MAX_OVERTAKES;
use crate::core::{Core, Effect, Event, Timestamp, WorkerId};
use crate::governor::Tuning;
use crate::request::{Class, ClientId, ModelRequest, RequestId, Work};
use crate::response::{Outcome, ResponseEvent};

const JOB_TIME: Duration = Duration::from_secs(1);
const LOAD_TIME: Duration = Duration::from_secs(3);

/// `chat` and `other` do not fit together, `embed` fits next to either.
const MODELS: [&str; 3] = ["chat", "other", "embed"];

/// A request of a workload.
#[derive(Debug, Clone, Copy)]
struct Submission {
    client: usize,
    class: Class,
    model: &'static str,
}

/// Something that happens at a given time.
enum Arrival {
    Submission(Submission),
    Report(WorkerId, Report),
    Exit(WorkerId),
}

/// A submitted request.
#[derive(Debug)]
struct Submitted {
    by: Submission,
    since: Timestamp,
    started: Option<Timestamp>,
    has_ended: bool,
    /// Requests of its client and class that were waiting when it was submitted.
    n_own_before: usize,
    /// Requests of other clients of its class that started while it waited.
    n_others_before: usize,
}

struct Machine {
    core: Core,
    now: Timestamp,
    models: TestModels,
    arrivals: BTreeMap<(Timestamp, usize), Arrival>,
    n_arrivals: usize,
    /// The request with the id n is at n - 1.
    requests: Vec<Submitted>,
}

impl Machine {
    fn new() -> Self {
        Self::with_parallel(1)
    }

    /// Creates a machine on which this number of requests may run at the same time.
    fn with_parallel(parallel_requests: usize) -> Self {
        let tuning = Tuning {
            parallel_requests,
            queue_limit: 1000,
            client_queue_limit: 1000,
            ..models::tuning()
        };
        Self {
            core: Core::new(&models::hardware(), tuning),
            now: Timestamp::ZERO,
            models: TestModels::default(),
            arrivals: BTreeMap::new(),
            n_arrivals: 0,
            requests: Vec::new(),
        }
    }

    fn add(&mut self, at: Timestamp, arrival: Arrival) {
        self.n_arrivals += 1;
        self.arrivals.insert((at, self.n_arrivals), arrival);
    }

    /// Runs until every request has ended. `next` returns after which time a client sends the same
    /// request again, when one of its requests has ended; `None` if it sends no more.
    fn run(&mut self, mut next: impl FnMut(Submission) -> Option<Duration>) {
        while !self.arrivals.is_empty() || self.requests.iter().any(|one| !one.has_ended) {
            let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
            let event = match (arrival, self.core.next_deadline()) {
                (Some(at), deadline) if deadline.is_none_or(|deadline| at <= deadline) => {
                    let (_, arrival) = self.arrivals.pop_first().unwrap();
                    self.now = at;
                    self.event(arrival)
                }
                (_, Some(deadline)) => {
                    self.now = deadline;
                    Event::Tick
                }
                (_, None) => panic!("a request waits forever: {:#?}", self.core),
            };
            for effect in self.core.step(event, self.now) {
                self.models.record(&effect);
                if let Some(ended) = self.apply(effect)
                    && let Some(pause) = next(ended)
                {
                    self.add(self.now + pause, Arrival::Submission(ended));
                }
            }
        }
    }

    fn event(&mut self, arrival: Arrival) -> Event {
        match arrival {
            Arrival::Submission(by) => self.submit(by),
            Arrival::Report(worker, report) => Event::Worker(worker, WorkerReport::Message(report)),
            Arrival::Exit(worker) => {
                Event::Worker(worker, WorkerReport::Exited(WorkerEnd::Requested))
            }
        }
    }

    fn submit(&mut self, by: Submission) -> Event {
        let is_own = |other: &&Submitted| {
            other.started.is_none() && (other.by.client, other.by.class) == (by.client, by.class)
        };
        self.requests.push(Submitted {
            by,
            since: self.now,
            started: None,
            has_ended: false,
            n_own_before: self.requests.iter().filter(is_own).count(),
            n_others_before: 0,
        });
        let work = Work::Generate(Box::new(Request {
            prompt: Prompt::Text(String::new()),
            truncation: Truncation::Disabled,
            params: GenerationParams::default(),
        }));
        let client = ClientId::new(by.client.to_string());
        let request = ModelRequest {
            class: by.class,
            ..ModelRequest::new(client, models::spec(by.model), work)
        };
        Event::Request(RequestId(self.requests.len() as u64), Box::new(request))
    }

    /// Applies an effect. Returns the request that it ends.
    fn apply(&mut self, effect: Effect) -> Option<Submission> {
        match effect {
            Effect::Send(worker, Command::Measure { .. }) => {
                let result = Ok(self.models.need(worker));
                self.report(worker, Duration::ZERO, Report::Measured { result });
            }
            Effect::Load(worker, ..) => {
                let WorkerReport::Message(loaded) = self.models.loaded(worker, 0) else {
                    panic!("a load ends with a message");
                };
                self.report(worker, LOAD_TIME, loaded);
            }
            Effect::Send(worker, Command::Generate { job, .. }) => {
                self.start(job);
                let summary = JobSummary {
                    reason: FinishReason::Stop,
                    stats: Stats::default(),
                    memory: self.models.memory(worker),
                };
                let result = Ok(summary);
                self.report(worker, JOB_TIME, Report::JobEnded { job, result });
            }
            Effect::Unload(worker, _) => {
                let footprint = None;
                self.report(worker, Duration::ZERO, Report::Unloaded { footprint });
            }
            Effect::Release(worker) => self.add(self.now, Arrival::Exit(worker)),
            Effect::Respond(id, ResponseEvent::Ended { outcome }) => {
                assert!(matches!(outcome, Outcome::Finished { .. }), "{outcome:?}");
                let request = &mut self.requests[id.0 as usize - 1];
                request.has_ended = true;
                return Some(request.by);
            }
            Effect::Start(_) | Effect::Respond(..) | Effect::KeepAwake(_) => {}
            other => panic!("{other:?}"),
        }
        None
    }

    fn report(&mut self, worker: WorkerId, after: Duration, report: Report) {
        self.add(self.now + after, Arrival::Report(worker, report));
    }

    /// Starts a request, and checks that it was its turn.
    fn start(&mut self, job: JobId) {
        let index = job.0 as usize - 1;
        let Submission { client, class, .. } = self.requests[index].by;
        for (position, other) in self.requests.iter_mut().enumerate() {
            if position == index || other.started.is_some() {
                continue;
            }
            assert!(other.by.class >= class, "an interactive request waits");
            if other.by.class == class && other.by.client == client {
                assert!(position > index, "an earlier request of the client waits");
            } else if other.by.class == class {
                other.n_others_before += 1;
            }
        }
        let clients: BTreeSet<usize> = self.requests.iter().map(|one| one.by.client).collect();
        let started = &mut self.requests[index];
        started.started = Some(self.now);
        let n_overtakes = usize::from(MAX_OVERTAKES);
        let per_client = started.n_own_before + 2 + n_overtakes;
        let bound = per_client * (clients.len() - 1) + n_overtakes;
        let n_others = started.n_others_before;
        assert!(n_others <= bound, "{n_others} were before: {started:?}");
    }

    /// Returns how long each client waited in all for the starts of its requests.
    fn waits(&self) -> Vec<Duration> {
        let mut waits = BTreeMap::new();
        for request in &self.requests {
            let wait = request.started.unwrap() - request.since;
            *waits.entry(request.by.client).or_default() += wait;
        }
        waits.into_values().collect()
    }
}

/// Returns all sequences of `n` elements of `choices`.
fn sequences<T: Copy>(choices: &[T], n: usize) -> Vec<Vec<T>> {
    let mut all = vec![Vec::new()];
    for _ in 0..n {
        let longer = |prefix: &Vec<T>| {
            let prefix = prefix.clone();
            let extend = move |choice: &T| [prefix.as_slice(), &[*choice]].concat();
            choices.iter().map(extend).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Every workload of four requests of two programs and a person, all at once and one every half
/// second.
#[test]
fn every_small_workload_is_served_in_turn() {
    let background = (0..2).flat_map(|client| MODELS.map(|model| (client, model)));
    let mut choices: Vec<Submission> = background
        .map(|(client, model)| Submission {
            client,
            class: Class::Background,
            model,
        })
        .collect();
    choices.push(Submission {
        client: 2,
        class: Class::Interactive,
        model: "chat",
    });
    for workload in sequences(&choices, 4) {
        for (step, parallel) in [(0, 1), (500, 1), (0, 2), (500, 2)] {
            let step = Duration::from_millis(step);
            let mut machine = Machine::with_parallel(parallel);
            let mut at = Timestamp::ZERO;
            for submission in &workload {
                machine.add(at, Arrival::Submission(*submission));
                at += step;
            }
            machine.run(|_| None);
        }
    }
}

/// Up to four clients that send eight equal requests each, one after the other, with every
/// assignment of two models that do not fit together.
#[test]
fn no_client_waits_more_than_twice_the_mean_of_equal_requests() {
    for n_clients in 2..=4 {
        for assignment in sequences(&MODELS[..2], n_clients) {
            for pause in [0, 10, 500, 3000].map(Duration::from_millis) {
                let mut machine = Machine::new();
                for (client, &model) in assignment.iter().enumerate() {
                    let class = Class::Background;
                    let first = Submission {
                        client,
                        class,
                        model,
                    };
                    machine.add(Timestamp::ZERO, Arrival::Submission(first));
                }
                let mut left = vec![7_usize; n_clients];
                machine.run(|ended| {
                    let left = &mut left[ended.client];
                    let sends_more = *left > 0;
                    *left = left.saturating_sub(1);
                    sends_more.then_some(pause)
                });
                let waits = machine.waits();
                let mean = waits.iter().sum::<Duration>() / n_clients as u32;
                let longest = waits.iter().max().unwrap();
                assert!(*longest <= mean * 2, "{assignment:?} {pause:?}: {waits:?}");
            }
        }
    }
}

/// A client with one request waits for few others, whatever they have sent before.
#[test]
fn a_full_queue_of_one_client_does_not_delay_another() {
    let submission = |client| Submission {
        client,
        class: Class::Background,
        model: "chat",
    };
    let mut machine = Machine::new();
    for _ in 0..50 {
        machine.add(Timestamp::ZERO, Arrival::Submission(submission(0)));
    }
    let late = LOAD_TIME + Duration::from_millis(1500);
    machine.add(late, Arrival::Submission(submission(1)));
    machine.run(|_| None);
    let waited = machine.requests[50].started.unwrap() - late;
    assert!(waited <= 2 * JOB_TIME, "{waited:?}");
}

fn submissions() -> impl Strategy<Value = Vec<(u64, Submission)>> {
    let class = prop_oneof![
        4 => Just(Class::Background),
        1 => Just(Class::Interactive),
    ];
    let model = proptest::sample::select(MODELS.to_vec());
    let submission = (0..4usize, class, model).prop_map(|(client, class, model)| Submission {
        client,
        class,
        model,
    });
    proptest::collection::vec((0..20_000u64, submission), 1..60)
}

proptest! {
    #[test]
    fn every_long_workload_is_served_in_turn(workload in submissions()) {
        let mut machine = Machine::new();
        for (at, submission) in workload {
            machine.add(Duration::from_millis(at), Arrival::Submission(submission));
        }
        machine.run(|_| None);
    }
}
