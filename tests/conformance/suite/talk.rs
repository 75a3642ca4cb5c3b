//! Talking to one engine process, as the supervisor does.
//!
//! Rule: every wait has a limit and every answer is held against the contract, whatever the case at
//! hand is about.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;
use transom_engine::{
    EngineError, FinishReason, Limits, LoadProgress, MemoryNeed, MemoryUse, ModelInfo, ModelSource,
    TokenEvent, Trim,
};
use transom_engine_host::wire::{Command, JobId, LoadFootprint, Report, Request, UnloadFootprint};
use transom_engine_host::{ProcessWorkers, Worker, WorkerEnd, WorkerReport, Workers};

use crate::answer::Answer;
use crate::ask::Ask;
use crate::subject::Subject;

/// Far longer than any step takes, even on a busy machine.
const SILENCE: Duration = Duration::from_secs(120);

/// One process, from its start to its end.
pub(crate) struct Talk {
    worker: Worker,
    folder: TempDir,
    n_jobs: u64,
    running: Option<(JobId, Request)>,
    heard: Vec<TokenEvent>,
    last: String,
}

/// A load that came to its end.
pub(crate) struct Loaded {
    pub(crate) info: ModelInfo,
    pub(crate) memory: MemoryUse,
    pub(crate) footprint: Option<LoadFootprint>,
    pub(crate) progress: Vec<LoadProgress>,
}

pub(crate) fn limits(context_length: usize) -> Limits {
    Limits {
        context_length,
        ..Limits::default()
    }
}

fn source(path: &Path) -> ModelSource {
    ModelSource {
        path: path.to_owned(),
    }
}

impl Talk {
    /// A process that knows the subject's engine only.
    pub(crate) fn start(subject: &Subject) -> Self {
        Self::start_with(subject.word)
    }

    /// A process with the engines that `engines` names.
    pub(crate) fn start_with(engines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_conformance-engine-host");
        let arguments = vec![engines.into(), folder.path().join("id").into()];
        Self {
            worker: ProcessWorkers::new(program.into(), arguments).start(),
            folder,
            n_jobs: 0,
            running: None,
            heard: Vec::new(),
            last: "its start".to_owned(),
        }
    }

    /// A process with the tiny model loaded, of as much context as it has.
    pub(crate) async fn tiny(subject: &Subject) -> Self {
        Self::with(subject, &subject.tiny, &limits(8192)).await
    }

    /// A process with the starter model loaded.
    pub(crate) async fn starter(subject: &Subject) -> Self {
        Self::with(subject, &subject.starter, &limits(8192)).await
    }

    /// A process with the model at `path` loaded.
    pub(crate) async fn with(subject: &Subject, path: &Path, limits: &Limits) -> Self {
        let mut talk = Self::start(subject);
        if let Err(error) = talk.load(path, limits).await {
            panic!("{}: {error}", path.display());
        }
        talk
    }

    /// The process's id; known once it has answered anything.
    pub(crate) fn process_id(&self) -> rustix::process::Pid {
        let id = std::fs::read_to_string(self.folder.path().join("id")).unwrap();
        rustix::process::Pid::from_raw(id.parse().unwrap()).unwrap()
    }

    /// Where the process may keep files, until it ends.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.last = format!("{command:?}");
        self.last.truncate(self.last.floor_char_boundary(200));
        self.worker.commands.send(command).unwrap();
    }

    /// The next report that answers something: footprints come unasked.
    async fn hear(&mut self) -> WorkerReport {
        loop {
            match timeout(SILENCE, self.worker.reports.recv()).await {
                Ok(Some(WorkerReport::Said(Report::Footprint { .. }))) => {}
                Ok(Some(report)) => return report,
                Ok(None) => panic!("nothing more is said after {}", self.last),
                Err(_) => panic!("nothing was said for {SILENCE:?} after {}", self.last),
            }
        }
    }

    pub(crate) async fn report(&mut self) -> Report {
        match self.hear().await {
            WorkerReport::Said(report) => report,
            stuck @ WorkerReport::Stuck { .. } => panic!("{stuck:?}, after {}", self.last),
            WorkerReport::Gone(end) => panic!("{end}, after {}", self.last),
        }
    }

    pub(crate) async fn measure(
        &mut self,
        path: &Path,
        limits: &Limits,
    ) -> Result<MemoryNeed, EngineError> {
        self.send(Command::Measure {
            source: source(path),
            limits: limits.clone(),
        });
        match self.report().await {
            Report::Measured { result } => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn load(
        &mut self,
        path: &Path,
        limits: &Limits,
    ) -> Result<Loaded, EngineError> {
        self.begin_load(path, limits);
        self.loaded(Vec::new()).await
    }

    pub(crate) fn begin_load(&mut self, path: &Path, limits: &Limits) {
        self.begin_load_with(path, limits, None);
    }

    /// Loads, and takes up the conversation that may lie in the file `state`.
    pub(crate) async fn load_with(
        &mut self,
        path: &Path,
        limits: &Limits,
        state: &Path,
    ) -> Result<Loaded, EngineError> {
        self.begin_load_with(path, limits, Some(state.to_owned()));
        self.loaded(Vec::new()).await
    }

    fn begin_load_with(&mut self, path: &Path, limits: &Limits, state: Option<PathBuf>) {
        self.send(Command::Load {
            source: source(path),
            limits: limits.clone(),
            state,
        });
    }

    /// Hears a load out, of which `progress` was heard before.
    pub(crate) async fn loaded(
        &mut self,
        mut progress: Vec<LoadProgress>,
    ) -> Result<Loaded, EngineError> {
        loop {
            match self.report().await {
                Report::LoadProgress { progress: next } => progress.push(next),
                Report::LoadFailed { error } => return Err(error),
                Report::Loaded {
                    info,
                    memory,
                    footprint,
                    ..
                } => {
                    return Ok(Loaded {
                        info: *info,
                        memory,
                        footprint,
                        progress,
                    });
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Loads a model that may end the process.
    pub(crate) async fn load_or_die(
        &mut self,
        path: &Path,
        limits: &Limits,
    ) -> Result<Option<EngineError>, WorkerEnd> {
        self.begin_load(path, limits);
        loop {
            match self.hear().await {
                WorkerReport::Gone(end) => return Err(end),
                WorkerReport::Said(Report::LoadFailed { error }) => return Ok(Some(error)),
                WorkerReport::Said(Report::Loaded { .. }) => return Ok(None),
                WorkerReport::Said(_) | WorkerReport::Stuck { .. } => {}
            }
        }
    }

    /// The next word of a load, which must be of its progress.
    pub(crate) async fn load_progress(&mut self) -> LoadProgress {
        match self.report().await {
            Report::LoadProgress { progress } => progress,
            other => panic!("{other:?}"),
        }
    }

    /// Asks, and hears the answer out.
    pub(crate) async fn ask(&mut self, ask: &Ask) -> Answer {
        self.begin(ask);
        self.answer().await
    }

    /// The text of an answer, which must end without an error.
    pub(crate) async fn text(&mut self, ask: &Ask) -> String {
        let answer = self.ask(ask).await;
        answer.summary();
        answer.everything()
    }

    /// Asks; [`Talk::until`] and [`Talk::answer`] hear what is said to it.
    pub(crate) fn begin(&mut self, ask: &Ask) -> JobId {
        let job = self.queue(ask);
        self.running = Some((job, ask.0.clone()));
        job
    }

    /// Asks behind what is being answered.
    pub(crate) fn queue(&mut self, ask: &Ask) -> JobId {
        self.n_jobs += 1;
        let job = JobId(self.n_jobs);
        self.send(Command::Generate {
            job,
            request: Box::new(ask.0.clone()),
        });
        job
    }

    /// Says that the answer to `job`, queued with `ask`, is heard next.
    pub(crate) fn turn_to(&mut self, job: JobId, ask: &Ask) {
        self.running = Some((job, ask.0.clone()));
    }

    /// Hears the running answer up to the first event that `is_it`.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&TokenEvent) -> bool) {
        loop {
            match self.report().await {
                Report::Event { event, .. } => {
                    let found = is_it(&event);
                    self.heard.push(event);
                    if found {
                        return;
                    }
                }
                other => panic!("{other:?} after {:?}", self.heard),
            }
        }
    }

    /// Hears the running answer out.
    pub(crate) async fn answer(&mut self) -> Answer {
        let (running, request) = self.running.take().expect("something was asked");
        loop {
            match self.report().await {
                Report::Event { job, event } => {
                    assert_eq!(job, running);
                    self.heard.push(event);
                }
                Report::JobEnded { job, result } => {
                    assert_eq!(job, running);
                    let heard = std::mem::take(&mut self.heard);
                    return Answer::checked(&request, heard, result);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn stop(&mut self, job: Option<JobId>, reason: FinishReason) {
        self.send(Command::Stop { job, reason });
    }

    pub(crate) async fn trim(&mut self, trim: Trim) -> (u64, MemoryUse) {
        self.send(Command::Trim { trim });
        self.trimmed().await
    }

    /// Hears a trim that was sent before.
    pub(crate) async fn trimmed(&mut self) -> (u64, MemoryUse) {
        match self.report().await {
            Report::Trimmed { bytes, memory } => (bytes, memory),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn unload(&mut self) -> Option<UnloadFootprint> {
        self.unload_to(None).await
    }

    /// Unloads, and keeps the conversation in the file `state`.
    pub(crate) async fn unload_to(&mut self, state: Option<&Path>) -> Option<UnloadFootprint> {
        self.send(Command::Unload {
            state: state.map(Path::to_owned),
        });
        match self.report().await {
            Report::Unloaded { footprint, .. } => footprint,
            other => panic!("{other:?}"),
        }
    }

    /// Lets go of the process, which must leave as told.
    pub(crate) async fn leave(mut self) {
        // What is sent to nobody is lost, and the sender is dropped.
        self.worker.commands = mpsc::unbounded_channel().0;
        let end = self.hear().await;
        assert_eq!(end, WorkerReport::Gone(WorkerEnd::AsTold));
        assert_eq!(self.worker.reports.recv().await, None);
    }

    /// Hears the running answer and the process's end, which must be told once; the text so far.
    pub(crate) async fn end(&mut self) -> (WorkerEnd, String) {
        let mut text = String::new();
        loop {
            match self.hear().await {
                WorkerReport::Said(Report::Event {
                    event: TokenEvent::Text { text: piece, .. },
                    ..
                }) => text.push_str(&piece),
                WorkerReport::Said(_) | WorkerReport::Stuck { .. } => {}
                WorkerReport::Gone(end) => {
                    let more = timeout(SILENCE, self.worker.reports.recv()).await;
                    assert_eq!(more.expect("the reports end"), None);
                    return (end, text);
                }
            }
        }
    }

    /// Kills the process as the supervisor does.
    pub(crate) fn kill(&self) {
        self.worker.kill.kill();
    }
}
