//! One thread for each board: it owns the board's only connection, and whatever visits the board does so on it.
//!
//! A visit that panics becomes an error value; the connection is dropped and opened again by the next visit, and so it is
//! after the file was replaced. Visits wait in a bounded queue; between visits the thread looks every `poll` whether
//! anybody else committed on the board, and says so.
//!
//! Deliberately absent: any decision about what to do on the board.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::board::{Board, BoardError, BoardHost};
use crate::domain::BoardSlug;

/// Visits that may wait for a board. Its Reconciler and its Dispatcher have one each under way, so this is never full
/// unless something is wrong.
const QUEUE_LIMIT: usize = 64;

/// Why a visit gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// The board's own answer.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// A bug: the visit panicked. Whether it wrote is for the board to tell.
    #[error("internal error during a visit to the board: {0}")]
    Panicked(String),
    /// Too many visits wait already.
    #[error("too many visits to the board are waiting")]
    Full,
    /// The board's thread has ended.
    #[error("the board was let go")]
    Closed,
}

impl VisitError {
    /// Whether the next visit would most likely fail the same way, so that a pass should not try every row.
    #[must_use]
    pub fn is_of_the_board(&self) -> bool {
        match self {
            Self::Board(BoardError::Refused(_) | BoardError::BadRow { .. }) | Self::Panicked(_) => {
                false
            }
            Self::Board(_) | Self::Full | Self::Closed => true,
        }
    }
}

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Leads to a board's thread; clones lead to the same one. The thread ends when the last is dropped.
#[derive(Clone)]
pub struct BoardHandle {
    jobs: SyncSender<Job>,
    openings: Arc<AtomicU64>,
}

/// What the thread owns.
struct Connection {
    slug: BoardSlug,
    host: Arc<dyn BoardHost>,
    board: Option<Box<dyn Board>>,
    openings: Arc<AtomicU64>,
}

impl Connection {
    fn visit<R>(
        &mut self,
        visit: impl FnOnce(&mut dyn Board) -> Result<R, BoardError>,
    ) -> Result<R, VisitError> {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let board = match self.board.as_mut() {
                Some(board) => board,
                None => {
                    let board = self.host.open(&self.slug)?;
                    self.openings.fetch_add(1, Ordering::Relaxed);
                    self.board.insert(board)
                }
            };
            visit(board.as_mut())
        }));
        match outcome {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                if matches!(
                    error,
                    BoardError::Gone(_) | BoardError::Replaced | BoardError::Unreadable(_)
                ) {
                    self.board = None;
                }
                Err(VisitError::Board(error))
            }
            Err(panic) => {
                self.board = None;
                Err(VisitError::Panicked(panic_text(panic.as_ref())))
            }
        }
    }
}

/// The text of a panic, as far as it has one.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no text".to_owned())
}

impl BoardHandle {
    /// A way to a board, and the end of it where visits are carried out. `changed` is called there whenever the board may
    /// have changed.
    #[must_use]
    pub fn new(
        slug: BoardSlug,
        host: Arc<dyn BoardHost>,
        changed: impl Fn() + Send + 'static,
    ) -> (Self, BoardVisits) {
        let (jobs, queue) = sync_channel(QUEUE_LIMIT);
        let openings = Arc::new(AtomicU64::new(0));
        let visits = BoardVisits {
            connection: Connection {
                slug,
                host,
                board: None,
                openings: Arc::clone(&openings),
            },
            queue,
            changed: Box::new(changed),
        };
        (Self { jobs, openings }, visits)
    }

    /// How often the board was opened. A connection tells of no change that was made before it.
    #[must_use]
    pub fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    /// Visits the board. The visit takes place even if nobody waits for its answer any more.
    ///
    /// # Errors
    /// [`VisitError`]
    pub async fn visit<R: Send + 'static>(
        &self,
        visit: impl FnOnce(&mut dyn Board) -> Result<R, BoardError> + Send + 'static,
    ) -> Result<R, VisitError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // The asker may be gone; what was done on the board stands all the same.
            let _ = reply.send(connection.visit(visit));
        });
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => VisitError::Full,
            TrySendError::Disconnected(_) => VisitError::Closed,
        })?;
        answer.await.unwrap_or(Err(VisitError::Closed))
    }
}

/// Where visits are carried out: the connection, and what waits for it.
pub struct BoardVisits {
    connection: Connection,
    queue: Receiver<Job>,
    changed: Box<dyn Fn() + Send>,
}

impl BoardVisits {
    /// The board.
    #[must_use]
    pub fn slug(&self) -> &BoardSlug {
        &self.connection.slug
    }

    /// Carries out visits on a thread of their own, until the last handle is dropped; looks every `poll` whether the board
    /// changed.
    ///
    /// # Errors
    /// The operating system's, when it gives no thread.
    pub(super) fn start(self, poll: Duration) -> std::io::Result<()> {
        std::thread::Builder::new()
            .name(format!("board-{}", self.connection.slug))
            .spawn(move || self.serve(poll))
            .map(drop)
    }

    fn serve(mut self, poll: Duration) {
        loop {
            match self.queue.recv_timeout(poll) {
                Ok(job) => job(&mut self.connection),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Carries out the visit that waits longest; `false` if none does.
    pub fn visit_next(&mut self) -> bool {
        let job = self.queue.try_recv();
        job.map(|job| job(&mut self.connection)).is_ok()
    }

    /// Says so if anybody else committed on the board since the last look.
    pub fn look(&mut self) {
        // An error counts as a change: the pass that follows meets it and says what is wrong. While the board stays
        // unopened the passes come by their own interval.
        if self.connection.board.is_some()
            && !matches!(self.connection.visit(|board| board.changed()), Ok(false))
        {
            (self.changed)();
        }
    }
}
