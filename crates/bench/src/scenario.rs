//! The cases: what is read first, what happens then, and which turn is measured.
//!
//! Rule: a case begins without any KV cache, and ends with a cold read of its last prompt.

use transom_engine::{ConversationId, Role, Truncation};
use transom_supervisor::{Supervisor, Tuning};

use crate::error::BenchError;
use crate::report::{Case, CaseKind, Report, Turn};
use crate::supervised::{Chat, Options, Reading, Supervised};
use crate::text::{TextSizes, words};

/// Tokens of a short question and of a response in the conversations.
const QUESTION_TOKENS: usize = 16;
const RESPONSE_TOKENS: usize = 32;

/// The shortest question: what precedes it in the prompt was read before.
const SHORTEST_QUESTION: &str = "Why?";

/// Tokens that the app reserves for a response.
const RESERVED_TOKENS: usize = 1024;

/// The shortest context in which all cases fit.
const MIN_CONTEXT: usize = 1024;

/// Words of the prompt that shows how many tokens a word has.
const N_SAMPLE_WORDS: usize = 64;

/// Turns that are measured in a full context.
const N_FULL_TURNS: usize = 10;

/// Turns that fill the context.
const TURNS_PER_CONTEXT: usize = 20;

/// Measures the cases with one model.
pub struct ConversationBench<'a> {
    supervised: Supervised<'a>,
    sizes: TextSizes,
    prompt_tokens: usize,
    context_length: usize,
    /// Number of messages and of conversations so far. Each has its own number.
    n_messages: u64,
    n_chats: u64,
}

impl<'a> ConversationBench<'a> {
    /// Starts the supervisor that `start` returns. Must be called within a Tokio runtime, and
    /// followed by [`ConversationBench::close`].
    ///
    /// # Errors
    /// [`BenchError::Folder`], [`BenchError::Instance`].
    pub async fn open(
        options: Options,
        start: impl Fn(Tuning) -> Supervisor + 'a,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            prompt_tokens: options.prompt_tokens,
            supervised: Supervised::open(options, start).await?,
            sizes: TextSizes {
                tokens_per_word: 1.0,
                tokens_per_message: 0,
            },
            context_length: 0,
            n_messages: 0,
            n_chats: 0,
        })
    }

    /// Unloads the model, quits the supervisor and removes its folder.
    pub async fn close(mut self) {
        self.supervised.close().await;
    }

    /// Measures all cases. Calls `on_case` before each.
    ///
    /// # Errors
    /// Any [`BenchError`] but those of [`ConversationBench::open`].
    pub async fn run(&mut self, mut on_case: impl FnMut(CaseKind)) -> Result<Report, BenchError> {
        let info = self.supervised.load().await?;
        if !info.has_chat_template {
            return Err(BenchError::NoTemplate { model: info.name });
        }
        self.context_length = info.context_length;
        if self.context_length < MIN_CONTEXT {
            return Err(BenchError::ContextTooShort {
                context_length: self.context_length,
                needed: MIN_CONTEXT,
            });
        }
        // The other messages of a case, and a response, need some space too.
        self.prompt_tokens = self.prompt_tokens.min(self.context_length * 3 / 4);
        self.measure_sizes().await?;
        let mut cases = Vec::new();
        for kind in CaseKind::ALL {
            on_case(kind);
            self.supervised.start_over().await?;
            cases.push(self.case(kind).await?);
        }
        Ok(Report::new(&info, self.prompt_tokens, cases))
    }

    /// Measures the texts in tokens of this model. The requests are also the warm-up.
    async fn measure_sizes(&mut self) -> Result<(), BenchError> {
        let mut lengths = [0; 3];
        let prompts: [&[usize]; 3] = [&[1], &[1 + N_SAMPLE_WORDS], &[1, 1, 1]];
        for (length, n_words) in lengths.iter_mut().zip(prompts) {
            let mut chat = self.new_chat();
            let roles = [Role::User, Role::Assistant].into_iter().cycle();
            for (role, n_words) in roles.zip(n_words) {
                chat.push(role, words(0, *n_words));
            }
            *length = self.supervised.read(&chat).await?.stats.prompt_tokens;
        }
        let [one, long, three] = lengths;
        self.sizes = TextSizes::new(one, N_SAMPLE_WORDS, long, three);
        Ok(())
    }

    async fn case(&mut self, kind: CaseKind) -> Result<Case, BenchError> {
        match kind {
            CaseKind::SecondTurn
            | CaseKind::Switch
            | CaseKind::IdleUnload
            | CaseKind::SwitchAndUnload
            | CaseKind::PauseAndResume
            | CaseKind::Restart => self.continued(kind).await,
            CaseKind::SharedSystemPrompt => self.shared_system_prompt(kind).await,
            CaseKind::EditLastQuestion => self.edited(kind, 6).await,
            CaseKind::EditEarlierQuestion => self.edited(kind, 2).await,
            CaseKind::Overflow => self.overflow(kind).await,
        }
    }

    /// Continues a conversation after what the case is about.
    async fn continued(&mut self, kind: CaseKind) -> Result<Case, BenchError> {
        let mut chat = self.new_chat();
        self.ask(&mut chat, self.prompt_tokens);
        let first = self.supervised.read(&chat).await?;
        if matches!(kind, CaseKind::Switch | CaseKind::SwitchAndUnload) {
            let mut other = self.new_chat();
            self.ask(&mut other, self.prompt_tokens);
            self.supervised.read(&other).await?;
        }
        let mut is_reloaded = true;
        match kind {
            CaseKind::IdleUnload | CaseKind::SwitchAndUnload => {
                self.supervised.unload_idle().await?
            }
            CaseKind::PauseAndResume => self.supervised.pause_and_resume().await?,
            CaseKind::Restart => self.supervised.restart().await?,
            _ => is_reloaded = false,
        }
        self.respond(&mut chat);
        self.ask(&mut chat, QUESTION_TOKENS);
        let second = self.supervised.read(&chat).await?;
        let turn = Turn::new(&second.stats, first.stats.prompt_tokens);
        let mut case = self.finished(kind, &chat, vec![turn]).await?;
        if is_reloaded {
            case.load_time = self.supervised.load_time().await;
        }
        Ok(case)
    }

    async fn shared_system_prompt(&mut self, kind: CaseKind) -> Result<Case, BenchError> {
        let mut first = self.new_chat();
        let text = self.text(self.prompt_tokens);
        first.push(Role::System, text);
        let mut second = Chat {
            messages: first.messages.clone(),
            ..self.new_chat()
        };
        let known_tokens = self.tokens_before_question(&first).await?;
        self.ask(&mut first, QUESTION_TOKENS);
        self.ask(&mut second, QUESTION_TOKENS);
        self.supervised.read(&first).await?;
        let Reading { stats, .. } = self.supervised.read(&second).await?;
        let turn = Turn::new(&stats, known_tokens);
        self.finished(kind, &second, vec![turn]).await
    }

    /// Has a conversation of four turns, and replaces the question after the first `n_kept` messages.
    async fn edited(&mut self, kind: CaseKind, n_kept: usize) -> Result<Case, BenchError> {
        let mut chat = self.new_chat();
        let questions = [
            self.prompt_tokens / 2,
            self.prompt_tokens / 4,
            QUESTION_TOKENS,
            QUESTION_TOKENS,
        ];
        for n_tokens in questions {
            self.ask(&mut chat, n_tokens);
            self.respond(&mut chat);
        }
        let mut edited = chat.first(n_kept);
        let known_tokens = self.tokens_before_question(&edited).await?;
        for turn in 0..questions.len() {
            self.supervised.read(&chat.first(2 * turn + 1)).await?;
        }
        self.ask(&mut edited, questions[n_kept / 2]);
        let Reading { stats, .. } = self.supervised.read(&edited).await?;
        let turn = Turn::new(&stats, known_tokens);
        self.finished(kind, &edited, vec![turn]).await
    }

    /// Fills the context, and continues for some turns. As in the app, messages that were dropped
    /// are left out from then on.
    async fn overflow(&mut self, kind: CaseKind) -> Result<Case, BenchError> {
        let mut chat = Chat {
            truncation: Truncation::DropOldest {
                response_tokens: RESERVED_TOKENS,
                context_limit: None,
            },
            ..self.new_chat()
        };
        let turn_tokens = self.context_length / TURNS_PER_CONTEXT;
        let question_tokens = turn_tokens.saturating_sub(RESPONSE_TOKENS);
        // Half of the context at once, the other half turn by turn.
        for _ in 0..TURNS_PER_CONTEXT / 2 {
            self.ask(&mut chat, question_tokens);
            self.respond(&mut chat);
        }
        let mut turns = Vec::new();
        let (mut n_before, mut new_tokens) = (0, turn_tokens);
        for _ in 0..2 * TURNS_PER_CONTEXT {
            self.ask(&mut chat, question_tokens);
            let reading = self.supervised.read(&chat).await?;
            let n_tokens = reading.stats.prompt_tokens;
            if reading.dropped_messages > 0 {
                chat.messages.drain(..reading.dropped_messages);
            } else if n_before > 0 {
                new_tokens = n_tokens.saturating_sub(n_before);
            }
            if reading.dropped_messages > 0 || !turns.is_empty() {
                let known_tokens = n_tokens.saturating_sub(new_tokens);
                turns.push(Turn::new(&reading.stats, known_tokens));
            }
            if turns.len() == N_FULL_TURNS {
                return self.finished(kind, &chat, turns).await;
            }
            n_before = n_tokens;
            self.respond(&mut chat);
        }
        Err(BenchError::NeverFull {
            n_turns: 2 * TURNS_PER_CONTEXT,
            context_length: self.context_length,
        })
    }

    /// Ends a case whose last prompt was `chat`.
    async fn finished(
        &mut self,
        kind: CaseKind,
        chat: &Chat,
        turns: Vec<Turn>,
    ) -> Result<Case, BenchError> {
        let written_bytes = self.supervised.take_written_bytes();
        let cold = self.supervised.read_cold(chat).await?;
        Ok(Case::new(kind, turns, &cold, written_bytes, None))
    }

    /// Returns the tokens of a prompt before a new question. A few tokens that the template writes
    /// after the question are included. Deletes all KV caches.
    async fn tokens_before_question(&mut self, chat: &Chat) -> Result<usize, BenchError> {
        let mut chat = chat.clone();
        chat.push(Role::User, SHORTEST_QUESTION.to_owned());
        self.supervised.count(&chat).await
    }

    fn new_chat(&mut self) -> Chat {
        self.n_chats += 1;
        Chat {
            id: ConversationId(self.n_chats),
            messages: Vec::new(),
            truncation: Truncation::Disabled,
        }
    }

    fn ask(&mut self, chat: &mut Chat, n_tokens: usize) {
        chat.push(Role::User, self.text(n_tokens));
    }

    fn respond(&mut self, chat: &mut Chat) {
        chat.push(Role::Assistant, self.text(RESPONSE_TOKENS));
    }

    /// Returns the text of a message of about `n_tokens` tokens, which no other message has.
    fn text(&mut self, n_tokens: usize) -> String {
        self.n_messages += 1;
        self.sizes.text(self.n_messages, n_tokens)
    }
}
