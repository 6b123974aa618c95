//! A coordinator that claims runs from Hermes Kanban boards and gives each to exactly one fenced worker.

pub mod actors;
pub mod board;
pub mod clock;
pub mod domain;
pub mod protocol;
pub mod store;
pub mod worker;
