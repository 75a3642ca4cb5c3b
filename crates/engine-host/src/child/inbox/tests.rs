use transom_engine::{GenerationParams, Prompt, Trim};

use super::*;
use crate::wire::Request;

const TRIM: Command = Command::Trim {
    trim: Trim::KeepConversation,
};
const UNLOAD: Command = Command::Unload { save: None };

fn generate(job: u64) -> (Task, JobControl) {
    let request = Request {
        prompt: Prompt::Text("hello".to_owned()),
        truncation: transom_engine::Truncation::Disabled,
        params: GenerationParams::default(),
    };
    let task = Task::new(Command::Generate {
        job: JobId(job),
        request: Box::new(request),
    });
    let control = task.control.clone();
    (task, control)
}

fn take(inbox: &Inbox) -> Option<Command> {
    match inbox.take(None, || {}) {
        Next::Task(task) => Some(task.command),
        Next::Busy | Next::Idle | Next::Closed => None,
    }
}

#[test]
fn a_stop_reaches_its_job_queued_or_running_and_no_other() {
    let inbox = Inbox::default();
    let (first, first_control) = generate(1);
    let (second, second_control) = generate(2);
    inbox.push(first);
    inbox.push(second);
    inbox.stop(Some(JobId(2)), FinishReason::Shed);
    assert!(!first_control.is_stopped());
    assert_eq!(second_control.stop_reason(), Some(FinishReason::Shed));
    assert!(take(&inbox).is_some());
    inbox.stop(None, FinishReason::Canceled);
    assert!(!first_control.is_stopped());
    inbox.stop(Some(JobId(1)), FinishReason::Canceled);
    assert_eq!(first_control.stop_reason(), Some(FinishReason::Canceled));
}

/// A job ends only after the save before it.
#[test]
fn a_stop_of_a_queued_job_gives_up_the_save_before_it() {
    for is_running in [true, false] {
        let inbox = Inbox::default();
        let (first, first_control) = generate(1);
        let save_task = Task::new(Command::Save { max_bytes: 1 });
        let save = save_task.control.clone();
        if !is_running {
            inbox.push(first);
            assert!(take(&inbox).is_some());
        }
        inbox.push(save_task);
        if is_running {
            assert!(take(&inbox).is_some());
        }
        inbox.stop(Some(JobId(1)), FinishReason::Canceled);
        assert!(!save.is_stopped(), "job 1 does not wait for it");
        let (second, second_control) = generate(2);
        inbox.push(second);
        inbox.stop(Some(JobId(2)), FinishReason::Canceled);
        assert!(save.is_stopped() && second_control.is_stopped());
        assert_eq!(first_control.is_stopped(), !is_running);
    }
}

#[test]
fn a_stop_of_a_job_that_has_ended_is_ignored() {
    let inbox = Inbox::default();
    let (first, _) = generate(1);
    inbox.push(first);
    assert!(take(&inbox).is_some());
    inbox.ended(JobId(1));
    let (second, second_control) = generate(2);
    inbox.push(second);
    assert!(take(&inbox).is_some());
    inbox.stop(Some(JobId(1)), FinishReason::Canceled);
    assert!(!second_control.is_stopped());
}

#[test]
fn a_trim_reaches_the_running_job_at_once_and_is_also_queued() {
    let inbox = Inbox::default();
    let (job, control) = generate(1);
    inbox.push(job);
    assert!(take(&inbox).is_some());
    inbox.push(Task::new(TRIM));
    assert!(control.take_trim_request());
    assert!(take(&inbox).is_none());
    inbox.ended(JobId(1));
    assert_eq!(take(&inbox), Some(TRIM));
}

#[test]
fn an_unload_stops_everything_before_it() {
    let inbox = Inbox::default();
    let (first, first_control) = generate(1);
    let (second, second_control) = generate(2);
    inbox.push(first);
    assert!(take(&inbox).is_some());
    inbox.push(second);
    inbox.push(Task::new(UNLOAD));
    assert!(first_control.is_stopped() && second_control.is_stopped());
    assert!(matches!(take(&inbox), Some(Command::Generate { .. })));
    for job in [1, 2] {
        assert!(matches!(inbox.take(None, || {}), Next::Busy));
        inbox.ended(JobId(job));
    }
    assert_eq!(take(&inbox), Some(UNLOAD));
}

#[test]
fn jobs_start_beside_running_ones_and_other_tasks_wait_for_them() {
    let inbox = Inbox::default();
    let jobs = [1, 2, 3].map(generate);
    let [first, second, third] = jobs.map(|(task, _)| task);
    inbox.push(first);
    inbox.push(second);
    inbox.push(Task::new(TRIM));
    inbox.push(third);
    assert_eq!(inbox.n_queued_responses(), 2);
    let is_job =
        |command: Option<Command>, id| command.and_then(|command| command.job()) == Some(JobId(id));
    assert!(is_job(take(&inbox), 1) && is_job(take(&inbox), 2));
    assert_eq!(inbox.n_queued_responses(), 0);
    // Also if one of the jobs has ended, and also for the job after the trim.
    assert!(take(&inbox).is_none());
    inbox.ended(JobId(1));
    assert!(take(&inbox).is_none());
    inbox.ended(JobId(2));
    assert_eq!(take(&inbox), Some(TRIM));
    assert!(is_job(take(&inbox), 3));
}

#[test]
fn a_closed_inbox_stops_the_job_and_has_no_more_tasks() {
    let inbox = Inbox::default();
    let (first, control) = generate(1);
    inbox.push(first);
    assert!(take(&inbox).is_some());
    inbox.push(Task::new(UNLOAD));
    inbox.close();
    assert!(control.is_stopped());
    assert!(take(&inbox).is_none());
}

#[test]
fn a_queued_task_is_taken_even_if_the_time_has_passed() {
    let inbox = Inbox::default();
    let (first, _) = generate(1);
    inbox.push(first);
    let past = Some(Instant::now());
    assert!(matches!(inbox.take(past, || {}), Next::Task(_)));
    assert!(matches!(inbox.take(past, || {}), Next::Busy));
    inbox.ended(JobId(1));
    assert!(matches!(inbox.take(past, || {}), Next::Idle));
    inbox.close();
    assert!(matches!(inbox.take(past, || {}), Next::Closed));
}

#[test]
fn an_engine_that_checks_for_a_stop_has_a_heartbeat() {
    let inbox = Inbox::default();
    let (first, control) = generate(1);
    inbox.push(first);
    let beats = || {
        let mut n_beats = 0;
        inbox.beat_if_polled(|| n_beats += 1);
        n_beats
    };
    control.is_stopped();
    assert_eq!(beats(), 0, "a queued job is no heartbeat");
    assert!(take(&inbox).is_some());
    assert_eq!(beats(), 1);
    assert_eq!(beats(), 0);
    control.is_stopped();
    assert_eq!(beats(), 1);
}
