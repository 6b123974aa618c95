//! The share that one ordinal may have of the requests in flight, so that one worker cannot take all of them.
//!
//! The ordinal is what the message says it is. A message that turns out not to be authentic holds its share only for as long
//! as that takes to find out; only authentic ones are kept waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::domain::Ordinal;

use super::error::HttpError;

/// Requests of one ordinal at once.
pub const REQUESTS_PER_ORDINAL: u32 = 64;

/// How many requests each ordinal has in flight.
#[derive(Clone, Debug)]
pub struct OrdinalShares(Arc<[AtomicU32]>);

impl OrdinalShares {
    /// Shares for the ordinals below `slots`.
    #[must_use]
    pub fn new(slots: u16) -> Self {
        Self((0..slots).map(|_| AtomicU32::new(0)).collect())
    }

    /// Counts one more request of this ordinal until the [`Share`] is dropped.
    ///
    /// # Errors
    /// [`HttpError::Overloaded`] where the ordinal has used up its share, or has none.
    pub fn enter(&self, ordinal: Ordinal) -> Result<Share, HttpError> {
        let count = self.count(ordinal).ok_or(HttpError::Overloaded)?;
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < REQUESTS_PER_ORDINAL).then_some(count + 1)
            })
            .map_err(|_| HttpError::Overloaded)?;
        Ok(Share {
            shares: self.clone(),
            ordinal,
        })
    }

    fn count(&self, ordinal: Ordinal) -> Option<&AtomicU32> {
        self.0.get(usize::from(ordinal.0))
    }
}

/// One request of one ordinal.
#[must_use = "a share that is dropped at once counts nothing"]
#[derive(Debug)]
pub struct Share {
    shares: OrdinalShares,
    ordinal: Ordinal,
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(count) = self.shares.count(self.ordinal) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinal_may_have_64_requests_in_flight_and_others_do_not_count() {
        let shares = OrdinalShares::new(2);
        let mut held: Vec<Share> = (0..64).map(|_| shares.enter(Ordinal(0)).unwrap()).collect();
        assert_eq!(shares.enter(Ordinal(0)).unwrap_err(), HttpError::Overloaded);
        drop(shares.enter(Ordinal(1)).unwrap());
        held.pop();
        drop(shares.enter(Ordinal(0)).unwrap());
        assert!(shares.enter(Ordinal(2)).is_err());
    }
}
