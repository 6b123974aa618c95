//! The request to stop, from a signal to whoever waits for something else meanwhile.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

type Listener = Box<dyn FnOnce() + Send>;

/// Whether the worker was asked to stop. Clones share one answer; it never turns back to "no".
#[derive(Clone, Default)]
pub(super) struct Stop(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    requested: Condvar,
}

#[derive(Default)]
struct State {
    is_requested: bool,
    listener: Option<Listener>,
}

impl Stop {
    /// A request that SIGTERM or SIGINT makes.
    ///
    /// # Errors
    /// What the system says to a new signal handler.
    pub(super) fn on_signals() -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let stop = Self::default();
        let requested = stop.clone();
        thread::spawn(move || {
            for _signal in signals.forever() {
                requested.request();
            }
        });
        Ok(stop)
    }

    fn request(&self) {
        let listener = {
            let mut state = self.lock();
            state.is_requested = true;
            state.listener.take()
        };
        self.0.requested.notify_all();
        if let Some(listener) = listener {
            listener();
        }
    }

    /// Whether it was requested.
    pub(super) fn is_requested(&self) -> bool {
        self.lock().is_requested
    }

    /// Waits, until the time is over or the request comes; whether it has.
    pub(super) fn wait(&self, duration: Duration) -> bool {
        let (state, _) = self
            .0
            .requested
            .wait_timeout_while(self.lock(), duration, |state| !state.is_requested)
            .unwrap_or_else(PoisonError::into_inner);
        state.is_requested
    }

    /// Calls the listener when the request comes, or now if it has come. A new listener takes the place of the last.
    pub(super) fn notify(&self, listener: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        if state.is_requested {
            drop(state);
            listener();
        } else {
            state.listener = Some(Box::new(listener));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_request_wakes_the_last_listener_and_stays() {
        let stop = Stop::default();
        let (heard, hears) = mpsc::channel();
        for name in ["first", "last"] {
            let heard = heard.clone();
            stop.notify(move || heard.send(name).unwrap());
        }
        assert!(!stop.is_requested() && !stop.wait(Duration::ZERO));
        stop.request();
        assert!(stop.is_requested() && stop.wait(Duration::from_secs(3600)));
        stop.notify(move || heard.send("late").unwrap());
        assert_eq!(hears.iter().collect::<Vec<_>>(), ["last", "late"]);
    }
}
