//! The numbers both ends of the wire agree on.

/// Version of the wire protocol; every envelope carries it.
pub const PROTOCOL_VERSION: i64 = 2;

/// Most slots that a pool can have; ordinals are below it.
pub const MAX_SLOTS: u16 = 10_000;

/// Largest request body and largest canonical envelope, signature included.
pub const MAX_WIRE_BYTES: usize = 64 * 1024;

/// Largest `activity` text of a heartbeat, in bytes of UTF-8.
pub const MAX_ACTIVITY_BYTES: usize = 12 * 1024;

/// Largest `context` of an assignment, in bytes of UTF-8.
pub const MAX_CONTEXT_BYTES: usize = 32 * 1024;

/// How far the clocks of the two ends may differ.
pub const MAX_CLOCK_SKEW_SECONDS: i64 = 30;

/// Longest lifetime of an envelope; a longer one asked for is cut to this.
pub const MAX_ENVELOPE_LIFETIME_SECONDS: i64 = 300;

/// Lifetime of an envelope where nothing else is asked for.
pub const DEFAULT_ENVELOPE_LIFETIME_SECONDS: i64 = 120;

/// Longest time a poll may ask to be kept waiting.
pub const MAX_WAIT_SECONDS: u8 = 30;

/// Longest identifier (board, task, run, delivery), in ASCII characters.
pub const MAX_IDENTIFIER_BYTES: usize = 128;

/// Deepest nesting of arrays and objects.
///
/// The reference stops where its interpreter runs out of frames: 900 levels must work, 1000 must
/// fail, and what lies between is open.
pub const MAX_NESTING: usize = 990;

/// Longest integer in digits, the sign not counted.
pub const MAX_INTEGER_DIGITS: usize = 4300;

/// Shortest key that may be read from a file or derive others.
pub const MIN_KEY_BYTES: usize = 32;

/// Longest key that may be read from a file or derive others.
pub const MAX_KEY_BYTES: usize = 4096;
