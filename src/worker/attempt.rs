//! One attempt of one run, from its assignment to its end.
//!
//! One thread decides. What happens reaches it as an [`Event`]: the guard reports, a heartbeat was answered or not, the
//! worker shall stop. It waits for the next event no longer than the lease lasts. Whenever it wakes it looks at the
//! deadline first: a worker that was frozen past it finds its command killed by the guard, and takes it for lost, even
//! if a heartbeat's answer was waiting. Only the end of the command by itself counts for more, since the coordinator
//! knows best whether a result is late.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use log::{debug, info, warn};

use crate::protocol::{AssignmentPayload, Binding, WorkerResult};

use super::client::{Answer, Client, NoAnswer};
use super::command::{Group, Launch};
use super::control::{Exit, Report};
use super::exchange::Assignment;
use super::lease::Lease;
use super::moment::Moment;
use super::outcome::{failed, oversized_result, result_of};
use super::output::Output;
use super::service::Worker;

/// How long the output of a command that ended may stay open before its group is killed, and after.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// How an attempt ended for this worker.
pub(super) enum End {
    /// There is a result to deliver.
    Result(WorkerResult),
    /// The run is somebody else's by now, or will be; there is nothing to say.
    Lost(String),
    /// The worker was told to stop.
    Stopped,
}

/// What the deciding thread is told.
enum Event {
    Report(Report),
    /// The guard will tell no more.
    GuardEnded,
    Beat {
        sent: Moment,
        answer: Result<Answer, NoAnswer>,
    },
    Stop,
}

/// Works on an assignment that was polled for at `sent`.
pub(super) fn work(worker: &Worker, assignment: &Assignment, sent: Moment) -> End {
    let binding = &assignment.binding;
    let payload = match &assignment.payload {
        Ok(payload) => payload,
        Err(error) => {
            let reason = format!("this worker cannot read the assignment: {error}");
            return End::Result(failed(reason));
        }
    };
    let lease = Lease::granted(sent, payload.limits.lease_seconds);
    let lease = match confirm(worker, binding, lease) {
        Ok(lease) => lease,
        Err(lost) => return End::Lost(lost),
    };
    match Attempt::start(worker, binding, payload, lease) {
        Ok(attempt) => attempt.finish(worker),
        Err(error) => failed_here(binding, unstartable(error)),
    }
}

fn unstartable(why: impl std::fmt::Display) -> String {
    format!("the worker could not start its command: {why}")
}

/// A run that failed by no fault of its command. The operator of this worker is told too.
fn failed_here(binding: &Binding, reason: String) -> End {
    warn!("{}: {reason}", Named(binding));
    End::Result(failed(reason))
}

/// An assignment may reach the worker late, behind a long poll or a frozen worker. Then nothing is started on a lease
/// that may be over: a heartbeat has to be answered first.
fn confirm(worker: &Worker, binding: &Binding, mut lease: Lease) -> Result<Lease, String> {
    let sent = Moment::now();
    if lease.is_long_enough_to_start(sent) {
        return Ok(lease);
    }
    match worker
        .client
        .heartbeat(binding, String::new(), lease.request_limit())
    {
        Ok(Answer::Accepted) => {
            lease.extend(sent);
            Ok(lease)
        }
        Ok(Answer::Refused(refusal)) => Err(refusal.to_string()),
        Err(no_answer) => Err(format!("the lease could not be confirmed: {no_answer}")),
    }
}

/// A command that was started for an attempt.
struct Attempt<'a> {
    binding: &'a Binding,
    lease: Lease,
    group: Group,
    output: Arc<Output>,
    events: Receiver<Event>,
    /// Heartbeats go on until this is dropped.
    _beating: Sender<()>,
}

impl<'a> Attempt<'a> {
    fn start(
        worker: &Worker,
        binding: &'a Binding,
        payload: &AssignmentPayload,
        lease: Lease,
    ) -> std::io::Result<Self> {
        let folder = worker.workspace.folder_of(binding)?;
        let launch = Launch {
            guard_executable: &worker.guard_executable,
            group_lock: &worker.workspace.group_lock(),
            command: &worker.command,
            folder: &folder,
            binding,
            context: &payload.context,
            deadline: lease.deadline(),
        };
        let (sender, events) = mpsc::channel();
        let reports = sender.clone();
        let (group, streams) = Group::launch(&launch, move |report| {
            let _ = reports.send(report.map_or(Event::GuardEnded, Event::Report));
        })?;
        let output = Output::collect(streams.stdout, streams.stderr);
        let stops = sender.clone();
        worker.stop.notify(move || {
            let _ = stops.send(Event::Stop);
        });
        let heart = Heart {
            client: Arc::clone(&worker.client),
            binding: binding.clone(),
            lease,
            output: Arc::clone(&output),
            events: sender,
        };
        let (beating, end) = mpsc::channel();
        thread::spawn(move || heart.beat_until(&end));
        Ok(Self {
            binding,
            lease,
            group,
            output,
            events,
            _beating: beating,
        })
    }

    /// Waits for the end, whatever it is, and leaves nothing of the command behind.
    fn finish(mut self, worker: &Worker) -> End {
        let binding = self.binding;
        match self.wait() {
            Waited::Ended(exit) => {
                info!("{}: the command ended: {exit}", Named(binding));
                let result = self.collect(exit);
                if worker.client.can_submit(binding, &result) {
                    End::Result(result)
                } else {
                    End::Result(oversized_result(&exit.to_string()))
                }
            }
            Waited::Failed(reason) => failed_here(binding, reason),
            Waited::Lost(why) => End::Lost(why),
            Waited::Stopped => End::Stopped,
        }
    }

    fn wait(&mut self) -> Waited {
        loop {
            let left = Moment::now().until(self.lease.deadline());
            let event = self.events.recv_timeout(left);
            match event {
                Ok(Event::Report(report)) => return report.into(),
                _ if self.lease.has_passed(Moment::now()) => return self.lapsed(),
                Ok(Event::Beat { sent, answer }) => {
                    if let Some(lost) = self.beat_answered(sent, answer) {
                        return lost;
                    }
                }
                Ok(Event::GuardEnded) => {
                    return Waited::Failed("the guard of the command was killed".to_owned());
                }
                Ok(Event::Stop) => return Waited::Stopped,
                // The deadline is not reached: the wait was shortened by rounding.
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Waited::Lost("the threads of this attempt ended".to_owned());
                }
            }
        }
    }

    fn beat_answered(&mut self, sent: Moment, answer: Result<Answer, NoAnswer>) -> Option<Waited> {
        match answer {
            Ok(Answer::Accepted) => {
                self.lease.extend(sent);
                if let Err(error) = self.group.extend(self.lease.deadline()) {
                    // The guard keeps to the deadline it knows, or is gone and will be reported so.
                    warn!(
                        "{}: the guard does not listen: {error}",
                        Named(self.binding)
                    );
                }
                debug!("{}: the lease was extended", Named(self.binding));
                None
            }
            Ok(Answer::Refused(refusal)) => Some(Waited::Lost(refusal.to_string())),
            Err(no_answer) => {
                warn!("{}: heartbeat: {no_answer}", Named(self.binding));
                None
            }
        }
    }

    /// The lease is over. Had the command ended before, and this thread only slept, its end is still among the events.
    fn lapsed(&self) -> Waited {
        let ended = self.events.try_iter().find_map(|event| match event {
            Event::Report(report) => Some(report.into()),
            _ => None,
        });
        ended.unwrap_or_else(|| Waited::Lost("no heartbeat was answered in time".to_owned()))
    }

    /// The result of a command that ended. What it left running may hold its output open, but not for long.
    fn collect(self, exit: Exit) -> WorkerResult {
        if !self.output.wait_closed(OUTPUT_GRACE) {
            debug!("{}: processes were left behind", Named(self.binding));
        }
        drop(self.group);
        if !self.output.wait_closed(OUTPUT_GRACE) {
            warn!(
                "{}: a process that left its group holds the output open",
                Named(self.binding)
            );
        }
        let last_line = self.output.last_line();
        result_of(exit, last_line.as_deref(), &self.output.tail())
    }
}

enum Waited {
    Ended(Exit),
    Failed(String),
    Lost(String),
    Stopped,
}

impl From<Report> for Waited {
    fn from(report: Report) -> Self {
        match report {
            Report::Ended(exit) => Self::Ended(exit),
            Report::Unstartable(why) => Self::Failed(unstartable(why)),
        }
    }
}

/// The heartbeats of one attempt. Nothing the command does reaches this thread.
struct Heart {
    client: Arc<Client>,
    binding: Binding,
    lease: Lease,
    output: Arc<Output>,
    events: Sender<Event>,
}

impl Heart {
    /// Beats at once, since the lease may be as old as the poll, then at intervals until `end` is closed or the lease is
    /// over: a worker that was frozen past it asks for nothing that it is about to kill.
    fn beat_until(mut self, end: &Receiver<()>) {
        let mut wait = Duration::ZERO;
        while end.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            let sent = Moment::now();
            if self.lease.has_passed(sent) {
                return;
            }
            let limit = self.lease.request_limit();
            let answer = self
                .client
                .heartbeat(&self.binding, self.output.tail(), limit);
            if matches!(answer, Ok(Answer::Accepted)) {
                self.lease.extend(sent);
            }
            wait = match &answer {
                Ok(_) => Moment::now().until(sent + self.lease.beat_interval()),
                Err(no_answer) => no_answer
                    .retry_after()
                    .unwrap_or_default()
                    .clamp(self.lease.retry_interval(), self.lease.beat_interval()),
            };
            if self.events.send(Event::Beat { sent, answer }).is_err() {
                return;
            }
        }
    }
}

/// How an attempt is called in the log.
pub(super) struct Named<'a>(pub(super) &'a Binding);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Binding {
            board,
            task_id,
            run_id,
            attempt,
            ..
        } = self.0;
        write!(f, "{board}/{task_id} run {run_id} attempt {attempt}")
    }
}
