//! The task that owns the queue: receives commands and events, starts jobs and publishes the list.
//!
//! Rule: it decides nothing; `Queue` does. It never waits for a job. Work that must wait for the
//! end of a job, such as deleting the part files of a canceled download, is done when the `Ended`
//! event arrives.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;

use super::saved_queue::{restore, save};
use crate::disk::{create_folder, disk_error};
use crate::job::{DownloadEvent, EventSender, Job, JobControl, Shared};
use crate::lock::Lock;
use crate::queue::{Effect, Queue, SavedDownload};
use crate::{
    Download, DownloadId, DownloadRequest, DownloadsOptions, Hub, HubError, QueuePosition,
};

/// How often the list is published while only numbers change.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(250);

type Reply<T> = oneshot::Sender<Result<T, HubError>>;

#[derive(Debug)]
pub(super) enum Command {
    Add(Box<DownloadRequest>, Reply<DownloadId>),
    Pause(DownloadId, Reply<()>),
    Resume(DownloadId, Reply<()>),
    Cancel(DownloadId, Reply<u64>),
    Move(DownloadId, QueuePosition, Reply<()>),
    Stop(oneshot::Sender<()>),
}

pub(super) struct Driver {
    shared: Arc<Shared>,
    queue: Queue,
    controls: HashMap<DownloadId, watch::Sender<JobControl>>,
    cancellations: Vec<(DownloadId, DownloadRequest, Reply<u64>)>,
    stop_replies: Vec<oneshot::Sender<()>>,
    list: watch::Sender<Arc<Vec<Download>>>,
    event_sender: mpsc::UnboundedSender<(DownloadId, u64, DownloadEvent)>,
    event_receiver: mpsc::UnboundedReceiver<(DownloadId, u64, DownloadEvent)>,
    /// Locked if the queue is saved, because two programs cannot write one file.
    queue_lock: Option<Lock>,
    last_saved: Vec<SavedDownload>,
    /// Held while bytes are received or verified. A download that waits for the network lets the
    /// computer sleep.
    keep_awake: Option<Box<dyn Send + Sync>>,
}

impl Driver {
    pub(super) async fn open(hub: Hub, options: DownloadsOptions) -> Result<Self, HubError> {
        let shared = Arc::new(Shared::new(hub, options));
        let at = Arc::clone(&shared);
        let opened = spawn_blocking(move || {
            let folder = &at.options.parts_folder;
            create_folder(folder)?;
            let mut queue = Queue::new(at.options.max_concurrent);
            let queue_lock = match at.options.is_persistent {
                true => Lock::take(folder, "the queue")
                    .inspect_err(|error| tracing::warn!(%error, "the queue is not saved"))
                    .ok(),
                false => None,
            };
            if queue_lock.is_some() {
                restore(&at, &mut queue);
            }
            Ok((queue, queue_lock))
        });
        let (queue, queue_lock) = opened.await.unwrap_or(Err(HubError::Stopped))?;
        let (event_sender, event_receiver) = mpsc::unbounded_channel();
        let list = watch::Sender::new(Arc::new(queue.list()));
        Ok(Self {
            shared,
            last_saved: queue.saved(),
            queue,
            controls: HashMap::new(),
            cancellations: Vec::new(),
            stop_replies: Vec::new(),
            list,
            event_sender,
            event_receiver,
            queue_lock,
            keep_awake: None,
        })
    }

    pub(super) fn watch(&self) -> watch::Receiver<Arc<Vec<Download>>> {
        self.list.subscribe()
    }

    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut publish_at: Option<tokio::time::Instant> = None;
        let mut is_open = true;
        self.apply().await;
        loop {
            let is_progress_only = tokio::select! {
                command = commands.recv(), if is_open => {
                    match command {
                        Some(command) => self.on_command(command),
                        None => {
                            is_open = false;
                            self.queue.stop();
                        }
                    }
                    false
                }
                received = self.event_receiver.recv() => {
                    match received {
                        Some((id, run, event)) => self.on_event(id, run, event),
                        None => return,
                    }
                }
                () = until(publish_at) => {
                    publish_at = None;
                    self.publish_list();
                    continue;
                }
            };
            if is_progress_only {
                publish_at.get_or_insert_with(|| tokio::time::Instant::now() + PUBLISH_INTERVAL);
                continue;
            }
            self.apply().await;
            publish_at = None;
            if !self.queue.has_running() {
                if !self.stop_replies.is_empty() {
                    // Whoever waits for the stop may open the queue again.
                    self.queue_lock = None;
                }
                for stopped in self.stop_replies.drain(..) {
                    let _ = stopped.send(());
                }
                if !is_open && self.cancellations.is_empty() {
                    return;
                }
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Add(request, reply) => {
                let _ = reply.send(Ok(self.queue.add(*request)));
            }
            Command::Pause(id, reply) => {
                let _ = reply.send(self.queue.pause(id));
            }
            Command::Resume(id, reply) => {
                let resumed = self.queue.resume(id).map(|is_waiting| {
                    if is_waiting {
                        self.control(id, |control| control.n_retry_requests += 1);
                    }
                });
                let _ = reply.send(resumed);
            }
            Command::Move(id, place, reply) => {
                let _ = reply.send(self.queue.move_to(id, place));
            }
            Command::Cancel(id, reply) if self.queue.is_done(id) => {
                self.queue.remove(id);
                let _ = reply.send(Ok(0));
            }
            Command::Cancel(id, reply) => match self.queue.cancel(id) {
                Ok(request) => self.cancellations.push((id, request, reply)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Stop(reply) => {
                self.queue.stop();
                self.stop_replies.push(reply);
            }
        }
    }

    /// Returns true if only numbers changed, which need not be published at once.
    fn on_event(&mut self, id: DownloadId, run: u64, event: DownloadEvent) -> bool {
        let is_progress_only = matches!(
            event,
            DownloadEvent::Progress { .. } | DownloadEvent::State(crate::State::Verifying { .. })
        );
        let is_end = matches!(event, DownloadEvent::Ended(_));
        let is_current = self.queue.on_event(id, run, event, Instant::now());
        if is_current && is_end {
            self.controls.remove(&id);
        }
        is_progress_only || !is_current
    }

    /// Applies the current state of the queue: starts and stops jobs, deletes canceled downloads,
    /// saves and publishes the list.
    async fn apply(&mut self) {
        for effect in self.queue.schedule() {
            match effect {
                Effect::Start { id, run } => self.start(id, run),
                Effect::Stop(id) => self.control(id, |control| control.should_stop = true),
            }
        }
        self.delete_canceled().await;
        self.save_queue().await;
        self.publish_list();
        self.update_keep_awake();
    }

    fn update_keep_awake(&mut self) {
        let list = self.list.borrow();
        let is_busy = list.iter().any(|download| download.state.is_busy());
        match (is_busy, &self.keep_awake) {
            (true, None) => self.keep_awake = Some((self.shared.options.keep_awake)()),
            (false, Some(_)) => self.keep_awake = None,
            _ => {}
        }
    }

    fn control(&self, id: DownloadId, change: impl FnOnce(&mut JobControl)) {
        if let Some(control) = self.controls.get(&id) {
            control.send_modify(change);
        }
    }

    fn start(&mut self, id: DownloadId, run: u64) {
        let Some(request) = self.queue.request(id).cloned() else {
            return;
        };
        let (control, control_receiver) = watch::channel(JobControl::default());
        self.controls.insert(id, control);
        let events = EventSender {
            id,
            run,
            sender: self.event_sender.clone(),
        };
        let job = Job {
            shared: Arc::clone(&self.shared),
            request,
            events: events.clone(),
            control: control_receiver,
        };
        tokio::spawn(async move {
            // The job has its own task, so even a panic is reported as the end of the job.
            let ended = tokio::spawn(job.run()).await;
            events.send(DownloadEvent::Ended(
                ended.unwrap_or(Err(HubError::Stopped)),
            ));
        });
    }

    /// Deletes the part files of canceled downloads whose job has ended.
    async fn delete_canceled(&mut self) {
        let (idle, running) = std::mem::take(&mut self.cancellations)
            .into_iter()
            .partition(|(id, _, _)| self.queue.is_idle(*id));
        self.cancellations = running;
        for (id, request, reply) in idle {
            self.queue.remove(id);
            let folder = self.shared.folder(&request.key);
            let freed_bytes = spawn_blocking(move || {
                if !folder.exists() {
                    return Ok(0);
                }
                // Locked while the files are deleted. If another program downloads the same model,
                // its files stay.
                let _lock = match Lock::take(&folder, &request.name) {
                    Err(HubError::InUse { .. }) => return Ok(0),
                    lock => lock?,
                };
                let bytes = transom_files::disk_usage_bytes(&folder);
                let removed = fs::remove_dir_all(&folder);
                removed.map_err(|error| disk_error(&folder, &error))?;
                Ok(bytes)
            });
            let _ = reply.send(freed_bytes.await.unwrap_or(Err(HubError::Stopped)));
        }
    }

    async fn save_queue(&mut self) {
        let saved = self.queue.saved();
        if self.queue_lock.is_none() || saved == self.last_saved {
            return;
        }
        let folder = self.shared.options.parts_folder.clone();
        let written = saved.clone();
        let result = spawn_blocking(move || save(&folder, written)).await;
        match result.unwrap_or(Err(HubError::Stopped)) {
            Ok(()) => self.last_saved = saved,
            // Saving is tried again after the next change of the queue.
            Err(error) => tracing::warn!(%error, "the queue could not be saved"),
        }
    }

    fn publish_list(&self) {
        let list = self.queue.list();
        self.list.send_if_modified(|published| {
            let is_new = **published != list;
            if is_new {
                *published = Arc::new(list);
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
