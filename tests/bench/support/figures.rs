//! How much is measured, and what is made of it.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use hermes_pool::clock::{Clock, SystemClock};

use super::Outcome;
use super::history::History;

/// How long heartbeats run before they are counted. By then a store's log has its length and is written over, for the rest
/// of the store's life, where one that still grows costs the disk twice as much with each commit; and tables and indexes
/// have left the few pages of a new store.
pub(crate) const WARM_UP: Duration = Duration::from_secs(1);

/// How much is measured, and what is made for it only once.
pub(crate) struct Session {
    /// Rounds of each figure.
    pub(crate) rounds: usize,
    /// Length of a round of heartbeats.
    pub(crate) round: Duration,
    /// Whether it is only to be seen that everything runs.
    is_quick: bool,
    history: OnceCell<History>,
}

impl Session {
    /// What figures are taken from.
    pub(crate) fn full() -> Self {
        Self {
            rounds: 5,
            round: Duration::from_millis(700),
            is_quick: false,
            history: OnceCell::new(),
        }
    }

    /// One short round of each.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            round: Duration::from_millis(200),
            is_quick: true,
            history: OnceCell::new(),
        }
    }

    /// The first in earnest, the second to see that everything runs.
    pub(crate) fn choose<T>(&self, full: T, quick: T) -> T {
        if self.is_quick { quick } else { full }
    }

    /// The long history, made when it is first wanted.
    pub(crate) fn history(&self) -> Outcome<&History> {
        if self.history.get().is_none() {
            let (assignments, tasks) = self.choose((1_000_000, 100_000), (100_000, 10_000));
            let made = History::new(assignments, tasks, Self::now())?;
            return Ok(self.history.get_or_init(|| made));
        }
        self.history
            .get()
            .ok_or_else(|| "there is no history".into())
    }

    /// Seconds since the epoch.
    pub(crate) fn now() -> f64 {
        SystemClock::new().now().0
    }
}

/// The middle one of some figures; 0 of none.
pub(crate) fn median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// The figure below which this part of all figures lies; 0 of none.
pub(crate) fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let position = (part * last as f64).round() as usize;
    sorted.get(position).copied().unwrap_or(0.0)
}

/// Milliseconds since a moment.
pub(crate) fn millis_since(moment: Instant) -> f64 {
    moment.elapsed().as_secs_f64() * 1e3
}

/// The clock ticks in which Linux tells processes' times, on whatever it runs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time that a process (`self`, or its id) has used, in steps of the system's clock tick.
pub(crate) fn cpu_seconds(process: &str) -> Outcome<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold blanks; the 12th and 13th field after it are user and system time.
    let (_, fields) = stat
        .rsplit_once(')')
        .ok_or("no name in the process's state")?;
    let mut ticks = 0.0;
    for field in fields.split_whitespace().skip(11).take(2) {
        ticks += field.parse::<f64>()?;
    }
    Ok(ticks / TICKS_PER_SECOND)
}
