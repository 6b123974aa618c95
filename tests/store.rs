//! The durable store on real files: opening and migrating, every operation, faults beside healthy rows, the actor.

mod store {
    pub(crate) mod actor;
    pub(crate) mod claims;
    pub(crate) mod ending;
    pub(crate) mod files;
    pub(crate) mod fixtures;
    pub(crate) mod poison;
    pub(crate) mod slots;
}
