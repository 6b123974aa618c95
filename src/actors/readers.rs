//! Reads that decide no transition: on read-only connections, off every actor's thread, never waiting for the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::engine::Engine;
use crate::store::{Reader, StoreError};

/// Connections kept for the next read.
const KEPT: usize = 4;

/// Opens and lends read-only connections; clones share them.
#[derive(Clone)]
pub struct Readers {
    path: Arc<PathBuf>,
    engine: Engine,
    idle: Arc<Mutex<Vec<Reader>>>,
}

impl Readers {
    /// Reads from the store at `path`, which need not be there yet.
    #[must_use]
    pub fn new(path: PathBuf, engine: Engine) -> Self {
        Self {
            path: Arc::new(path),
            engine,
            idle: Arc::default(),
        }
    }

    /// Reads something.
    ///
    /// # Errors
    /// Whatever opening or `query` ends with; a query that panics is a [`StoreError::Panicked`].
    pub async fn read<R: Send + 'static>(
        &self,
        query: impl FnOnce(&Reader) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let readers = self.clone();
        let job = self.engine.aside(move || {
            let reader = match readers.take() {
                Some(reader) => reader,
                None => Reader::open(&readers.path)?,
            };
            let answer = query(&reader)?;
            // A connection whose query failed is not kept: its file may have gone.
            readers.put_back(reader);
            Ok(answer)
        });
        job.await
            .unwrap_or_else(|panic| Err(StoreError::Panicked(panic)))
    }

    /// Keeps no connection that is open now: the store is opened anew, and a connection to the one before would share with
    /// the new one what it knows of the log.
    pub(in crate::actors) fn forget(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.clear();
    }

    fn take(&self) -> Option<Reader> {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    fn put_back(&self, reader: Reader) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(reader);
        }
    }
}
