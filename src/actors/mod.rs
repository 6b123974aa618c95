//! The actors of the pool.

pub mod store;
