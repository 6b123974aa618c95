//! Poisoned data: every column of the store and of the board, with everything in it that SQLite lets stand there.
//!
//! The columns are asked of the files themselves, so a new one is covered by itself. Poison is there when the pool starts
//! (`boards`, `store`), or comes in the middle of a run, into its own rows of the store (`live`) and of the board
//! (`between`); `slots` tells how long it keeps a slot. Each time healthy siblings are served all the same, what cannot be understood stands in the ledger once,
//! and it is left as it is.

mod between;
mod boards;
mod live;
mod slots;
mod store;
mod values;
