//! The ledger of what is put off: what, why, since when, how often.
//!
//! Invariants: bounded; one entry for each piece of work; an entry is logged when it appears, when its cause changes and
//! when it is cleared, never once per try. Several kinds of work that one scope puts off for one cause are one fault: it is
//! logged with the first of them and with the last, by scope and cause; a cause that takes another's place is logged as
//! `(changed)`, and is what the end is then logged with. It is memory, not state: after a restart the passes find the same work
//! again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::scope::Scope;
use crate::domain::{BoardSlug, Timestamp};

/// Entries kept at most; what comes on top is counted only.
pub const LEDGER_LIMIT: usize = 1024;
/// Characters of a cause that are kept.
const CAUSE_LIMIT: usize = 300;

/// Which piece of work: where, and what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Where.
    pub scope: Scope,
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
            log::info!("resolved scope={} why={:?}", item.scope, entry.why);
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
        scope: impl Into<Scope>,
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
                let former = std::mem::replace(&mut entry.why, why.clone());
                if !is_told {
                    log::warn!(
                        "deferred scope={} what={what} why={why:?} (changed)",
                        item.scope
                    );
                } else if !ledger.has_another(&item, &former) {
                    log::info!("resolved scope={} why={former:?}", item.scope);
                }
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
    pub fn clear(&self, scope: impl Into<Scope>, what: &'static str) {
        let item = Item {
            scope: scope.into(),
            what,
        };
        self.lock().remove(&item);
    }

    /// Everything about this scope is done.
    pub fn clear_all(&self, scope: &Scope) {
        self.clear_where(|item| item.scope == *scope);
    }

    /// Nothing of a board and what is below it is to be done any more.
    pub fn clear_board(&self, board: &BoardSlug) {
        self.clear_where(|item| item.scope.board() == Some(board));
    }

    /// Clears everything of `what` below `parent` that is not among `keep`.
    pub fn retain(&self, parent: impl Into<Scope>, what: &'static str, keep: &[Scope]) {
        let parent = parent.into();
        self.clear_where(|item| {
            item.what == what && item.scope.is_below(&parent) && !keep.contains(&item.scope)
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
    use crate::domain::{RunId, RunKey, TaskId};

    fn board(slug: &str) -> BoardSlug {
        BoardSlug::parse(slug).unwrap()
    }

    fn task(slug: &str, task: &str) -> Scope {
        Scope::below(&board(slug), task)
    }

    #[test]
    fn a_deferral_is_kept_once_and_counts_its_tries() {
        let ledger = Ledger::default();
        let run = RunKey {
            board: board("lab"),
            task: TaskId::parse("t_1").unwrap(),
            run: RunId::from(7),
        };
        for second in 0..3 {
            let now = Timestamp(f64::from(second));
            ledger.defer(&run, "settle", "locked", now, None);
        }
        let [(item, entry)] = &ledger.entries()[..] else {
            panic!()
        };
        assert_eq!((entry.times, entry.since), (3, Timestamp(0.0)));
        assert_eq!(item.scope.to_string(), "lab/t_1/7");
        ledger.clear(&run, "settle");
        assert!(ledger.is_empty());
    }

    #[test]
    fn the_ledger_is_bounded_and_says_how_much_it_dropped() {
        let ledger = Ledger::default();
        for n in 0..=LEDGER_LIMIT {
            let scope = task("lab", &format!("t_{n}"));
            ledger.defer(scope, "refused", "goal mode", Timestamp(0.0), None);
        }
        assert_eq!((ledger.len(), ledger.overflowed()), (LEDGER_LIMIT, 1));
    }

    #[test]
    fn what_is_no_longer_seen_leaves_the_ledger() {
        let ledger = Ledger::default();
        for scope in [
            task("lab", "t_1"),
            task("lab", "t_2"),
            task("lab2", "t_1"),
            task("store", "t_1"),
            Scope::store_row("no board"),
            Scope::Store,
        ] {
            ledger.defer(scope, "refused", "goal mode", Timestamp(0.0), None);
        }
        let scopes = || -> Vec<_> {
            let entries = ledger.entries().into_iter();
            entries.map(|(item, _)| item.scope.to_string()).collect()
        };
        ledger.retain(&board("lab"), "refused", &[task("lab", "t_2")]);
        assert!(!scopes().contains(&"lab/t_1".to_owned()));
        ledger.retain(Scope::Store, "refused", &[]);
        ledger.clear_board(&board("lab"));
        assert_eq!(scopes(), ["pool:store", "lab2/t_1", "store/t_1"]);
        ledger.clear_board(&board("store"));
        assert_eq!(scopes(), ["pool:store", "lab2/t_1"]);
    }
}
