//! The actors of the pool, and [`Pool`], which puts them together.
//!
//! ```text
//!   http ──> OrdinalActor ×N ──> StoreActor          asks go down only: an actor waits for those below it
//!                │  ▲                ▲
//!       hints    ▼  │ hints          │
//!              Roster ──> Dispatcher ┤ ──> board thread
//!              Boards ──> Reconciler ┘ ──> board thread
//! ```
//! | actor | owns | rebuilt from |
//! |---|---|---|
//! | [`store::StoreActor`] | the one connection that writes | the file |
//! | [`OrdinalActor`] | a slot's key, lease timer, waiting poll | the slot's row |
//! | [`Roster`] | which slots are free, whose turn it is | what slots and boards say again |
//! | [`Boards`] | which boards have actors | the listing, the store |
//! | [`Reconciler`] | one board's passes | the store, the board |
//! | [`Dispatcher`] | one board's claims | the store, the board |
//!
//! Invariants: the store's rows are the truth, and everything an actor keeps can be read again; hints may be lost; no
//! actor's thread is blocked but the StoreActor's own and the boards'; whatever goes down is built anew by its keeper
//! ([`supervise`]) while everything else goes on.
//!
//! What carries their work is an [`Engine`]: threads, or the hand of a simulation, which moves the very same actors piece by
//! piece on one thread.

mod adopt;
mod board_parts;
mod board_thread;
mod boards;
mod directory;
mod dispatcher;
mod engine;
mod events;
mod keys;
mod ledger;
mod metrics;
mod ordinal;
mod ordinals;
mod payload;
mod pool;
mod presence;
mod readers;
mod reconcile;
mod reconciler;
mod reply;
mod roster;
mod scope;
mod settle;
mod snapshot;
mod state_dir;
pub mod store;
pub mod supervise;
mod view;

pub use board_parts::{BoardParts, BoardProblem, BoardStatus};
pub use board_thread::{BoardHandle, BoardVisits, VisitError};
pub use boards::{Boards, ListBoards};
pub use directory::{BoardActors, BoardDirectory};
pub use dispatcher::{Dispatcher, Look, LookNow};
pub use engine::{ByHand, Engine};
pub use events::{Events, Listener, NotHeard, PoolEvent};
pub use keys::KeyRing;
pub use ledger::{Deferral, Item, LEDGER_LIMIT, Ledger};
pub use metrics::{Gauges, Metrics};
pub use ordinal::{Deliver, Drain, OrdinalActor, Refresh};
pub use ordinals::{OrdinalHandle, Ordinals};
pub use pool::{CycleReport, Pool, PoolError, PoolSettings};
pub use presence::Presence;
pub use readers::Readers;
pub use reconcile::PassReport;
pub use reconciler::{Reconciler, RunPass, Wake};
pub use reply::{DeliveryError, Reply, ReplyStatus};
pub use roster::{Grant, Granted, Roster, TakeAny, Taken};
pub use scope::Scope;
pub use state_dir::{StateDir, StateDirError};
pub use view::{
    AssignmentCounts, BoardState, BoardView, DeferralView, PoolSnapshot, PoolView, SlotState,
    SlotView,
};
