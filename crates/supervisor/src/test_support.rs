//! Scripted workers, and functions that create requests for them.
//!
//! The workers are tasks that follow the protocol, but without a process and a model, so that hours
//! pass in a moment on a paused clock. Rule: a script only sets how long things take and what
//! fails; everything else is as with a real worker.

mod context;
mod deferred;
mod embedding;
mod reading;
mod script;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use transom_engine::{
    ConversationId, EngineError, FinishReason, GenerationParams, Limits, LoadProgress, MemoryNeed,
    MemoryUse, ModelSource, Prompt, Section, Stats, TokenEvent, Trim, Truncation,
};
use transom_engine_host::wire::{
    Command, JobId, JobSummary, LoadFootprint, Report, Request, UnloadFootprint,
};
use transom_engine_host::{
    KillSwitch, SavedConversation, SavedFolder, StateKey, Timeouts, Worker, WorkerEnd,
    WorkerReport, Workers,
};
use transom_signals::{Hardware, SignalSource};

use crate::driver::Supervisor;
use crate::governor::Tuning;
use crate::request::{ClientId, ModelRequest, ModelRole, ModelSpec, Work};
use crate::saving::SavingLimits;

pub use embedding::{VECTOR, embed_request};
pub use reading::{finish, first_text, n_saved_files, reason, status_where};
pub use script::{Fault, WorkerScript};

/// Footprint of a worker without a model, in bytes.
const EMPTY_BYTES: u64 = 10_000_000;

/// Process id of a worker that [cannot be killed](Fault::CannotBeKilled).
pub const STUCK_PROCESS: u32 = 4711;

/// Number of steps in which a load reports its progress.
const LOAD_STEPS: u64 = 4;

/// Starts scripted workers. Clones share their counters.
#[derive(Clone)]
pub struct ScriptedWorkers {
    script: Arc<dyn Fn(usize) -> WorkerScript + Send + Sync>,
    n_started: Arc<AtomicUsize>,
    n_alive: Arc<AtomicUsize>,
}

impl ScriptedWorkers {
    /// Creates workers of which the first follows `script(0)`, the second `script(1)`, and so on.
    pub fn new(script: impl Fn(usize) -> WorkerScript + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            n_started: Arc::default(),
            n_alive: Arc::default(),
        }
    }

    /// Creates workers that all follow `script`.
    pub fn all(script: WorkerScript) -> Self {
        Self::new(move |_| script.clone())
    }

    /// Returns the number of workers started so far.
    pub fn n_started(&self) -> usize {
        self.n_started.load(Ordering::SeqCst)
    }

    /// Returns the number of workers that have not ended.
    pub fn n_alive(&self) -> usize {
        self.n_alive.load(Ordering::SeqCst)
    }
}

impl Workers for ScriptedWorkers {
    fn start(&self) -> Worker {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (reports_sender, reports) = mpsc::channel(64);
        let kill = KillSwitch::default();
        let script = (self.script)(self.n_started.fetch_add(1, Ordering::SeqCst));
        self.n_alive.fetch_add(1, Ordering::SeqCst);
        let (killed, n_alive) = (kill.clone(), self.n_alive.clone());
        tokio::spawn(async move {
            let mut task = WorkerTask {
                script,
                commands: receiver,
                deferred: VecDeque::new(),
                reports: reports_sender.clone(),
                n_tokens: 0,
                conversation: None,
                saved: None,
                n_files: 0,
            };
            let cannot_be_killed = task.script.fault == Fault::CannotBeKilled;
            let end = tokio::select! {
                end = task.run() => end,
                () = killed.killed() => died("killed by signal 9 (SIGKILL)"),
            };
            if cannot_be_killed {
                sleep(Timeouts::default().kill).await;
                let process_id = STUCK_PROCESS;
                // The receiver may be gone.
                let _ = reports_sender
                    .send(WorkerReport::Stuck { process_id, end })
                    .await;
                return std::future::pending().await;
            }
            n_alive.fetch_sub(1, Ordering::SeqCst);
            // The receiver may be gone.
            let _ = reports_sender.send(WorkerReport::Exited(end)).await;
        });
        Worker {
            commands,
            reports,
            kill,
        }
    }
}

fn died(how: &str) -> WorkerEnd {
    WorkerEnd::Died {
        how: how.to_owned(),
        stderr_tail: String::new(),
    }
}

/// The task of one worker.
struct WorkerTask {
    script: WorkerScript,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Commands received during a job, executed after it. A real worker would run jobs beside it.
    deferred: VecDeque<Command>,
    reports: mpsc::Sender<WorkerReport>,
    /// Number of tokens in the KV cache, which has no other contents.
    n_tokens: usize,
    /// The conversation of the last request.
    conversation: Option<ConversationId>,
    saved: Option<SavedFolder>,
    /// Number of files written so far.
    n_files: usize,
}

/// How a wait within a load or a job ended.
enum Wait {
    Over,
    Stopped(FinishReason),
}

/// The end of the worker during a command.
struct End(WorkerEnd);

impl WorkerTask {
    async fn run(&mut self) -> WorkerEnd {
        loop {
            let command = match self.deferred.pop_front() {
                Some(command) => command,
                None => match self.commands.recv().await {
                    Some(command) => command,
                    None => return WorkerEnd::Requested,
                },
            };
            if let Err(End(end)) = self.execute(command).await {
                return end;
            }
        }
    }

    async fn execute(&mut self, command: Command) -> Result<(), End> {
        match command {
            Command::Measure { limits, .. } => {
                let need = self.need(&limits);
                self.report(Report::Measured { result: Ok(need) }).await;
            }
            Command::Load {
                source,
                limits,
                saved,
            } => self.load(&source, &limits, saved).await?,
            Command::Generate { job, request } => self.generate(job, &request).await?,
            Command::Embed { job, inputs } => self.embed(job, &inputs).await?,
            Command::Count { job, prompt } => self.count(job, &prompt).await,
            Command::Tokenize { job, input } => self.tokenize(job, &input).await,
            Command::Trim { trim } => {
                if trim == Trim::Everything {
                    self.n_tokens = 0;
                }
                let memory = self.memory();
                self.report(Report::Trimmed { bytes: 0, memory }).await;
            }
            Command::Forget { conversation } => {
                self.n_tokens = 0;
                if let Some(saved) = &mut self.saved {
                    let is_other = |saved: &SavedConversation| {
                        conversation.is_some() && saved.id != conversation
                    };
                    saved.conversations.retain(is_other);
                }
                let memory = self.memory();
                self.report(Report::Trimmed { bytes: 0, memory }).await;
            }
            Command::Save { .. } => {
                self.save().await;
                self.report(Report::SaveEnded).await;
            }
            Command::Unload { save } => self.unload(save).await?,
            Command::Hello { .. } | Command::Stop { .. } | Command::Ping { .. } => {}
        }
        Ok(())
    }

    async fn load(
        &mut self,
        source: &ModelSource,
        limits: &Limits,
        saved: Option<SavedFolder>,
    ) -> Result<(), End> {
        for step in 0..=LOAD_STEPS {
            if step == LOAD_STEPS / 2 && self.script.fault == Fault::DiesInLoad {
                return Err(End(died("exit code 3")));
            }
            let progress = LoadProgress {
                done_bytes: self.script.weight_bytes * step / LOAD_STEPS,
                total_bytes: self.script.weight_bytes,
            };
            self.report(Report::LoadProgress { progress }).await;
            let time = self.script.load_time / (LOAD_STEPS as u32 + 1);
            if let Wait::Stopped(_) = self.wait(time, None).await? {
                let error = EngineError::Canceled;
                self.report(Report::LoadFailed { error }).await;
                return Ok(());
            }
        }
        if let Some(error) = self.script.load_error.clone() {
            self.report(Report::LoadFailed { error }).await;
            return Ok(());
        }
        let newest = saved.as_ref().and_then(|saved| saved.conversations.first());
        self.n_tokens = newest.map_or(0, |newest| newest.n_tokens);
        self.saved = saved;
        self.report(Report::Loaded {
            info: Box::new(context::info(source, limits, &self.script)),
            memory: self.memory(),
            footprint: Some(LoadFootprint {
                before_bytes: EMPTY_BYTES,
                loaded_bytes: EMPTY_BYTES + self.script.weight_bytes,
            }),
            saved_tokens: self.n_tokens,
        })
        .await;
        Ok(())
    }

    async fn generate(&mut self, job: JobId, request: &Request) -> Result<(), End> {
        if self.script.has_memory_notice {
            self.report(Report::MemoryNotice).await;
        }
        let response_error = self.script.response_error.clone();
        let dropped = match &response_error {
            Some((0, error)) => Err(error.clone()),
            _ => context::dropped_messages(request, self.script.context_messages),
        };
        let dropped_messages = match dropped {
            Ok(dropped_messages) => dropped_messages,
            Err(error) => {
                let result = Err(error);
                self.report(Report::JobEnded { job, result }).await;
                return Ok(());
            }
        };
        let prompt_tokens = 1;
        self.report_event(
            job,
            TokenEvent::Started {
                prompt_tokens,
                cached_tokens: 0,
                dropped_messages,
                unconstrained_tools: context::unconstrained_tools(request),
            },
        )
        .await;
        let (done, total) = (prompt_tokens, prompt_tokens);
        self.report_event(job, TokenEvent::Prefill { done, total })
            .await;
        let mut reason = FinishReason::Stop;
        let mut generated_tokens = 0;
        for token in self.script.tokens.clone() {
            if self.script.fault == Fault::DiesAfter(generated_tokens) {
                return Err(End(died("killed by signal 6 (SIGABRT)")));
            }
            if let Some((after, error)) = &response_error
                && *after == generated_tokens
            {
                let result = Err(error.clone());
                self.report(Report::JobEnded { job, result }).await;
                return Ok(());
            }
            if request.params.max_tokens == Some(generated_tokens) {
                reason = FinishReason::Length;
                break;
            }
            let interval = self.script.token_interval;
            if let Wait::Stopped(why) = self.wait(interval, Some(job)).await? {
                reason = why;
                break;
            }
            generated_tokens += 1;
            let logprobs = context::logprobs(&request.params, &token);
            let text = TokenEvent::Text {
                section: Section::Answer,
                text: token,
                generated_tokens,
                logprobs,
            };
            self.report_event(job, text).await;
        }
        if reason == FinishReason::Stop {
            for event in context::tool_calls(request, &self.script.tool_calls) {
                self.report_event(job, event).await;
            }
        }
        self.n_tokens += prompt_tokens + generated_tokens;
        self.conversation = request.params.conversation;
        let stats = Stats {
            prompt_tokens,
            generated_tokens,
            ..Stats::default()
        };
        let result = Ok(JobSummary {
            reason,
            stats,
            memory: self.memory(),
        });
        self.report(Report::JobEnded { job, result }).await;
        Ok(())
    }

    async fn unload(&mut self, save: Option<u64>) -> Result<(), End> {
        self.wait(self.script.unload_time, None).await?;
        let loaded_bytes = EMPTY_BYTES + self.script.weight_bytes;
        let after_bytes = match self.script.fault {
            Fault::DiesInUnload => return Err(End(died("killed by signal 11 (SIGSEGV)"))),
            Fault::HangsInUnload | Fault::CannotBeKilled => return std::future::pending().await,
            Fault::Leaks => loaded_bytes,
            Fault::None | Fault::DiesInLoad | Fault::DiesAfter(_) => EMPTY_BYTES,
        };
        if save.is_some() {
            self.save().await;
        }
        let footprint = Some(UnloadFootprint {
            loaded_bytes,
            after_bytes,
        });
        self.report(Report::Unloaded { footprint }).await;
        Ok(())
    }

    /// Saves the conversation of the last request in a file.
    async fn save(&mut self) {
        let (Some(saved), id) = (&mut self.saved, self.conversation) else {
            return;
        };
        if self.n_tokens == 0 {
            return;
        }
        let former = saved.conversations.iter().position(|saved| saved.id == id);
        let former = former.map(|index| saved.conversations.remove(index));
        let key = former.map(|former| former.key).or_else(StateKey::random);
        let name = format!("{}-{}", saved.prefix, self.n_files);
        self.n_files += 1;
        // If the write fails, the file is missing later, which tests notice.
        let _ = std::fs::write(saved.path.join(&name), self.n_tokens.to_string());
        let conversation = SavedConversation {
            id,
            key: key.expect("the system has random numbers"),
            files: vec![name],
            n_tokens: self.n_tokens,
        };
        saved.conversations.insert(0, conversation.clone());
        self.report(Report::Saved { conversation }).await;
    }

    /// Waits during a load (`None`) or a job; handles commands that take effect at once.
    async fn wait(&mut self, time: Duration, job: Option<JobId>) -> Result<Wait, End> {
        let until = Instant::now() + time;
        loop {
            match timeout_at(until, self.commands.recv()).await {
                Err(_) => return Ok(Wait::Over),
                Ok(None) => return Err(End(WorkerEnd::Requested)),
                Ok(Some(Command::Stop { job: which, reason })) if which == job => {
                    return Ok(Wait::Stopped(reason));
                }
                Ok(Some(Command::Stop {
                    job: Some(deferred),
                    reason,
                })) => self.end_deferred(deferred, reason).await,
                Ok(Some(unload @ Command::Unload { .. })) => {
                    self.deferred.push_front(unload);
                    return Ok(Wait::Stopped(FinishReason::Canceled));
                }
                Ok(Some(other)) => self.deferred.push_back(other),
            }
        }
    }

    async fn report_event(&self, job: JobId, event: TokenEvent) {
        self.report(Report::Event { job, event }).await;
    }

    async fn report(&self, report: Report) {
        // If the owner is gone, the commands are closed too, which ends this worker.
        let _ = self.reports.send(WorkerReport::Message(report)).await;
    }

    fn need(&self, limits: &Limits) -> MemoryNeed {
        MemoryNeed {
            weight_bytes: self.script.weight_bytes,
            context_length: limits.context_length,
            ..MemoryNeed::default()
        }
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse {
            weight_bytes: self.script.weight_bytes,
            kv_cache_bytes: self.n_tokens as u64,
            ..MemoryUse::default()
        }
    }
}

/// Starts a supervisor on [`hardware`] that does not keep the machine awake. It runs one request at a
/// time, as scripted workers do.
pub fn supervisor(workers: impl Workers, signals: impl SignalSource, tuning: Tuning) -> Supervisor {
    let tuning = Tuning {
        parallel_requests: 1,
        ..tuning
    };
    let (workers, signals) = (Arc::new(workers), Arc::new(signals));
    let keep_awake = Box::new(|| -> Box<dyn Send> { Box::new(()) });
    Supervisor::start_with(workers, signals, &hardware(), tuning, keep_awake)
        .with_saving(SavingLimits::on_a_large_disk())
}

/// Returns a machine with 16 GiB of memory, on which several scripted models fit.
pub fn hardware() -> Hardware {
    Hardware {
        chip_name: "scripted".to_owned(),
        memory_bytes: 16 << 30,
        n_performance_cores: 4,
        n_cores: 8,
        working_set_bytes: Some(11 << 30),
        working_set_is_estimated: false,
    }
}

/// Returns a chat model with this name and id.
pub fn spec(name: &str) -> ModelSpec {
    ModelSpec {
        kv_cache: Default::default(),
        id: name.to_owned(),
        name: name.to_owned(),
        role: ModelRole::Chat,
        variants: vec![ModelSource { path: name.into() }],
        context_length: None,
        min_context_length: None,
        corrections: Vec::new(),
        drafts: Vec::new(),
    }
}

/// Returns a request for `work` with the model of this name.
pub fn request_for(name: &str, work: Work) -> ModelRequest {
    ModelRequest::new(ClientId::default(), spec(name), work)
}

/// Returns a request for a response of the model of this name.
pub fn generate_request(name: &str) -> ModelRequest {
    let request = Request {
        prompt: Prompt::Text("The capital of France?".to_owned()),
        truncation: Truncation::Disabled,
        params: GenerationParams::default(),
    };
    request_for(name, Work::Generate(Box::new(request)))
}
