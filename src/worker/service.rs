//! The loop of a worker: deliver what was left, then poll, work, deliver, again and again.
//!
//! Questions to the coordinator are asked on threads of their own, so that the loop can be told to stop at any time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use log::{error, info, warn};
use ureq::http::Uri;

use crate::clock::SystemClock;
use crate::protocol::{MAX_WAIT_SECONDS, WorkerResult, read_key};

use super::attempt::{self, End, Named};
use super::backoff::Backoff;
use super::client::{Answer, Client, NoAnswer, Polled};
use super::exchange::{Assignment, new_delivery_id};
use super::moment::Moment;
use super::outbox::{Outbox, Undelivered};
use super::program::find;
use super::signals::Stop;
use super::workspace::Workspace;
use super::{WorkerError, WorkerSettings};

/// How long a worker that was told to stop tries to deliver what it has to say.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The pause after an idle answer that came although the poll asked to be kept waiting: the coordinator stops, or a
/// newer poll of the same ordinal took the place of this one.
const EARLY_IDLE_PAUSE: Duration = Duration::from_millis(200);

/// A worker that can begin.
pub(super) struct Worker {
    pub(super) client: Arc<Client>,
    pub(super) workspace: Workspace,
    pub(super) guard_executable: PathBuf,
    pub(super) command: Vec<OsString>,
    pub(super) stop: Stop,
    outbox: Outbox,
}

impl Worker {
    /// Checks the settings and takes possession of the workspace.
    pub(super) fn new(settings: WorkerSettings) -> Result<Self, WorkerError> {
        let command = found(settings.command)?;
        if !is_coordinator(&settings.coordinator) {
            return Err(WorkerError::InvalidUrl {
                url: settings.coordinator,
            });
        }
        let key = read_key(&settings.key_file).map_err(|error| WorkerError::Key {
            path: settings.key_file,
            error,
        })?;
        let workspace = Workspace::open(&settings.workspace, settings.ordinal)?;
        let clock = Arc::new(SystemClock::new());
        let client = Client::new(&settings.coordinator, key, settings.ordinal, clock);
        Ok(Self {
            client: Arc::new(client),
            outbox: workspace.outbox(),
            workspace,
            guard_executable: settings.guard_executable,
            command,
            stop: Stop::on_signals().map_err(WorkerError::Signals)?,
        })
    }

    /// Works until told to stop, or for one assignment.
    pub(super) fn serve(&self, once: bool) {
        if self.deliver_what_was_left() && once {
            return;
        }
        let mut backoff = Backoff::default();
        let mut poll_id = new_delivery_id();
        while !self.stop.is_requested() {
            let sent = Moment::now();
            let id = poll_id.clone();
            let polled = self.ask(Duration::ZERO, move |client| {
                client.poll(MAX_WAIT_SECONDS, &id)
            });
            if let Some(Ok(_)) = &polled {
                poll_id = new_delivery_id();
            }
            match polled {
                None => return,
                Some(Ok(Polled::Assigned(assignment))) => {
                    backoff.reset();
                    self.work(&assignment, sent);
                    if once {
                        return;
                    }
                }
                Some(Ok(Polled::Idle)) => {
                    backoff.reset();
                    if sent.until(Moment::now()) < EARLY_IDLE_PAUSE {
                        self.stop.wait(EARLY_IDLE_PAUSE);
                    }
                }
                Some(Ok(Polled::Refused(refusal))) => {
                    warn!("the poll was refused: {refusal}");
                    self.stop.wait(backoff.next(None, fastrand::f64()));
                }
                Some(Err(no_answer)) => {
                    warn!("poll: {no_answer}");
                    self.stop
                        .wait(backoff.next(no_answer.retry_after(), fastrand::f64()));
                }
            }
        }
    }

    fn work(&self, assignment: &Assignment, sent: Moment) {
        let binding = &assignment.binding;
        info!("{}: assigned", Named(binding));
        match attempt::work(self, assignment, sent) {
            End::Result(result) => {
                info!("{}: {}", Named(binding), result.outcome());
                let undelivered = Undelivered {
                    binding: binding.clone(),
                    payload: result.to_json(),
                };
                if let Err(error) = self.outbox.keep(&undelivered) {
                    // It can still be delivered, it only would not survive a crash before that.
                    error!("{}: the result is not on disk: {error}", Named(binding));
                }
                self.deliver(&undelivered);
            }
            End::Lost(why) => warn!("{}: stopped: {why}", Named(binding)),
            End::Stopped => self.release(assignment),
        }
    }

    /// Gives a run back. It is not kept for later: the next poll of this ordinal brings the run again.
    fn release(&self, assignment: &Assignment) {
        let binding = assignment.binding.clone();
        info!("{}: giving the run back", Named(&binding));
        let result = WorkerResult::Released {
            reason: Some("the worker was told to stop".to_owned()),
        };
        let answer = self.ask(LAST_WORDS, move |client| {
            client.submit(&binding, &result.to_json())
        });
        match answer {
            Some(Ok(Answer::Accepted)) => {}
            Some(Ok(Answer::Refused(refusal))) => warn!("the release was refused: {refusal}"),
            Some(Err(no_answer)) => warn!("the release was not delivered: {no_answer}"),
            None => warn!("the release was not delivered in time"),
        }
    }

    /// Whether there was something.
    fn deliver_what_was_left(&self) -> bool {
        match self.outbox.load() {
            Ok(Some(undelivered)) => {
                let binding = &undelivered.binding;
                info!("{}: delivering a result that was left", Named(binding));
                self.deliver(&undelivered);
                true
            }
            Ok(None) => false,
            Err(error) => {
                error!("{error}");
                false
            }
        }
    }

    /// Delivers a result, for as long as it takes; after the request to stop for a few seconds more. It stays in the
    /// outbox until it was acknowledged or refused.
    fn deliver(&self, undelivered: &Undelivered) {
        let mut backoff = Backoff::default();
        let mut give_up_at = None;
        loop {
            let Undelivered { binding, payload } = undelivered.clone();
            let answer = self.ask(LAST_WORDS, move |client| client.submit(&binding, &payload));
            let no_answer = match answer {
                Some(Ok(answer)) => return self.delivered(undelivered, &answer),
                Some(Err(no_answer)) => no_answer,
                None => return self.leave_undelivered(undelivered),
            };
            warn!("{}: result: {no_answer}", Named(&undelivered.binding));
            let wait = backoff.next(no_answer.retry_after(), fastrand::f64());
            if self.stop.wait(wait) {
                let now = Moment::now();
                if now >= *give_up_at.get_or_insert(now + LAST_WORDS) {
                    return self.leave_undelivered(undelivered);
                }
                thread::sleep(wait.min(LAST_WORDS / 5));
            }
        }
    }

    fn leave_undelivered(&self, undelivered: &Undelivered) {
        warn!(
            "{}: the result stays in {} until the worker is started again",
            Named(&undelivered.binding),
            self.outbox.path().display()
        );
    }

    fn delivered(&self, undelivered: &Undelivered, answer: &Answer) {
        match answer {
            Answer::Accepted => info!("{}: delivered", Named(&undelivered.binding)),
            Answer::Refused(refusal) => warn!(
                "{}: the result was refused and is dropped: {refusal}",
                Named(&undelivered.binding)
            ),
        }
        if let Err(error) = self.outbox.clear() {
            error!("{}: {error}", self.outbox.path().display());
        }
    }

    /// Asks the coordinator on another thread, so that a request to stop is not kept waiting by its answer. After such
    /// a request the answer has `grace` left; `None` if it did not come.
    fn ask<T: Send + 'static>(
        &self,
        grace: Duration,
        question: impl FnOnce(&Client) -> Result<T, NoAnswer> + Send + 'static,
    ) -> Option<Result<T, NoAnswer>> {
        let (sender, answers) = mpsc::channel();
        let stops = sender.clone();
        self.stop.notify(move || {
            let _ = stops.send(None);
        });
        let client = Arc::clone(&self.client);
        thread::spawn(move || {
            let _ = sender.send(Some(question(&client)));
        });
        match answers.recv() {
            Ok(Some(answer)) => Some(answer),
            _ => answers.recv_timeout(grace).ok().flatten(),
        }
    }
}

/// The command with its program as it is found from the current folder.
fn found(mut command: Vec<OsString>) -> Result<Vec<OsString>, WorkerError> {
    let program = command.first_mut().ok_or(WorkerError::NoCommand)?;
    let path = std::env::var_os("PATH");
    *program = find(program, path.as_deref()).map_err(|error| WorkerError::Command {
        program: program.clone(),
        error,
    })?;
    Ok(command)
}

/// Whether this is `http://` and a host, without a path of its own.
fn is_coordinator(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|uri| {
        uri.scheme_str() == Some("http")
            && uri.host().is_some()
            && uri.path() == "/"
            && uri.query().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_and_a_host() {
        for (url, valid) in [
            ("http://127.0.0.1:8750", true),
            ("http://coordinator:8750/", true),
            ("http://[::1]:8750", true),
            ("https://coordinator:8750", false),
            ("coordinator:8750", false),
            ("http://coordinator/v2", false),
            ("http://coordinator/?a", false),
            ("", false),
        ] {
            assert_eq!(is_coordinator(url), valid, "{url:?}");
        }
    }
}
