//! How many messages of one slot may be under way at once, so that one worker cannot take all the places there are.
//!
//! Only authentic messages are counted: a stranger cannot use up the share of a slot whose key it does not have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::actors::supervise::Unreached;

/// Messages of one slot at once.
const LIMIT: u32 = 64;

/// How many messages a slot has under way; clones count together.
#[derive(Clone, Debug, Default)]
pub(in crate::actors) struct Share(Arc<AtomicU32>);

impl Share {
    /// Counts one more message until the answer is dropped.
    ///
    /// # Errors
    /// [`Unreached::Full`] where there are as many as there may be.
    pub(in crate::actors) fn take(&self) -> Result<Taken, Unreached> {
        let more = |count| (count < LIMIT).then_some(count + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Unreached::Full)?;
        Ok(Taken(self.clone()))
    }
}

/// One message under way.
#[must_use = "one that is dropped at once counts nothing"]
#[derive(Debug)]
pub(in crate::actors) struct Taken(Share);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_may_have_64_messages_under_way_and_others_do_not_count() {
        let (share, other) = (Share::default(), Share::default());
        let mut taken: Vec<Taken> = (0..64).map(|_| share.take().unwrap()).collect();
        assert_eq!(share.take().unwrap_err(), Unreached::Full);
        drop(other.take().unwrap());
        taken.pop();
        drop(share.take().unwrap());
    }
}
