//! The vocabulary and the rules of the pool, as values.
//!
//! | term | meaning |
//! |---|---|
//! | *run* | one claimed attempt of a Kanban task: board, task, run id ([`RunKey`]) |
//! | *ordinal* | one worker slot, counted from 0 |
//! | *assignment* | the binding of one run to one ordinal ([`Assignment`]) |
//! | *attempt* | the number that fences an assignment: an older one is refused |
//! | *lane* | a Kanban assignee that this pool serves |
//! | *fate* | what a board says became of a run ([`Fate`]) |
//! | *evidence* | the only thing that makes an assignment terminal ([`Evidence`]) |
//!
//! Invariants: an illegal transition cannot be written, since each is a method that consumes the state it leaves; nothing
//! becomes terminal without [`Evidence`], and evidence comes only from what was read from, or durably written to, a board.
//!
//! Deliberately absent: clocks (time is an argument), I/O, async, SQL, HTTP.

mod assignment;
mod evidence;
mod fate;
mod ids;
mod lock;
mod policy;
mod time;

pub use assignment::{
    Assigned, Assignment, Change, Columns, Ended, FailCause, Fenced, IllegalRow, LeaseFailed, Row,
    Running, StateName, Submission, Submitted,
};
pub use evidence::{
    Evidence, Expected, ExpectedEnding, Receipt, Sighting, Terminal, Verdict, believable_root,
    judge,
};
pub use fate::{Anchor, EndedRun, Fate, Landing, Outcome};
pub use ids::{
    Attempt, Binding, BoardSlug, InvalidId, Lane, Ordinal, RunId, RunKey, RunRef, TaskId,
};
pub use lock::{ClaimLock, Fence, PoolId};
pub use policy::{
    BOARD_HEARTBEAT_SECONDS, CLAIM_TTL_SECONDS, EXTEND_SECONDS, GONE_LOOKS_APART_SECONDS,
    LeasePolicy, OFFERS_PER_ATTEMPT, SELF_FENCE_SECONDS, SETTLE_PATIENCE_SECONDS,
};
pub use time::Timestamp;
