//! Ends connections that neither idle quietly nor send a request, and those that do not take their answers.
//!
//! The HTTP library times the first head on a connection and the silence between two requests. A client that sends the
//! first byte of a second head and nothing more meets neither limit and would hold its connection for ever. So each
//! connection notes since when it has no request, and one that has had none for too long is shut down. Nor does the library
//! time how long an answer waits to be taken; that is noted too.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix_web::rt::net::TcpStream;
use rustix::net::{Shutdown, shutdown};

/// How often connections are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long connections may do nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Without a request.
    pub(super) idle: Duration,
    /// With an answer that waits to be taken.
    pub(super) blocked: Duration,
}

/// All connections of one server.
#[derive(Debug)]
pub(super) struct Connections {
    /// Moments are counted from here.
    since: Instant,
    patience: Patience,
    open: Mutex<Vec<Weak<Connection>>>,
}

impl Connections {
    /// Looks after the connections to come, until the server that holds this is gone.
    pub(super) fn look_after(patience: Patience) -> Arc<Self> {
        let connections = Arc::new(Self {
            since: Instant::now(),
            patience,
            open: Mutex::default(),
        });
        let watched = Arc::downgrade(&connections);
        let interval = LOOK_INTERVAL.min(patience.idle);
        actix_web::rt::spawn(async move {
            while let Some(connections) = watched.upgrade() {
                connections.end_the_stalled();
                drop(connections);
                tokio::time::sleep(interval).await;
            }
        });
        connections
    }

    /// Notes a new connection. Out of descriptors, it is served without being watched.
    pub(super) fn add(self: &Arc<Self>, stream: &TcpStream) -> Option<Arc<Connection>> {
        // A duplicate, so that it is this very socket even if its number is used again.
        let socket = stream.as_fd().try_clone_to_owned().ok()?;
        let connection = Arc::new(Connection {
            socket,
            idle_since: AtomicU64::new(self.now()),
            blocked_since: AtomicU64::new(NEVER),
            all: Arc::clone(self),
        });
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::downgrade(&connection));
        Some(connection)
    }

    fn end_the_stalled(&self) {
        let now = self.now();
        let is_over = |since: &AtomicU64, patience: Duration| {
            now.saturating_sub(since.load(Ordering::Relaxed)) > millis(patience)
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| {
            let Some(connection) = connection.upgrade() else {
                return false;
            };
            let stalled = is_over(&connection.idle_since, self.patience.idle)
                || is_over(&connection.blocked_since, self.patience.blocked);
            if stalled {
                // One that is gone already is just as good.
                let _ = shutdown(&connection.socket, Shutdown::Both);
            }
            !stalled
        });
    }

    fn now(&self) -> u64 {
        millis(self.since.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A moment that does not come.
const NEVER: u64 = u64::MAX;

/// One connection. It lives as long as the server works on it.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    /// Milliseconds; [`NEVER`] while a request is served.
    idle_since: AtomicU64,
    /// Milliseconds; [`NEVER`] while no answer waits to be taken.
    blocked_since: AtomicU64,
    all: Arc<Connections>,
}

impl Connection {
    /// A request is served on it.
    pub(super) fn serves(&self) {
        self.idle_since.store(NEVER, Ordering::Relaxed);
    }

    /// No request is served on it any more.
    pub(super) fn idles(&self) {
        self.idle_since.store(self.all.now(), Ordering::Relaxed);
    }

    /// Whether an answer waits to be taken from now on.
    pub(super) fn blocks(&self, is_blocked: bool) {
        let since = if is_blocked { self.all.now() } else { NEVER };
        self.blocked_since.store(since, Ordering::Relaxed);
    }
}
