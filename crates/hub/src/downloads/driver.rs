//! The one task that owns the queue: wishes and news in, runs and lists out.
//!
//! Rule: it decides nothing; `Queue` does. It never waits for a run: what must wait for one to end
//! (a cancelled download's parts) is done when the news of that end comes.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use transom_signals::KeepAwake;

use super::kept::{keep, restore};
use super::{DownloadsOptions, Freed};
use crate::disk::{make_folder, trouble};
use crate::job::{Job, News, Order, Shared, Teller};
use crate::lock::Lock;
use crate::queue::{Effect, Kept, Queue};
use crate::{Download, DownloadId, Hub, HubError, Place, Wanted};

/// How often people see bytes count.
const SHOW_EVERY: Duration = Duration::from_millis(250);

type Reply<T> = oneshot::Sender<Result<T, HubError>>;

/// What a handle asks for.
#[derive(Debug)]
pub(super) enum Command {
    Add(Box<Wanted>, Reply<DownloadId>),
    Pause(DownloadId, Reply<()>),
    Resume(DownloadId, Reply<()>),
    Cancel(DownloadId, Reply<Freed>),
    Move(DownloadId, Place, Reply<()>),
    Stop(oneshot::Sender<()>),
}

pub(super) struct Driver {
    shared: Arc<Shared>,
    queue: Queue,
    orders: HashMap<DownloadId, watch::Sender<Order>>,
    cancels: Vec<(DownloadId, Wanted, Reply<Freed>)>,
    stops: Vec<oneshot::Sender<()>>,
    list: watch::Sender<Arc<Vec<Download>>>,
    news: mpsc::UnboundedSender<(DownloadId, u64, News)>,
    heard: mpsc::UnboundedReceiver<(DownloadId, u64, News)>,
    /// Held where the queue is kept: two programs cannot keep one file.
    keeper: Option<Lock>,
    last_kept: Vec<Kept>,
    /// Held while bytes come or are verified. A download that waits for the network lets the machine
    /// sleep.
    awake: Option<KeepAwake>,
}

impl Driver {
    pub(super) async fn open(hub: Hub, options: DownloadsOptions) -> Result<Self, HubError> {
        let shared = Arc::new(Shared::new(hub, options));
        let at = Arc::clone(&shared);
        let opened = spawn_blocking(move || {
            let folder = &at.options.parts_folder;
            make_folder(folder)?;
            let mut queue = Queue::new(at.options.at_once);
            let keeper = match at.options.is_kept {
                true => Lock::take(folder, "the queue")
                    .inspect_err(|error| tracing::warn!(%error, "the queue is not kept"))
                    .ok(),
                false => None,
            };
            if keeper.is_some() {
                restore(&at, &mut queue);
            }
            Ok((queue, keeper))
        });
        let (queue, keeper) = opened.await.unwrap_or(Err(HubError::Stopped))?;
        let (news, heard) = mpsc::unbounded_channel();
        let list = watch::Sender::new(Arc::new(queue.list()));
        Ok(Self {
            shared,
            last_kept: queue.kept(),
            queue,
            orders: HashMap::new(),
            cancels: Vec::new(),
            stops: Vec::new(),
            list,
            news,
            heard,
            keeper,
            awake: None,
        })
    }

    pub(super) fn watch(&self) -> watch::Receiver<Arc<Vec<Download>>> {
        self.list.subscribe()
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut show_at: Option<tokio::time::Instant> = None;
        let mut is_open = true;
        self.act().await;
        loop {
            let is_quiet = tokio::select! {
                command = inbox.recv(), if is_open => {
                    match command {
                        Some(command) => self.obey(command),
                        None => {
                            is_open = false;
                            self.queue.stop();
                        }
                    }
                    false
                }
                heard = self.heard.recv() => {
                    match heard {
                        Some((id, run, news)) => self.hear(id, run, news),
                        None => return,
                    }
                }
                () = until(show_at) => {
                    show_at = None;
                    self.show();
                    continue;
                }
            };
            if is_quiet {
                show_at.get_or_insert_with(|| tokio::time::Instant::now() + SHOW_EVERY);
                continue;
            }
            self.act().await;
            show_at = None;
            if !self.queue.runs() {
                if !self.stops.is_empty() {
                    // Who hears of the end may open the queue anew.
                    self.keeper = None;
                }
                for stopped in self.stops.drain(..) {
                    let _ = stopped.send(());
                }
                if !is_open && self.cancels.is_empty() {
                    return;
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Add(wanted, reply) => {
                let _ = reply.send(Ok(self.queue.add(*wanted)));
            }
            Command::Pause(id, reply) => {
                let _ = reply.send(self.queue.pause(id));
            }
            Command::Resume(id, reply) => {
                let resumed = self.queue.resume(id).map(|waits| {
                    if waits {
                        self.order(id, |order| order.n_nudges += 1);
                    }
                });
                let _ = reply.send(resumed);
            }
            Command::Move(id, place, reply) => {
                let _ = reply.send(self.queue.move_to(id, place));
            }
            Command::Cancel(id, reply) if self.queue.is_done(id) => {
                self.queue.remove(id);
                let _ = reply.send(Ok(Freed { bytes: 0 }));
            }
            Command::Cancel(id, reply) => match self.queue.cancel(id) {
                Ok(wanted) => self.cancels.push((id, wanted, reply)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Stop(reply) => {
                self.queue.stop();
                self.stops.push(reply);
            }
        }
    }

    /// True where only numbers changed, which people need not see at once.
    fn hear(&mut self, id: DownloadId, run: u64, news: News) -> bool {
        let is_quiet = matches!(
            news,
            News::Bytes { .. } | News::State(crate::State::Verifying { .. })
        );
        let is_end = matches!(news, News::Ended(_));
        let counts = self.queue.note(id, run, news, Instant::now());
        if counts && is_end {
            self.orders.remove(&id);
        }
        is_quiet || !counts
    }

    /// Does what follows from the queue as it is now.
    async fn act(&mut self) {
        for effect in self.queue.settle() {
            match effect {
                Effect::Start { id, run } => self.start(id, run),
                Effect::Stop(id) => self.order(id, |order| order.stop = true),
            }
        }
        self.free_cancelled().await;
        self.keep().await;
        self.show();
        self.stay_awake();
    }

    fn stay_awake(&mut self) {
        let list = self.list.borrow();
        let is_busy = list.iter().any(|download| download.state.is_busy());
        match (is_busy, &self.awake) {
            (true, None) => self.awake = Some(KeepAwake::begin("a model is downloading")),
            (false, Some(_)) => self.awake = None,
            _ => {}
        }
    }

    fn order(&self, id: DownloadId, change: impl FnOnce(&mut Order)) {
        if let Some(order) = self.orders.get(&id) {
            order.send_modify(change);
        }
    }

    fn start(&mut self, id: DownloadId, run: u64) {
        let Some(wanted) = self.queue.wanted(id).cloned() else {
            return;
        };
        let (order, ordered) = watch::channel(Order::default());
        self.orders.insert(id, order);
        let teller = Teller {
            id,
            run,
            news: self.news.clone(),
        };
        let job = Job {
            shared: Arc::clone(&self.shared),
            wanted,
            teller: teller.clone(),
            order: ordered,
        };
        tokio::spawn(async move {
            // In a task of its own, so that even a panic is an end that is told.
            let ended = tokio::spawn(job.run()).await;
            teller.tell(News::Ended(ended.unwrap_or(Err(HubError::Stopped))));
        });
    }

    /// Deletes the parts of cancelled downloads that no longer run.
    async fn free_cancelled(&mut self) {
        let (idle, running) = std::mem::take(&mut self.cancels)
            .into_iter()
            .partition(|(id, _, _)| self.queue.is_idle(*id));
        self.cancels = running;
        for (id, wanted, reply) in idle {
            self.queue.remove(id);
            let folder = self.shared.folder(&wanted.key);
            let freed = spawn_blocking(move || {
                if !folder.exists() {
                    return Ok(Freed { bytes: 0 });
                }
                // Held while its contents go; another program that fetches the same keeps them.
                let _lock = match Lock::take(&folder, &wanted.name) {
                    Err(HubError::InUse { .. }) => return Ok(Freed { bytes: 0 }),
                    lock => lock?,
                };
                let bytes = transom_files::taken_bytes(&folder);
                let removed = fs::remove_dir_all(&folder);
                removed.map_err(|error| trouble(&folder, &error))?;
                Ok(Freed { bytes })
            });
            let _ = reply.send(freed.await.unwrap_or(Err(HubError::Stopped)));
        }
    }

    async fn keep(&mut self) {
        let kept = self.queue.kept();
        if self.keeper.is_none() || kept == self.last_kept {
            return;
        }
        let folder = self.shared.options.parts_folder.clone();
        let written = kept.clone();
        let result = spawn_blocking(move || keep(&folder, written)).await;
        match result.unwrap_or(Err(HubError::Stopped)) {
            Ok(()) => self.last_kept = kept,
            // Tried again with the next change of any line.
            Err(error) => tracing::warn!(%error, "the queue could not be kept"),
        }
    }

    fn show(&self) {
        let list = self.queue.list();
        self.list.send_if_modified(|shown| {
            let is_new = **shown != list;
            if is_new {
                *shown = Arc::new(list);
            }
            is_new
        });
    }
}

async fn until(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
