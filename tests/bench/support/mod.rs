//! What the measurements share.

pub(crate) mod connection;
pub(crate) mod figures;
pub(crate) mod history;
pub(crate) mod leases;
pub(crate) mod peer;
pub(crate) mod pool;
pub(crate) mod raw;
pub(crate) mod served;
pub(crate) mod table;
pub(crate) mod worker;

/// What a measurement gives; any error ends the benchmark with its message.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A folder that is thrown away, on the disk that the program is built on: `/tmp` may be memory.
pub(crate) fn scratch() -> Outcome<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

/// A runtime for the load generator, on the caller's thread alone.
pub(crate) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
