//! What a piece of work that is put off belongs to.

use std::fmt;

use crate::domain::{BoardSlug, IllegalRow, RunKey};

/// What a piece of work belongs to. What is the pool's own is told apart by type, whatever boards are called; in text it
/// stands behind a colon, which no board's name can have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The pool's store.
    Store,
    /// A row of the store that is no board's, by its name as it stands there.
    StoreRow(String),
    /// The place that holds the boards.
    Boards,
    /// A board.
    Board(BoardSlug),
    /// Something on a board or about it: a task, a run, a row, by its name as it stands there.
    Below(BoardSlug, String),
}

impl Scope {
    /// Something on a board or about it.
    #[must_use]
    pub fn below(board: &BoardSlug, name: &str) -> Self {
        Self::Below(board.clone(), name.to_owned())
    }

    /// A row of the store that is no board's.
    #[must_use]
    pub fn store_row(name: &str) -> Self {
        Self::StoreRow(name.to_owned())
    }

    /// A row of the store that names this board and cannot be understood.
    #[must_use]
    pub fn illegal(board: &BoardSlug, row: &IllegalRow) -> Self {
        let below = row.run.strip_prefix(board.as_str());
        let below = below.and_then(|rest| rest.strip_prefix('/'));
        Self::below(board, below.unwrap_or(&row.run))
    }

    /// The board, if it is one's.
    #[must_use]
    pub fn board(&self) -> Option<&BoardSlug> {
        match self {
            Self::Board(board) | Self::Below(board, _) => Some(board),
            Self::Store | Self::StoreRow(_) | Self::Boards => None,
        }
    }

    /// Whether it is a part of `parent`.
    #[must_use]
    pub fn is_below(&self, parent: &Self) -> bool {
        match (self, parent) {
            (Self::StoreRow(_), Self::Store) => true,
            (Self::Below(board, _), Self::Board(parent)) => board == parent,
            _ => false,
        }
    }
}

impl From<&Scope> for Scope {
    fn from(scope: &Scope) -> Self {
        scope.clone()
    }
}

impl From<&BoardSlug> for Scope {
    fn from(board: &BoardSlug) -> Self {
        Self::Board(board.clone())
    }
}

impl From<&RunKey> for Scope {
    fn from(run: &RunKey) -> Self {
        Self::Below(run.board.clone(), format!("{}/{}", run.task, run.run))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("pool:store"),
            Self::StoreRow(name) => write!(f, "pool:store/{name}"),
            Self::Boards => f.write_str("pool:boards"),
            Self::Board(board) => write!(f, "{board}"),
            Self::Below(board, name) => write!(f, "{board}/{name}"),
        }
    }
}
