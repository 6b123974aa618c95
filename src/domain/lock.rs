//! Claim locks: the proof of origin of a claim on a board.
//!
//! A lock reads `pool/<pool id>:<fence>:<nonce>`. The slash cannot occur in a host name, so no Hermes process takes the claim
//! for its own; the fence is the random identity of the store, made with it; the nonce is unique per claim.

use std::fmt;

use super::{InvalidId, RunId};

/// The pool's configured identity: `[a-z0-9][a-z0-9_-]{0,31}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolId(String);

impl PoolId {
    /// Takes a text that is a valid pool id.
    ///
    /// # Errors
    /// [`InvalidId`] for any other text.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        match super::BoardSlug::parse(text) {
            Ok(_) if text.len() <= 32 => Ok(Self(text.to_owned())),
            _ => Err(InvalidId {
                what: "pool id",
                text: text.chars().take(80).collect(),
            }),
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The random identity of one store; two pools that share an id by mistake still differ in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence(String);

impl Fence {
    /// Takes the text kept in the store: letters and digits, 8 to 64 of them.
    ///
    /// # Errors
    /// [`InvalidId`] for any other text.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        if (8..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId {
                what: "fence",
                text: text.chars().take(80).collect(),
            })
        }
    }

    /// The fence as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The lock of one claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimLock(String);

impl ClaimLock {
    /// The lock of a new claim; `nonce` must be unique for each.
    #[must_use]
    pub fn new(pool: &PoolId, fence: &Fence, nonce: &str) -> Self {
        Self(format!("{}{}:{nonce}", Self::prefix_of(pool), fence.0))
    }

    /// How every lock of a pool of this id begins, whichever store made it.
    #[must_use]
    pub fn prefix_of(pool: &PoolId) -> String {
        format!("pool/{}:", pool.0)
    }

    /// Takes a lock out of the store, which keeps none but those that pools make: `pool/<pool id>:<fence>:<nonce>`.
    ///
    /// # Errors
    /// [`InvalidId`] for any other text.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let mut parts = text.splitn(3, ':');
        let head = parts.next().and_then(|head| head.strip_prefix("pool/"));
        let is_lock = head.is_some_and(|id| PoolId::parse(id).is_ok())
            && parts
                .next()
                .is_some_and(|fence| Fence::parse(fence).is_ok())
            && parts
                .next()
                .is_some_and(|nonce| RunId::parse(nonce).is_ok());
        if is_lock {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidId {
            what: "claim lock",
            text: text.chars().take(80).collect(),
        })
    }

    /// A lock as it was recorded on a board, whoever made it.
    #[must_use]
    pub fn recorded(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The lock as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this store made the lock. The pool id alone proves nothing: two pools may share one by mistake.
    #[must_use]
    pub fn is_of(&self, fence: &Fence) -> bool {
        let mut parts = self.0.split(':');
        parts.next().is_some_and(|head| head.starts_with("pool/"))
            && parts.next() == Some(fence.as_str())
    }
}

impl fmt::Display for ClaimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_that_a_pool_made_comes_out_of_a_store() {
        for (text, valid) in [
            ("pool/p1:aaaaaaaa:n1", true),
            ("pool/p1:aaaaaaaa:", false),
            ("pool/p1:aaaaaaaa", false),
            ("pool/P1:aaaaaaaa:n1", false),
            ("pool/p1:short:n1", false),
            ("host:aaaaaaaa:n1", false),
            ("2026-11-29T12:00:00Z", false),
            ("", false),
        ] {
            assert_eq!(ClaimLock::parse(text).is_ok(), valid, "{text}");
        }
    }

    #[test]
    fn a_lock_is_recognised_by_its_fence_and_not_by_its_prefix() {
        let pool = PoolId::parse("p1").unwrap();
        let (ours, other) = (
            Fence::parse("aaaaaaaa").unwrap(),
            Fence::parse("bbbbbbbb").unwrap(),
        );
        let lock = ClaimLock::new(&pool, &ours, "n1");
        assert_eq!(lock.as_str(), "pool/p1:aaaaaaaa:n1");
        assert!(lock.is_of(&ours));
        assert!(!lock.is_of(&other));
        assert!(!ClaimLock::recorded("host:aaaaaaaa:1").is_of(&ours));
    }
}
