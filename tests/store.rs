//! The durable store on real files: opening and migrating, every operation, faults beside healthy rows, the actor.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod store {
    pub(crate) mod actor;
    pub(crate) mod claims;
    pub(crate) mod ending;
    pub(crate) mod files;
    pub(crate) mod fixtures;
    pub(crate) mod poison;
    pub(crate) mod slots;
}
