//! The ledger of what is put off: what, why, since when, how often.
//!
//! Invariants: bounded; one entry for each piece of work; an entry is logged when it appears, when its cause changes and
//! when it is cleared, never once per try. Several kinds of work that one scope puts off for one cause are one fault: it is
//! logged with the first of them and with the last. It is memory, not state: after a restart the passes find the same work
//! again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::{BoardSlug, Timestamp};

/// Entries kept at most; what comes on top is counted only.
pub const LEDGER_LIMIT: usize = 1024;
/// Characters of a cause that are kept.
const CAUSE_LIMIT: usize = 300;

/// Which piece of work: where, and what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Where: a board, a task or a run, as `board[/task[/run]]`; or the pool's own `store` and `boards`.
    pub scope: String,
    /// What was to be done.
    pub what: &'static str,
}

/// One piece of work that is put off.
#[derive(Clone, Debug, PartialEq)]
pub struct Deferral {
    /// Why, at the last try.
    pub why: String,
    /// When it was first put off.
    pub since: Timestamp,
    /// Tries so far.
    pub times: u64,
    /// When it is tried again, where that is known.
    pub next_try: Option<Timestamp>,
}

#[derive(Default)]
struct Entries {
    entries: BTreeMap<Item, Deferral>,
    overflowed: u64,
}

impl Entries {
    /// Whether another piece of work of the same scope is put off for the same cause.
    fn has_another(&self, item: &Item, why: &str) -> bool {
        let first = Item {
            scope: item.scope.clone(),
            what: "",
        };
        self.entries
            .range(first..)
            .take_while(|(known, _)| known.scope == item.scope)
            .any(|(known, entry)| known != item && entry.why == why)
    }

    fn remove(&mut self, item: &Item) {
        if let Some(entry) = self.entries.remove(item)
            && !self.has_another(item, &entry.why)
        {
            log::info!("resolved scope={} what={}", item.scope, item.what);
        }
    }
}

/// The ledger; clones share it.
#[derive(Clone, Default)]
pub struct Ledger {
    shared: Arc<Mutex<Entries>>,
}

impl Ledger {
    /// Puts a piece of work off, or says that it still is.
    pub fn defer(
        &self,
        scope: impl Into<String>,
        what: &'static str,
        why: impl Into<String>,
        now: Timestamp,
        next_try: Option<Timestamp>,
    ) {
        let item = Item {
            scope: scope.into(),
            what,
        };
        let why: String = why.into().chars().take(CAUSE_LIMIT).collect();
        let mut ledger = self.lock();
        let is_told = ledger.has_another(&item, &why);
        if let Some(entry) = ledger.entries.get_mut(&item) {
            entry.times += 1;
            entry.next_try = next_try;
            if entry.why != why {
                if !is_told {
                    log::warn!(
                        "deferred scope={} what={what} why={why:?} (changed)",
                        item.scope
                    );
                }
                entry.why = why;
            }
            return;
        }
        if ledger.entries.len() >= LEDGER_LIMIT {
            if ledger.overflowed == 0 {
                log::warn!(
                    "the ledger is full: what is put off beyond its {LEDGER_LIMIT} entries is counted only"
                );
            }
            ledger.overflowed += 1;
            return;
        }
        if !is_told {
            log::warn!("deferred scope={} what={what} why={why:?}", item.scope);
        }
        ledger.entries.insert(
            item,
            Deferral {
                why,
                since: now,
                times: 1,
                next_try,
            },
        );
    }

    /// The piece of work is done, or no longer to be done.
    pub fn clear(&self, scope: &str, what: &'static str) {
        let item = Item {
            scope: scope.to_owned(),
            what,
        };
        self.lock().remove(&item);
    }

    /// Everything about this scope is done.
    pub fn clear_all(&self, scope: &str) {
        self.clear_where(|item| item.scope == scope);
    }

    /// Nothing of a board and what is below it is to be done any more.
    pub fn clear_board(&self, board: &BoardSlug) {
        let prefix = format!("{board}/");
        self.clear_where(|item| item.scope == board.as_str() || item.scope.starts_with(&prefix));
    }

    /// Clears everything of `what` directly below `parent` that `keep` does not name.
    pub fn retain(&self, parent: &str, what: &'static str, keep: impl Fn(&str) -> bool) {
        let prefix = format!("{parent}/");
        self.clear_where(|item| {
            item.what == what && item.scope.starts_with(&prefix) && !keep(&item.scope)
        });
    }

    fn clear_where(&self, is_over: impl Fn(&Item) -> bool) {
        let mut ledger = self.lock();
        let over: Vec<Item> = ledger
            .entries
            .keys()
            .filter(|item| is_over(item))
            .cloned()
            .collect();
        for item in over {
            ledger.remove(&item);
        }
    }

    /// Everything that is put off, in order of scope.
    #[must_use]
    pub fn entries(&self) -> Vec<(Item, Deferral)> {
        self.lock()
            .entries
            .iter()
            .map(|(item, entry)| (item.clone(), entry.clone()))
            .collect()
    }

    /// How many pieces of work are put off.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether nothing is put off.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Deferrals that found the ledger full.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.lock().overflowed
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Every method leaves the map whole, so a panic elsewhere does not spoil it.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deferral_is_kept_once_and_counts_its_tries() {
        let ledger = Ledger::default();
        for second in 0..3 {
            ledger.defer(
                "lab/t_1/7",
                "settle",
                "locked",
                Timestamp(f64::from(second)),
                None,
            );
        }
        let [(_, entry)] = &ledger.entries()[..] else {
            panic!()
        };
        assert_eq!((entry.times, entry.since), (3, Timestamp(0.0)));
        ledger.clear("lab/t_1/7", "settle");
        assert!(ledger.is_empty());
    }

    #[test]
    fn the_ledger_is_bounded_and_says_how_much_it_dropped() {
        let ledger = Ledger::default();
        for n in 0..=LEDGER_LIMIT {
            ledger.defer(
                format!("lab/t_{n}"),
                "refused",
                "goal mode",
                Timestamp(0.0),
                None,
            );
        }
        assert_eq!((ledger.len(), ledger.overflowed()), (LEDGER_LIMIT, 1));
    }

    #[test]
    fn what_is_no_longer_seen_leaves_the_ledger() {
        let ledger = Ledger::default();
        for scope in ["lab/t_1", "lab/t_2", "lab2/t_1"] {
            ledger.defer(scope, "refused", "goal mode", Timestamp(0.0), None);
        }
        ledger.retain("lab", "refused", |scope| scope == "lab/t_2");
        let scopes: Vec<_> = ledger
            .entries()
            .into_iter()
            .map(|(item, _)| item.scope)
            .collect();
        assert_eq!(scopes, ["lab/t_2", "lab2/t_1"]);
        ledger.clear_board(&BoardSlug::parse("lab").unwrap());
        let left = ledger.entries();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
