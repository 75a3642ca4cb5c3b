//! What a scripted worker does, and what fails.

use std::time::Duration;

use transom_engine::EngineError;

/// The behavior of one worker.
#[derive(Debug, Clone)]
pub struct WorkerScript {
    /// Size of the model's weights in bytes.
    pub weight_bytes: u64,
    /// Number of parameters of the model.
    pub n_parameters: u64,
    /// Duration of the load.
    pub load_time: Duration,
    /// Error of the load, if it fails.
    pub load_error: Option<EngineError>,
    /// After how many tokens each response fails, and the error; before it starts if that is 0.
    pub response_error: Option<(usize, EngineError)>,
    /// Tokens of every response.
    pub tokens: Vec<String>,
    /// Time before each token.
    pub token_interval: Duration,
    /// Number of messages that the context holds.
    pub context_messages: usize,
    /// The tool calls of each response whose prompt has tools, after its tokens: names and arguments.
    pub tool_calls: Vec<(String, String)>,
    /// Time to drop the model.
    pub unload_time: Duration,
    /// The worker gets a memory pressure notice when it starts a response.
    pub has_memory_notice: bool,
    /// What fails.
    pub fault: Fault,
}

/// A failure of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing fails.
    None,
    /// The worker crashes halfway through the load.
    DiesInLoad,
    /// The worker crashes in each response, after this number of tokens.
    DiesAfter(usize),
    /// The worker crashes when it should drop its model.
    DiesInUnload,
    /// The worker drops its model but never reports it.
    HangsInUnload,
    /// Like [`Fault::HangsInUnload`], and a kill does not end the process.
    CannotBeKilled,
    /// The worker drops its model, but the memory is not freed.
    Leaks,
}

impl Default for WorkerScript {
    /// Loads 2 GB in 400 ms, responds `Paris is the capital.` at 20 ms per token, and unloads in 50
    /// ms.
    fn default() -> Self {
        Self {
            weight_bytes: 2_000_000_000,
            n_parameters: 1,
            load_time: Duration::from_millis(400),
            load_error: None,
            response_error: None,
            tokens: ["Paris", " is", " the", " capital", "."]
                .map(str::to_owned)
                .to_vec(),
            token_interval: Duration::from_millis(20),
            context_messages: usize::MAX,
            tool_calls: Vec::new(),
            unload_time: Duration::from_millis(50),
            has_memory_notice: false,
            fault: Fault::None,
        }
    }
}
