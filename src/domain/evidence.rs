//! Evidence: the only thing that makes an assignment terminal.
//!
//! [`judge`] compares what a board shows with how the pool would have ended the run. It never turns "could not read" or
//! "touched no row" into a verdict; those are errors and retries of the caller.

use std::time::Duration;

use super::{ClaimLock, EndedRun, Fate, GONE_LOOKS_APART_SECONDS, Outcome};

/// How an assignment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// The board shows the end that the pool gave the run.
    Finalized,
    /// The board shows another end, or that the run is no longer there.
    Stale,
}

/// Proof that a run is over, made only in this module from what was read from its board or durably written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    terminal: Terminal,
    reason: String,
}

impl Evidence {
    /// Our own write on the board is committed.
    #[must_use]
    pub fn written(receipt: &Receipt) -> Self {
        Self {
            terminal: Terminal::Finalized,
            reason: format!("written: {}", receipt.what),
        }
    }

    /// The board was seen gone or replaced twice, far enough apart.
    #[must_use]
    pub fn seen_twice(first: &Sighting, second: &Sighting) -> Option<Self> {
        let apart = second.at.saturating_sub(first.at);
        let far_enough = apart.as_secs_f64() >= GONE_LOOKS_APART_SECONDS;
        (far_enough && first.root == second.root).then(|| Self {
            terminal: Terminal::Stale,
            reason: second.why.clone(),
        })
    }

    /// How the assignment ends.
    #[must_use]
    pub fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// What was seen, for people.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// A board's word that a write on the exact run is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    what: &'static str,
}

impl Receipt {
    /// Made by a board right after the commit of a write that changed the exact run; `what` names the ending.
    #[must_use]
    pub fn of_commit(what: &'static str) -> Self {
        Self { what }
    }
}

/// One look at a board that was not there, or was another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// The process' own time: a clock that was set in between makes no minute.
    pub at: Duration,
    /// Identity of the directory that holds the boards: another one is an unmount, not evidence.
    pub root: (u64, u64),
    /// What was seen, for people.
    pub why: String,
}

/// The directory under which a look at a board that is gone, or another one, counts.
///
/// `known` is the one in which this process has last seen the run itself: any other is a place that was unmounted,
/// mounted over or moved away, however often it is looked at. A run that this process has never seen (it was gone when the
/// process began) is looked for wherever the boards should be now, as long as there are any: a place in which none stand
/// (`holds_boards`) is where something is to be mounted.
///
/// # Errors
/// Why the look is none, for people.
pub fn believable_root(
    known: Option<(u64, u64)>,
    found: Option<(u64, u64)>,
    holds_boards: bool,
) -> Result<(u64, u64), &'static str> {
    let Some(found) = found else {
        return Err("the boards' directory is missing");
    };
    match known {
        Some(known) if known == found => Ok(found),
        Some(_) => {
            Err("the boards' directory is another one than when the run was last seen in it")
        }
        None if holds_boards => Ok(found),
        None => Err("no board is in the boards' directory, and the run was never seen in it"),
    }
}

/// How the pool ended the run, or is about to.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpectedEnding {
    /// Completed, with the pool's mark in its metadata.
    Completed {
        /// The mark.
        mark: String,
    },
    /// Blocked with this reason.
    Blocked {
        /// The summary that a block leaves.
        reason: Option<String>,
    },
    /// Booked as a crashed worker.
    Failed,
    /// Booked as a worker that met a quota.
    RateLimited,
    /// Given back.
    Released,
    /// Stopped by its limit of time.
    TimedOut,
}

/// What the pool knows about a run before it looks at the board.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The lock of its claim, where it is known.
    pub lock: Option<ClaimLock>,
    /// How it should end; `None` while it is held.
    pub ending: Option<ExpectedEnding>,
}

/// What a look at the board means for an assignment.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Still ours and open: write the ending, or go on.
    Current,
    /// Over: the evidence tells whether the board shows the ending that the pool gave it.
    Over(Evidence),
    /// The board is another one, or an older copy: believed after a second look.
    Suspect(String),
}

/// Compares what a board shows with what the pool expects.
#[must_use]
pub fn judge(expected: &Expected, fate: &Fate) -> Verdict {
    let over = |terminal, reason: String| Verdict::Over(Evidence { terminal, reason });
    match fate {
        Fate::Current { .. } => Verdict::Current,
        Fate::Ended(run) if is_ours(expected, run) => over(
            Terminal::Finalized,
            format!("ended {}", run.outcome.as_str()),
        ),
        Fate::Ended(run) => over(
            Terminal::Stale,
            format!("ended {} by others", run.outcome.as_str()),
        ),
        Fate::Superseded { why } => over(Terminal::Stale, format!("superseded: {why}")),
        Fate::TaskGone => over(Terminal::Stale, "the task was deleted".to_owned()),
        Fate::RunGone => Verdict::Suspect("the run is gone although its task is there".to_owned()),
        Fate::BoardReplaced { why } => Verdict::Suspect(format!("the board was replaced: {why}")),
    }
}

/// Whether the board shows the ending that the pool gave, or would have given, the run.
fn is_ours(expected: &Expected, run: &EndedRun) -> bool {
    let by_our_lock = expected.lock.is_some() && run.by_lock == expected.lock;
    match (&expected.ending, &run.outcome) {
        (Some(ExpectedEnding::Completed { mark }), Outcome::Completed) => {
            run.mark.as_ref() == Some(mark)
        }
        (Some(ExpectedEnding::Blocked { reason }), Outcome::Blocked) => {
            run.summary == *reason && run.claimed_by_us == Some(true) && run.landing.is_some()
        }
        (Some(ExpectedEnding::Failed), Outcome::Crashed)
        | (Some(ExpectedEnding::RateLimited), Outcome::RateLimited)
        | (Some(ExpectedEnding::Released), Outcome::Reclaimed) => by_our_lock,
        (Some(ExpectedEnding::TimedOut), Outcome::TimedOut) => run.claimed_by_us == Some(true),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Landing;
    use super::*;

    fn ended(outcome: Outcome) -> EndedRun {
        EndedRun {
            outcome,
            summary: None,
            error: None,
            mark: None,
            by_lock: None,
            claimed_by_us: Some(true),
            landing: None,
            task_status: None,
        }
    }

    fn terminal(ending: Option<ExpectedEnding>, run: EndedRun) -> Terminal {
        let expected = Expected {
            lock: Some(ClaimLock::recorded("pool/p:ffffffff:1")),
            ending,
        };
        match judge(&expected, &Fate::Ended(run)) {
            Verdict::Over(evidence) => evidence.terminal(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_ending_is_ours_only_with_the_proof_of_its_kind() {
        use ExpectedEnding as E;
        let lock = Some(ClaimLock::recorded("pool/p:ffffffff:1"));
        let other = Some(ClaimLock::recorded("pool/p:ffffffff:2"));
        let mark = || Some("m1".to_owned());
        let completed = || {
            Some(E::Completed {
                mark: "m1".to_owned(),
            })
        };
        let blocked = || {
            Some(E::Blocked {
                reason: Some("r".to_owned()),
            })
        };
        let block = |summary: &str, ours, landing| EndedRun {
            summary: Some(summary.to_owned()),
            claimed_by_us: ours,
            landing,
            ..ended(Outcome::Blocked)
        };
        let by = |outcome, by_lock: &Option<ClaimLock>| EndedRun {
            by_lock: by_lock.clone(),
            ..ended(outcome)
        };
        let here = Some(Landing::Blocked);
        for (name, ending, run, wanted) in [
            (
                "our mark",
                completed(),
                EndedRun {
                    mark: mark(),
                    ..ended(Outcome::Completed)
                },
                Terminal::Finalized,
            ),
            (
                "no mark",
                completed(),
                ended(Outcome::Completed),
                Terminal::Stale,
            ),
            (
                "another end",
                completed(),
                EndedRun {
                    mark: mark(),
                    ..ended(Outcome::Blocked)
                },
                Terminal::Stale,
            ),
            (
                "our block",
                blocked(),
                block("r", Some(true), here),
                Terminal::Finalized,
            ),
            (
                "another reason",
                blocked(),
                block("q", Some(true), here),
                Terminal::Stale,
            ),
            (
                "another claim",
                blocked(),
                block("r", Some(false), here),
                Terminal::Stale,
            ),
            (
                "no event of a block",
                blocked(),
                block("r", Some(true), None),
                Terminal::Stale,
            ),
            (
                "our release",
                Some(E::Released),
                by(Outcome::Reclaimed, &lock),
                Terminal::Finalized,
            ),
            (
                "expiry by Hermes",
                Some(E::Released),
                by(Outcome::Reclaimed, &None),
                Terminal::Stale,
            ),
            (
                "another's failure",
                Some(E::Failed),
                by(Outcome::Crashed, &other),
                Terminal::Stale,
            ),
            (
                "our failure",
                Some(E::Failed),
                by(Outcome::Crashed, &lock),
                Terminal::Finalized,
            ),
            (
                "our quota",
                Some(E::RateLimited),
                by(Outcome::RateLimited, &lock),
                Terminal::Finalized,
            ),
            (
                "our limit",
                Some(E::TimedOut),
                ended(Outcome::TimedOut),
                Terminal::Finalized,
            ),
            (
                "ended while held",
                None,
                ended(Outcome::Completed),
                Terminal::Stale,
            ),
        ] {
            assert_eq!(terminal(ending, run), wanted, "{name}");
        }
    }

    #[test]
    fn a_board_that_is_gone_is_believed_after_two_looks_under_the_same_root() {
        let look = |at, root| Sighting {
            at: Duration::from_secs_f64(at),
            root,
            why: "gone".to_owned(),
        };
        for (second, believed) in [
            (look(159.9, (1, 2)), false),
            (look(160.0, (1, 2)), true),
            (look(500.0, (1, 3)), false),
        ] {
            assert_eq!(
                Evidence::seen_twice(&look(100.0, (1, 2)), &second).is_some(),
                believed,
                "{second:?}"
            );
        }
    }

    #[test]
    fn a_look_counts_only_where_the_run_was_seen_or_where_boards_are() {
        let (here, there) = (Some((1, 2)), Some((1, 3)));
        for (known, found, holds_boards, counts) in [
            (here, here, true, true),
            // The last board was deleted: the place is the same.
            (here, here, false, true),
            (here, there, true, false),
            (here, there, false, false),
            (here, None, false, false),
            (None, here, true, true),
            (None, here, false, false),
            (None, None, false, false),
        ] {
            let root = believable_root(known, found, holds_boards);
            assert_eq!(root.ok(), found.filter(|_| counts), "{known:?} {found:?}");
        }
    }

    #[test]
    fn a_replaced_board_alone_is_only_a_suspicion() {
        let expected = Expected {
            lock: None,
            ending: None,
        };
        for fate in [
            Fate::RunGone,
            Fate::BoardReplaced {
                why: "stub".to_owned(),
            },
        ] {
            assert!(matches!(judge(&expected, &fate), Verdict::Suspect(_)));
        }
        assert!(matches!(
            judge(&expected, &Fate::TaskGone),
            Verdict::Over(_)
        ));
    }
}
