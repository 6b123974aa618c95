//! A coordinator that claims runs from Hermes Kanban boards and gives each to exactly one fenced worker.

pub mod actors;
pub mod board;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod faults;
pub mod http;
pub mod protocol;
pub mod store;
pub mod worker;
