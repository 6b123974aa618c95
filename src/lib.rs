//! A coordinator that claims runs from Hermes Kanban boards and gives each to exactly one fenced worker.

pub mod board;
pub mod clock;
pub mod domain;
pub mod protocol;
pub mod worker;
