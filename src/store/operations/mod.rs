//! What the store can be asked to do: one file for each kind of thing, one type for each operation.
//!
//! An operation runs inside a transaction that it shares with others ([`super::Store::commit_group`]), behind a savepoint
//! of its own: it either happens as a whole or not at all, and it is durable when its reply is given out.
//!
//! Adding one: a type with the facts it needs, an [`Operation`] for it that loads, lets the domain decide, and writes.

mod add;
mod claims;
mod collect;
mod end;
mod expire;
mod heartbeat;
mod intents;
mod offer;
mod presented;
mod probe;
mod result;

pub use add::{AddAssignment, Added};
pub use claims::{NoteBoardHeartbeat, NoteConfirmed, SetNotBefore};
pub use collect::{CollectDeliveries, CollectEnded, DELIVERIES_KEPT_SECONDS};
pub use end::{End, PastLimit, Unconfirmed};
pub use expire::{Expire, Expiry, LetGo, Live, LiveOf};
pub use heartbeat::{Beat, Heartbeat};
pub use intents::{DropIntent, IsIntended, RecordIntent};
pub use offer::{Offer, OfferReply, Offered};
pub use presented::Presented;
pub use probe::Probe;
pub use result::{Receipt, SubmitResult};

pub(super) use add::insert;

use super::{StoreError, Tx};
use crate::domain::Timestamp;

/// One thing the store can be asked to do.
pub trait Operation: Send + 'static {
    /// What is answered once it is durable.
    type Reply: Send + 'static;

    /// Does it, at the time `now`.
    ///
    /// # Errors
    /// Whatever it writes before it fails is taken back.
    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<Self::Reply, StoreError>;
}
