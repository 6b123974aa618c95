//! `serve`, `worker` and `demo` as processes of their own, on real folders and sockets.

#[path = "serve/process.rs"]
mod process;

#[path = "serve/demo.rs"]
mod demo;
#[path = "serve/mending.rs"]
mod mending;
#[path = "serve/once.rs"]
mod once;
#[path = "serve/reference_store.rs"]
mod reference_store;
#[path = "serve/starting.rs"]
mod starting;
#[path = "serve/stopping.rs"]
mod stopping;
#[path = "serve/working.rs"]
mod working;
