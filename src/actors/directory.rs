//! Which boards have actors, for whoever has something to tell one of them. It outlives those actors.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::board_parts::BoardParts;
use super::dispatcher::Dispatcher;
use super::reconciler::{Reconciler, Wake};
use super::supervise::Link;
use crate::domain::BoardSlug;

/// The two actors of one board, and what they share.
#[derive(Clone)]
pub struct BoardActors {
    /// Settles, watches and resolves.
    pub reconciler: Link<Reconciler>,
    /// Claims.
    pub dispatcher: Link<Dispatcher>,
    /// What they share.
    pub parts: BoardParts,
}

/// The boards that have actors; clones share it.
#[derive(Clone, Default)]
pub struct BoardDirectory {
    boards: Arc<RwLock<BTreeMap<BoardSlug, BoardActors>>>,
}

impl BoardDirectory {
    /// One board's actors.
    #[must_use]
    pub fn get(&self, slug: &BoardSlug) -> Option<BoardActors> {
        self.boards
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(slug)
            .cloned()
    }

    /// Every board's actors, in order of name.
    #[must_use]
    pub fn all(&self) -> Vec<BoardActors> {
        self.boards
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// A run of this board needs attention. If nobody hears it, the next pass finds the run by itself.
    pub fn wake(&self, slug: &BoardSlug) {
        if let Some(board) = self.get(slug)
            && let Err(error) = board.reconciler.tell(Wake {
                board_changed: false,
            })
        {
            log::debug!("board={slug} not woken: {error}");
        }
    }

    pub(super) fn insert(&self, board: BoardActors) {
        let slug = board.parts.slug.clone();
        self.boards
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(slug, board);
    }

    pub(super) fn remove(&self, slug: &BoardSlug) -> Option<BoardActors> {
        self.boards
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(slug)
    }
}

/// Wakes the Reconciler of one board.
#[derive(Clone)]
pub struct WakeReconciler {
    directory: BoardDirectory,
    slug: BoardSlug,
}

impl WakeReconciler {
    pub(super) fn of(directory: BoardDirectory, slug: BoardSlug) -> Self {
        Self { directory, slug }
    }

    /// Wakes it.
    pub fn wake(&self) {
        self.directory.wake(&self.slug);
    }
}
