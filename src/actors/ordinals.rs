//! The slots that have an actor: those that are configured and those that a row refers to.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::oneshot;

use super::keys::SlotKey;
use super::ordinal::{Deliver, Drain, OrdinalActor, Refresh, Share};
use super::presence::Presence;
use super::reply::{DeliveryError, Reply};
use super::supervise::{Link, Unreached};
use crate::clock::SharedClock;
use crate::domain::Ordinal;
use crate::protocol::{Envelope, Json, Key, Kind, verify_envelope};

/// One slot's actor, as others reach it, and the slot's key.
#[derive(Clone)]
pub struct OrdinalHandle {
    link: Link<OrdinalActor>,
    presence: Arc<Presence>,
    key: SlotKey,
    clock: SharedClock,
    share: Share,
}

/// An authentic message, and the key that its answer is signed with.
pub struct Opened {
    pub(super) key: Key,
    pub(super) envelope: Envelope,
}

impl OrdinalHandle {
    pub(super) fn new(
        link: Link<OrdinalActor>,
        presence: Arc<Presence>,
        key: SlotKey,
        clock: SharedClock,
    ) -> Self {
        Self {
            link,
            presence,
            key,
            clock,
            share: Share::default(),
        }
    }

    /// The link to the actor itself.
    #[must_use]
    pub fn link(&self) -> &Link<OrdinalActor> {
        &self.link
    }

    /// What is known of the slot's worker.
    #[must_use]
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Verifies a parsed message that came through the door of `kind`, hands it over to the slot's actor, and waits for the
    /// answer. What the message asks for takes place whether or not anybody waits.
    ///
    /// Forged messages cost the actor nothing: they are found out on the caller's thread.
    ///
    /// # Errors
    /// [`DeliveryError`] where there is no signed answer.
    pub async fn deliver(&self, message: Json, kind: Kind) -> Result<Reply, DeliveryError> {
        let opened = self.open(message, kind)?;
        let _taken = self.share.take()?;
        let (reply, answer) = oneshot::channel();
        self.link.tell(Deliver { opened, reply })?;
        answer
            .await
            .map_err(|_| DeliveryError::Unreached(Unreached::Down))?
    }

    fn open(&self, message: Json, kind: Kind) -> Result<Opened, DeliveryError> {
        let key = self.key.get().ok_or(DeliveryError::NotReady)??;
        let now = self.clock.now().whole_seconds();
        let envelope = verify_envelope(&key, message, Some(kind), now, self.key.slots())?;
        Ok(Opened { key, envelope })
    }

    /// The slot's row may have changed. If the actor is down, it reads the row when it is built anew.
    pub fn refresh(&self) {
        if let Err(error) = self.link.tell(Refresh) {
            log::debug!("{} not refreshed: {error}", self.link.name());
        }
    }
}

/// All slots; clones share them.
#[derive(Clone, Default)]
pub struct Ordinals {
    slots: Arc<RwLock<BTreeMap<Ordinal, OrdinalHandle>>>,
}

impl Ordinals {
    /// One slot.
    #[must_use]
    pub fn get(&self, ordinal: Ordinal) -> Option<OrdinalHandle> {
        self.slots
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&ordinal)
            .cloned()
    }

    /// Every slot, in order.
    #[must_use]
    pub fn all(&self) -> Vec<(Ordinal, OrdinalHandle)> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots
            .iter()
            .map(|(ordinal, handle)| (*ordinal, handle.clone()))
            .collect()
    }

    pub(super) fn insert(&self, ordinal: Ordinal, handle: OrdinalHandle) {
        self.slots
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(ordinal, handle);
    }

    /// The row of a slot may have changed.
    pub fn refresh(&self, ordinal: Ordinal) {
        if let Some(handle) = self.get(ordinal) {
            handle.refresh();
        }
    }

    /// Every row may have changed: a Roster that was built anew asks so.
    pub fn refresh_all(&self) {
        for (_, handle) in self.all() {
            handle.refresh();
        }
    }

    /// Ends every slot's actor for good.
    pub(super) fn retire(&self) {
        for (_, handle) in self.all() {
            handle.link.retire();
        }
    }

    /// No more offers.
    pub fn drain(&self) {
        for (ordinal, handle) in self.all() {
            if let Err(error) = handle.link.tell(Drain) {
                // It is built anew with the pool's own flag, which is set already.
                log::debug!("ordinal={ordinal} not told to drain: {error}");
            }
        }
    }
}
