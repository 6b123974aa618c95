//! Ends connections that neither idle quietly nor send a request.
//!
//! The HTTP library times the first head on a connection and the silence between two requests. A client that sends the
//! first byte of a second head and nothing more meets neither limit and would hold its connection for ever. So each
//! connection notes since when it has no request, and one that has had none for too long is shut down.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use rustix::net::{Shutdown, shutdown};

/// How often connections are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// All connections of one server.
#[derive(Debug)]
pub(super) struct Connections {
    /// Moments are counted from here.
    since: Instant,
    /// How long a connection may have no request.
    patience: Duration,
    open: Mutex<Vec<Weak<Connection>>>,
}

impl Connections {
    /// Looks after the connections to come, until the server that holds this is gone.
    pub(super) fn look_after(patience: Duration) -> Arc<Self> {
        let connections = Arc::new(Self {
            since: Instant::now(),
            patience,
            open: Mutex::default(),
        });
        let watched = Arc::downgrade(&connections);
        let interval = LOOK_INTERVAL.min(patience);
        actix_web::rt::spawn(async move {
            while let Some(connections) = watched.upgrade() {
                connections.end_the_stalled();
                drop(connections);
                tokio::time::sleep(interval).await;
            }
        });
        connections
    }

    /// Notes a new connection, and gives it to its requests.
    pub(super) fn add(self: &Arc<Self>, stream: &dyn Any, of_requests: &mut Extensions) {
        let stream = stream.downcast_ref::<TcpStream>();
        // A duplicate, so that it is this very socket even if its number is used again. Out of descriptors, the
        // connection is served without being watched.
        let Some(Ok(socket)) = stream.map(|stream| stream.as_fd().try_clone_to_owned()) else {
            return;
        };
        let connection = Arc::new(Connection {
            socket,
            idle_since: AtomicU64::new(self.now()),
            all: Arc::clone(self),
        });
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::downgrade(&connection));
        of_requests.insert(connection);
    }

    fn end_the_stalled(&self) {
        let (now, patience) = (self.now(), millis(self.patience));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| {
            let Some(connection) = connection.upgrade() else {
                return false;
            };
            let idle_since = connection.idle_since.load(Ordering::Relaxed);
            let stalled = now.saturating_sub(idle_since) > patience;
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

/// While a request is served, a connection idles since the end of time.
const SERVING: u64 = u64::MAX;

/// One connection. It lives as long as the server works on it.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    /// Milliseconds, or [`SERVING`].
    idle_since: AtomicU64,
    all: Arc<Connections>,
}

/// A request that is served on a connection; it idles again when this is dropped.
#[derive(Debug)]
pub(super) struct Serving(Arc<Connection>);

impl Serving {
    pub(super) fn on(connection: &Arc<Connection>) -> Self {
        connection.idle_since.store(SERVING, Ordering::Relaxed);
        Self(Arc::clone(connection))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let now = self.0.all.now();
        self.0.idle_since.store(now, Ordering::Relaxed);
    }
}
