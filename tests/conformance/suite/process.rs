//! An engine process under test, which is used as the supervisor uses it.
//!
//! Rule: every wait has a timeout, and every response is checked against the contract, whatever the
//! case tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;
use transom_engine::{
    EngineError, FinishReason, Limits, LoadProgress, MemoryNeed, MemoryUse, ModelInfo, ModelSource,
    Prompt, TokenEvent, TokenInput, TokenPiece, Trim,
};
use transom_engine_host::wire::{Command, JobId, LoadFootprint, Report, Request, UnloadFootprint};
use transom_engine_host::{ProcessWorkers, SavedFolder, Worker, WorkerEnd, WorkerReport, Workers};

use crate::request::TestRequest;
use crate::response::Response;
use crate::subject::Subject;

/// Timeout for the next report: far longer than any step takes, even on a busy machine.
const REPORT_TIMEOUT: Duration = Duration::from_secs(120);

/// An engine process.
pub(crate) struct TestProcess {
    worker: Worker,
    folder: TempDir,
    n_jobs: u64,
    running: Option<(JobId, Request)>,
    events: Vec<TokenEvent>,
    /// Several responses were generated at the same time.
    was_parallel: bool,
    /// The last command, for error messages.
    last_command: String,
}

/// The result of a successful load.
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

impl TestProcess {
    /// Starts a process with only the engine of the subject.
    pub(crate) fn start(subject: &Subject) -> Self {
        Self::start_with(subject.argument)
    }

    /// Starts a process with the engines of the argument `engines`.
    pub(crate) fn start_with(engines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_conformance-engine-host");
        let arguments = vec![engines.into(), folder.path().join("id").into()];
        Self {
            worker: ProcessWorkers::new(program.into(), arguments).start(),
            folder,
            n_jobs: 0,
            running: None,
            events: Vec::new(),
            was_parallel: false,
            last_command: "the start".to_owned(),
        }
    }

    /// Starts a process and loads the tiny model with its full context.
    pub(crate) async fn tiny(subject: &Subject) -> Self {
        Self::with(subject, &subject.tiny, &limits(8192)).await
    }

    /// Starts a process and loads the starter model.
    pub(crate) async fn starter(subject: &Subject) -> Self {
        Self::with(subject, &subject.starter, &limits(8192)).await
    }

    /// Starts a process and loads the model at `path`.
    pub(crate) async fn with(subject: &Subject, path: &Path, limits: &Limits) -> Self {
        let mut process = Self::start(subject);
        if let Err(error) = process.load(path, limits).await {
            panic!("{}: {error}", path.display());
        }
        process
    }

    /// Returns the process id, which is known after the first report.
    pub(crate) fn process_id(&self) -> rustix::process::Pid {
        let id = std::fs::read_to_string(self.folder.path().join("id")).unwrap();
        rustix::process::Pid::from_raw(id.parse().unwrap()).unwrap()
    }

    /// Returns a folder for files of the process.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.last_command = format!("{command:?}");
        self.last_command
            .truncate(self.last_command.floor_char_boundary(200));
        self.worker.commands.send(command).unwrap();
    }

    /// Returns the next report, except footprints, which are sent without a command.
    async fn next_message(&mut self) -> WorkerReport {
        loop {
            match timeout(REPORT_TIMEOUT, self.worker.reports.recv()).await {
                Ok(Some(WorkerReport::Message(Report::Footprint { .. }))) => {}
                Ok(Some(report)) => return report,
                Ok(None) => panic!("no more reports after {}", self.last_command),
                Err(_) => panic!(
                    "no report for {REPORT_TIMEOUT:?} after {}",
                    self.last_command
                ),
            }
        }
    }

    pub(crate) async fn report(&mut self) -> Report {
        match self.next_message().await {
            WorkerReport::Message(report) => report,
            stuck @ WorkerReport::Stuck { .. } => panic!("{stuck:?}, after {}", self.last_command),
            WorkerReport::Exited(end) => panic!("{end}, after {}", self.last_command),
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
        self.start_load(path, limits);
        self.load_result(Vec::new()).await
    }

    pub(crate) fn start_load(&mut self, path: &Path, limits: &Limits) {
        self.start_load_with(path, limits, None);
    }

    /// Loads a model, of which KV caches are saved in a folder.
    pub(crate) async fn load_with(
        &mut self,
        path: &Path,
        limits: &Limits,
        saved: &SavedFolder,
    ) -> Result<Loaded, EngineError> {
        self.start_load_with(path, limits, Some(saved.clone()));
        self.load_result(Vec::new()).await
    }

    fn start_load_with(&mut self, path: &Path, limits: &Limits, saved: Option<SavedFolder>) {
        self.send(Command::Load {
            source: source(path),
            limits: limits.clone(),
            saved,
        });
    }

    /// Waits for the result of a load; `progress` has the progress so far.
    pub(crate) async fn load_result(
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

    /// Loads a model that may crash the process.
    pub(crate) async fn load_with_exit(
        &mut self,
        path: &Path,
        limits: &Limits,
    ) -> Result<Option<EngineError>, WorkerEnd> {
        self.start_load(path, limits);
        loop {
            match self.next_message().await {
                WorkerReport::Exited(end) => return Err(end),
                WorkerReport::Message(Report::LoadFailed { error }) => return Ok(Some(error)),
                WorkerReport::Message(Report::Loaded { .. }) => return Ok(None),
                WorkerReport::Message(_) | WorkerReport::Stuck { .. } => {}
            }
        }
    }

    /// Returns the next report, which must be progress of a load.
    pub(crate) async fn load_progress(&mut self) -> LoadProgress {
        match self.report().await {
            Report::LoadProgress { progress } => progress,
            other => panic!("{other:?}"),
        }
    }

    /// Generates a complete response.
    pub(crate) async fn generate(&mut self, request: &TestRequest) -> Response {
        self.start_job(request);
        self.response().await
    }

    /// Returns the text of a response, which must end without an error.
    pub(crate) async fn text(&mut self, request: &TestRequest) -> String {
        let response = self.generate(request).await;
        response.summary();
        response.full_text()
    }

    /// Starts a job, whose events [`TestProcess::until`] and [`TestProcess::response`] read.
    pub(crate) fn start_job(&mut self, request: &TestRequest) -> JobId {
        let job = self.queue_job(request);
        self.running = Some((job, request.0.clone()));
        job
    }

    /// Queues a job that runs beside those before it.
    pub(crate) fn queue_beside(&mut self, request: &TestRequest) -> JobId {
        self.was_parallel = true;
        self.queue_job(request)
    }

    /// Queues a job behind the commands before it.
    pub(crate) fn queue_job(&mut self, request: &TestRequest) -> JobId {
        self.n_jobs += 1;
        let job = JobId(self.n_jobs);
        self.send(Command::Generate {
            job,
            request: Box::new(request.0.clone()),
        });
        job
    }

    /// Makes `job`, which was queued with `request`, the one whose response is read next.
    pub(crate) fn expect_job(&mut self, job: JobId, request: &TestRequest) {
        self.running = Some((job, request.0.clone()));
    }

    /// Reads the running response up to the first event that matches.
    pub(crate) async fn until(&mut self, predicate: impl Fn(&TokenEvent) -> bool) {
        loop {
            match self.report().await {
                Report::Event { event, .. } => {
                    let is_match = predicate(&event);
                    self.events.push(event);
                    if is_match {
                        return;
                    }
                }
                other => panic!("{other:?} after {:?}", self.events),
            }
        }
    }

    /// Reads the running response to its end.
    pub(crate) async fn response(&mut self) -> Response {
        let (running, request) = self.running.take().expect("a job is running");
        loop {
            match self.report().await {
                Report::Event { job, event } => {
                    assert_eq!(job, running);
                    self.events.push(event);
                }
                Report::JobEnded { job, result } => {
                    assert_eq!(job, running);
                    let events = std::mem::take(&mut self.events);
                    let response = Response::checked(&request, events, result);
                    if let Ok(summary) = &response.result {
                        // The peak of one response is not known after several ran at the same time.
                        let has_peak = summary.stats.peak_memory_bytes > 0;
                        let is_started = response.started.is_some();
                        assert_eq!(has_peak, is_started && !self.was_parallel);
                    }
                    return response;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Reads the responses of these jobs, which run at the same time, in the order in which they end.
    pub(crate) async fn responses(
        &mut self,
        jobs: &[(JobId, &TestRequest)],
    ) -> Vec<(JobId, Response)> {
        let mut events: Vec<Vec<TokenEvent>> = vec![Vec::new(); jobs.len()];
        let mut ended: Vec<(JobId, Response)> = Vec::new();
        let index_of = |job| jobs.iter().position(|(running, _)| *running == job);
        while ended.len() < jobs.len() {
            match self.report().await {
                Report::Event { job, event } => {
                    assert!(ended.iter().all(|(other, _)| *other != job), "it has ended");
                    events[index_of(job).expect("it runs")].push(event);
                }
                Report::JobEnded { job, result } => {
                    let index = index_of(job).expect("it runs");
                    let request = &jobs[index].1.0;
                    let events = std::mem::take(&mut events[index]);
                    ended.push((job, Response::checked(request, events, result)));
                }
                other => panic!("{other:?}"),
            }
        }
        ended
    }

    /// Returns the number of tokens of `prompt`.
    pub(crate) async fn count(&mut self, prompt: Prompt) -> usize {
        self.n_jobs += 1;
        self.send(Command::Count {
            job: JobId(self.n_jobs),
            prompt: Box::new(prompt),
        });
        match self.report().await {
            Report::JobEnded { result, .. } => result.expect("it is counted").stats.prompt_tokens,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the tokens of `input`, which come in any number of events.
    pub(crate) async fn pieces(
        &mut self,
        input: TokenInput,
    ) -> Result<Vec<TokenPiece>, EngineError> {
        self.n_jobs += 1;
        self.send(Command::Tokenize {
            job: JobId(self.n_jobs),
            input: Box::new(input),
        });
        let mut pieces = Vec::new();
        loop {
            match self.report().await {
                Report::Event {
                    event: TokenEvent::Pieces { pieces: next },
                    ..
                } => pieces.extend(next),
                Report::JobEnded { result, .. } => {
                    assert_eq!(result?.stats.prompt_tokens, pieces.len());
                    return Ok(pieces);
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
        self.trim_result().await
    }

    /// Waits for the result of a trim that was sent before.
    pub(crate) async fn trim_result(&mut self) -> (u64, MemoryUse) {
        match self.report().await {
            Report::Trimmed { bytes, memory } => (bytes, memory),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn unload(&mut self) -> Option<UnloadFootprint> {
        self.send(Command::Unload { save: None });
        match self.report().await {
            Report::Unloaded { footprint } => footprint,
            other => panic!("{other:?}"),
        }
    }

    /// Unloads, and saves the KV caches in the folder with which the model was loaded.
    pub(crate) async fn unload_to(&mut self, saved: &mut SavedFolder) {
        self.send(Command::Unload {
            save: Some(1 << 30),
        });
        saved.conversations.clear();
        loop {
            match self.report().await {
                Report::Saved { conversation } => saved.conversations.push(conversation),
                Report::Unloaded { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        // The next process gives its files other names.
        saved.prefix += "x";
    }

    /// Asks the process to exit, which it must do.
    pub(crate) async fn shut_down(mut self) {
        // Replacing the sender drops it.
        self.worker.commands = mpsc::unbounded_channel().0;
        let end = self.next_message().await;
        assert_eq!(end, WorkerReport::Exited(WorkerEnd::Requested));
        assert_eq!(self.worker.reports.recv().await, None);
    }

    /// Reads the running response to the end of the process, which must be reported once. Returns
    /// the end and the text so far.
    pub(crate) async fn end(&mut self) -> (WorkerEnd, String) {
        let mut text = String::new();
        loop {
            match self.next_message().await {
                WorkerReport::Message(Report::Event {
                    event: TokenEvent::Text { text: piece, .. },
                    ..
                }) => text.push_str(&piece),
                WorkerReport::Message(_) | WorkerReport::Stuck { .. } => {}
                WorkerReport::Exited(end) => {
                    let more = timeout(REPORT_TIMEOUT, self.worker.reports.recv()).await;
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
