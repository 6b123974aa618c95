//! What the measurements share, and the measurements themselves.

pub(crate) mod connection;
pub(crate) mod figures;
pub(crate) mod in_process;
pub(crate) mod over_http;
pub(crate) mod raw;
pub(crate) mod served;
pub(crate) mod starting;
pub(crate) mod worker;

/// What a measurement gives; any error ends the benchmark with its message.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A folder that is thrown away, on the disk that the program is built on: `/tmp` may be memory.
pub(crate) fn scratch() -> Outcome<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}
