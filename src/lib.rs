//! A coordinator that claims runs from Hermes Kanban boards and gives each to exactly one fenced worker.

pub mod board;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod http;
pub mod protocol;
pub mod worker;
