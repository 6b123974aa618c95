//! What a Reconciler remembers between passes. All of it may be lost: then the next pass looks at everything again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::{RunKey, Sighting, Timestamp};
use crate::store::Record;

/// What is remembered of one run.
#[derive(Debug, Default)]
pub(super) struct RowMemory {
    /// The process' own time when the board last confirmed the claim.
    pub(super) confirmed: Option<Duration>,
    /// When the run's limit of time passes.
    pub(super) limit_at: Option<Timestamp>,
    /// The directory of boards in which the board has last shown that the run is ours.
    pub(super) root: Option<(u64, u64)>,
    /// The first of the two looks at a board that was gone or replaced.
    pub(super) sighting: Option<Sighting>,
    /// Its result cannot be settled: nobody here knows how it should end.
    pub(super) left_to_people: bool,
    /// It became terminal in this pass.
    pub(super) ended: bool,
    /// Its board was looked at for it since the board last changed.
    pub(super) looked_at: bool,
}

/// What is remembered of the runs of one board; bounded by the runs that are not settled.
#[derive(Debug, Default)]
pub(in crate::actors) struct PassMemory {
    rows: BTreeMap<RunKey, RowMemory>,
    /// The first look of an intent at a board that was gone or replaced, by lock.
    pub(super) intents: BTreeMap<String, Sighting>,
    /// Unknown claims were looked for since the board last changed.
    pub(super) claims_looked_at: bool,
    /// How often the board had been opened when the last pass began.
    openings: u64,
}

impl PassMemory {
    /// The board may have changed: every run has to be looked at again.
    pub(in crate::actors) fn board_changed(&mut self) {
        self.claims_looked_at = false;
        for row in self.rows.values_mut() {
            row.looked_at = false;
        }
    }

    /// A board that was opened again may have changed while it was not open.
    pub(super) fn opened(&mut self, openings: u64) {
        if std::mem::replace(&mut self.openings, openings) != openings {
            self.board_changed();
        }
    }

    pub(super) fn keep_only(&mut self, records: &[Record]) {
        let mut rows = std::mem::take(&mut self.rows);
        self.rows = records
            .iter()
            .map(|record| {
                let key = record.assignment.binding().key.clone();
                let row = rows.remove(&key).unwrap_or_default();
                (key, row)
            })
            .collect();
    }

    pub(super) fn of(&mut self, record: &Record) -> &mut RowMemory {
        self.rows
            .entry(record.assignment.binding().key.clone())
            .or_default()
    }

    /// A pass has ended. If the board did not answer, nothing that it would have shown was seen.
    pub(super) fn looked_at_all(&mut self, board_is_down: bool) {
        if board_is_down {
            self.board_changed();
        }
    }
}
