//! The supervisor of the benchmark, with its data in a temporary folder, and the requests to it.
//!
//! Rule: the supervisor behaves as that of the app, but models stay loaded until a case unloads
//! them.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use transom_engine::{
    ChatPrompt, ConversationId, FinishReason, GenerationParams, Message, ModelInfo, Prompt, Role,
    SamplingParams, Stats, TokenEvent, Truncation,
};
use transom_engine_host::wire::Request;
use transom_supervisor::instance::{self, Connection};
use transom_supervisor::{
    ClientId, Handle, MemorySecrets, ModelRequest, ModelSpec, Outcome, RequestError, ResponseEvent,
    Saving, SavingLimits, Supervisor, Tuning, Work,
};

use crate::error::BenchError;
use crate::saved_files::SavedFiles;

/// Tokens that the model generates in a turn.
const MAX_TOKENS: usize = 4;

/// The idle time before an unload: longer than any case.
const IDLE_TIME: Duration = Duration::from_secs(3600);

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The model.
    pub model: ModelSpec,
    /// Load the model even if it exceeds the memory budget.
    pub over_budget: bool,
    /// Tokens of a long prompt; fewer if the context holds fewer.
    pub prompt_tokens: usize,
    /// Settings of the supervisor. The benchmark decides when it unloads the model.
    pub tuning: Tuning,
    /// The limits of saved KV caches. Their key is in memory, as long as the benchmark runs.
    pub saving_limits: SavingLimits,
}

/// A conversation.
#[derive(Debug, Clone)]
pub(crate) struct Chat {
    pub(crate) id: ConversationId,
    pub(crate) messages: Vec<Message>,
    pub(crate) truncation: Truncation,
}

impl Chat {
    pub(crate) fn push(&mut self, role: Role, text: String) {
        self.messages.push(Message::new(role, text));
    }

    /// Returns the conversation as it was when it had `n_messages` messages.
    pub(crate) fn first(&self, n_messages: usize) -> Self {
        Self {
            id: self.id,
            messages: self.messages[..n_messages].to_vec(),
            truncation: self.truncation,
        }
    }

    /// Returns a request as the app sends it, for a short response that is always the same.
    fn work(&self) -> Work {
        let chat = ChatPrompt {
            messages: self.messages.clone(),
            ..ChatPrompt::default()
        };
        Work::Generate(Box::new(Request {
            prompt: Prompt::Chat(chat),
            truncation: self.truncation,
            params: GenerationParams {
                sampling: SamplingParams {
                    temperature: 0.0,
                    seed: Some(0),
                    ..SamplingParams::default()
                },
                max_tokens: Some(MAX_TOKENS),
                ignore_end_of_text: true,
                speculate: false,
                shift_context: true,
                conversation: Some(self.id),
                ..GenerationParams::default()
            },
        }))
    }
}

/// A turn of a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) stats: Stats,
    /// Number of messages that do not fit the context.
    pub(crate) dropped_messages: usize,
}

/// The acceptance of a prompt.
#[derive(Debug, Clone, Copy, Default)]
struct Started {
    prompt_tokens: usize,
    dropped_messages: usize,
}

pub(crate) struct Supervised<'a> {
    start: Box<dyn Fn(Tuning) -> Supervisor + 'a>,
    model: ModelSpec,
    over_budget: bool,
    tuning: Tuning,
    saving: Saving,
    handle: Handle,
    /// `None` after it was closed.
    connection: Option<Connection>,
    saved_files: SavedFiles,
    written_bytes: u64,
    /// Dropped last.
    data: TempDir,
}

impl<'a> Supervised<'a> {
    /// Starts the supervisor that `start` returns. Must be called within a Tokio runtime.
    pub(crate) async fn open(
        options: Options,
        start: impl Fn(Tuning) -> Supervisor + 'a,
    ) -> Result<Self, BenchError> {
        let data = tempfile::tempdir().map_err(BenchError::Folder)?;
        let tuning = Tuning {
            idle_unload: Some(IDLE_TIME),
            keep_loaded: false,
            ..options.tuning
        };
        let saving = Saving {
            limits: options.saving_limits,
            secrets: Some(Arc::new(MemorySecrets::default())),
        };
        let start_saving = || start(tuning.clone()).with_saving(saving.clone());
        let connection = instance::open(data.path(), start_saving).await?;
        Ok(Self {
            start: Box::new(start),
            model: options.model,
            over_budget: options.over_budget,
            tuning,
            saving,
            handle: connection.handle(),
            connection: Some(connection),
            saved_files: SavedFiles::new(instance::cache_folder(data.path())),
            written_bytes: 0,
            data,
        })
    }

    /// Quits the supervisor and starts another one with the same folder.
    pub(crate) async fn restart(&mut self) -> Result<(), BenchError> {
        self.close().await;
        let start = || (self.start)(self.tuning.clone()).with_saving(self.saving.clone());
        let connection = instance::open(self.data.path(), start).await?;
        self.handle = connection.handle();
        self.connection = Some(connection);
        Ok(())
    }

    /// Unloads the model and quits the supervisor.
    pub(crate) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }

    /// Loads the model.
    pub(crate) async fn load(&self) -> Result<ModelInfo, BenchError> {
        match self.send(Work::Load, false).await? {
            (Outcome::Loaded { info }, _) => Ok(*info),
            _ => Err(BenchError::Stopped),
        }
    }

    /// Has the model read the conversation and generate a short response.
    pub(crate) async fn read(&mut self, chat: &Chat) -> Result<Reading, BenchError> {
        let (outcome, started) = self.send(chat.work(), false).await?;
        self.written_bytes += self.saved_files.new_bytes();
        match outcome {
            Outcome::Finished {
                reason: FinishReason::Length | FinishReason::Stop,
                stats,
            } => Ok(Reading {
                stats,
                dropped_messages: started.dropped_messages,
            }),
            _ => Err(BenchError::Stopped),
        }
    }

    /// Reads the conversation after all KV caches were deleted.
    pub(crate) async fn read_cold(&mut self, chat: &Chat) -> Result<Stats, BenchError> {
        self.start_over().await?;
        let Reading { stats, .. } = self.read(chat).await?;
        match stats.cached_tokens {
            0 => Ok(stats),
            cached_tokens => Err(BenchError::NotCold { cached_tokens }),
        }
    }

    /// Returns the tokens of the prompt, and deletes all KV caches.
    pub(crate) async fn count(&mut self, chat: &Chat) -> Result<usize, BenchError> {
        let (_, started) = self.send(chat.work(), true).await?;
        self.start_over().await?;
        Ok(started.prompt_tokens)
    }

    /// Deletes all KV caches, in memory and on the disk, and counts written bytes from now on.
    pub(crate) async fn start_over(&mut self) -> Result<(), BenchError> {
        self.handle.forget_conversations(None);
        // Follows what the model is still saving.
        let prompt = Prompt::Text("x".to_owned());
        self.send(Work::CountTokens(Box::new(prompt)), false)
            .await?;
        self.take_written_bytes();
        Ok(())
    }

    /// Returns the bytes written for saved KV caches since the last call.
    pub(crate) fn take_written_bytes(&mut self) -> u64 {
        self.written_bytes += self.saved_files.new_bytes();
        std::mem::take(&mut self.written_bytes)
    }

    /// Has the supervisor unload the model because it is idle.
    pub(crate) async fn unload_idle(&mut self) -> Result<(), BenchError> {
        self.handle.set_tuning(Tuning {
            idle_unload: Some(Duration::ZERO),
            ..self.tuning.clone()
        });
        self.until_unloaded().await?;
        self.handle.set_tuning(self.tuning.clone());
        Ok(())
    }

    /// Pauses, which unloads the model, and resumes.
    pub(crate) async fn pause_and_resume(&mut self) -> Result<(), BenchError> {
        self.handle.set_paused(true);
        self.until_unloaded().await?;
        self.handle.set_paused(false);
        Ok(())
    }

    async fn until_unloaded(&mut self) -> Result<(), BenchError> {
        let mut status = self.handle.status();
        let unloaded = status.wait_for(|status| status.models.is_empty());
        if unloaded.await.is_err() {
            return Err(RequestError::Quitting.into());
        }
        self.written_bytes += self.saved_files.new_bytes();
        Ok(())
    }

    /// Returns how long the last load of the model took.
    pub(crate) async fn load_time(&self) -> Option<Duration> {
        let status = self.handle.current_status().await;
        status.models.first()?.load_time
    }

    /// Sends a request and returns its outcome. With `only_counts` it is canceled as soon as the
    /// number of its tokens is known.
    async fn send(&self, work: Work, only_counts: bool) -> Result<(Outcome, Started), BenchError> {
        let mut response = self.handle.submit(ModelRequest {
            over_budget: self.over_budget,
            ..ModelRequest::new(ClientId::new("bench"), self.model.clone(), work)
        });
        let mut started = Started::default();
        while let Some(event) = response.next().await {
            match event {
                ResponseEvent::Token {
                    event:
                        TokenEvent::Started {
                            prompt_tokens,
                            dropped_messages,
                            ..
                        },
                } => {
                    started = Started {
                        prompt_tokens,
                        dropped_messages,
                    };
                    if only_counts {
                        response.cancel_handle().cancel();
                    }
                }
                ResponseEvent::Ended {
                    outcome: Outcome::Failed { error },
                } => return Err(error.into()),
                ResponseEvent::Ended { outcome } => return Ok((outcome, started)),
                ResponseEvent::Queued { .. }
                | ResponseEvent::Loading { .. }
                | ResponseEvent::Embedded { .. }
                | ResponseEvent::Token { .. } => {}
            }
        }
        Err(RequestError::Quitting.into())
    }
}
