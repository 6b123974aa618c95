//! A pool of fenced workers for Hermes Kanban boards.

pub mod protocol;
