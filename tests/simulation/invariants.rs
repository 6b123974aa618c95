//! What must hold after every single piece of work, judged by the store's file and by the account of the boards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_pool::board::{Ending, mark};
use hermes_pool::domain::ClaimLock;
use hermes_pool::protocol::{BlockKind, parse_json};
use rusqlite::{Connection, OpenFlags};

use super::boards::{Account, Deed, What, World};
use super::coverage::{Event, saw};
use super::history::ATTEMPTS;
use super::workers::Message;

/// Why a history must not have happened.
pub(crate) type Violation = String;

/// One row, with its claim.
#[derive(Clone, Debug)]
struct Row {
    key: String,
    board: String,
    ordinal: i64,
    attempt: i64,
    state: String,
    result_digest: Option<String>,
    result: Option<String>,
    lock: Option<String>,
    cause: Option<String>,
}

impl Row {
    fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "finalized" | "stale")
    }

    fn is_live(&self) -> bool {
        matches!(self.state.as_str(), "assigned" | "running" | "result")
    }

    /// A worker has it, or is to have it.
    fn is_held(&self) -> bool {
        matches!(self.state.as_str(), "assigned" | "running")
    }

    fn mark(&self) -> String {
        format!("{}/{}/{}@", self.key, self.ordinal, self.attempt)
    }

    /// Whether this is the ending that the row asks for.
    fn asks_for(&self, deed: &Deed, ending: &Ending) -> bool {
        let Some(result) = &self.result else {
            return match self.cause.as_deref() {
                Some("exhausted") => matches!(
                    ending,
                    Ending::Block {
                        kind: BlockKind::Transient,
                        ..
                    }
                ),
                // A limit that was raised after its worker had been stopped is none to end the run by.
                Some("limit_passed") if deed.is_past_limit() => {
                    matches!(ending, Ending::TimeOut { .. })
                }
                _ => matches!(ending, Ending::Release { .. }),
            };
        };
        let json = parse_json(result.as_bytes()).unwrap();
        let member = |name| {
            json.get(name)
                .and_then(|value| value.as_str().map(str::to_owned))
        };
        let (outcome, reason) = (member("outcome"), member("reason"));
        match (outcome.as_deref(), ending) {
            (
                Some("completed"),
                Ending::Complete {
                    summary, metadata, ..
                },
            ) => {
                *summary == member("summary")
                    && mark::find(metadata).is_some_and(|mark| mark.starts_with(&self.mark()))
            }
            (Some("blocked"), Ending::Block { reason: told, .. })
            | (Some("released"), Ending::Release { reason: told }) => *told == reason,
            (Some("failed"), Ending::Fail { reason: told, .. })
            | (Some("rate_limited"), Ending::RateLimit { reason: told }) => {
                Some(told) == reason.as_ref()
            }
            _ => false,
        }
    }
}

/// A result that a worker was told is accepted.
struct Acknowledged {
    key: String,
    attempt: String,
    digest: String,
}

/// Remembers what was promised, and judges.
pub(crate) struct Judge {
    path: PathBuf,
    store: Option<Connection>,
    acknowledged: Vec<Acknowledged>,
    over: BTreeMap<String, String>,
    deeds_judged: usize,
}

impl Judge {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            store: None,
            acknowledged: Vec::new(),
            over: BTreeMap::new(),
            deeds_judged: 0,
        }
    }

    fn store(&mut self) -> &Connection {
        let path = &self.path;
        self.store.get_or_insert_with(|| {
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
        })
    }

    fn rows(&mut self) -> Vec<Row> {
        let sql = "SELECT a.board||'/'||a.task_id||'/'||a.run_id, a.board, a.worker_ordinal, a.attempt, a.state,
            a.result_digest, a.result_json, c.claim_lock, c.cause
            FROM assignments a LEFT JOIN claims c USING(board, task_id, run_id) ORDER BY 1";
        let mut statement = self.store().prepare_cached(sql).unwrap();
        let rows = statement.query_map([], |row| {
            Ok(Row {
                key: row.get(0)?,
                board: row.get(1)?,
                ordinal: row.get(2)?,
                attempt: row.get(3)?,
                state: row.get(4)?,
                result_digest: row.get(5)?,
                result: row.get(6)?,
                lock: row.get(7)?,
                cause: row.get(8)?,
            })
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    fn intents(&mut self) -> Vec<String> {
        let mut statement = self
            .store()
            .prepare_cached("SELECT claim_lock FROM intents")
            .unwrap();
        let locks = statement.query_map([], |row| row.get(0));
        locks.unwrap().map(Result::unwrap).collect()
    }

    /// A result was acknowledged, just now.
    pub(crate) fn acknowledged(&mut self, message: &Message) {
        let binding = &message.binding;
        self.acknowledged.push(Acknowledged {
            key: format!("{}/{}/{}", binding.board, binding.task_id, binding.run_id),
            attempt: binding.attempt.to_string(),
            digest: message.digest(),
        });
    }

    /// Judges what stands now.
    pub(crate) fn judge(&mut self, world: &World, now: Duration) -> Result<(), Violation> {
        let (rows, intents) = (self.rows(), self.intents());
        one_live_run_for_each_slot(&rows)?;
        for row in &rows {
            attempt_is_allowed(row)?;
            result_is_of_the_attempt(row)?;
        }
        self.nothing_acknowledged_is_lost(&rows)?;
        for deed in &world.account.deeds[self.deeds_judged..] {
            deed_is_justified(deed, &rows, &intents)?;
        }
        self.deeds_judged = world.account.deeds.len();
        self.ends_have_evidence(&rows, &world.account, now)
    }

    fn nothing_acknowledged_is_lost(&self, rows: &[Row]) -> Result<(), Violation> {
        for told in &self.acknowledged {
            let row = rows.iter().find(|row| row.key == told.key);
            let stands = row.is_some_and(|row| {
                row.result_digest.as_deref() == Some(&told.digest)
                    && row.attempt.to_string() == told.attempt
            });
            if !stands {
                return Err(format!(
                    "an acknowledged result is lost: {} attempt {}, the store has {row:?}",
                    told.key, told.attempt
                ));
            }
        }
        Ok(())
    }

    fn ends_have_evidence(
        &mut self,
        rows: &[Row],
        account: &Account,
        now: Duration,
    ) -> Result<(), Violation> {
        for row in rows {
            match self.over.get(&row.key) {
                Some(state) if *state != row.state => {
                    return Err(format!("an end was taken back: {state}, now {row:?}"));
                }
                Some(_) => {}
                None if row.is_over() => {
                    end_has_evidence(row, account, now)?;
                    see_end(row);
                    self.over.insert(row.key.clone(), row.state.clone());
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Somebody took a claim back that nobody had extended. A pool that works has extended all that it holds.
    pub(crate) fn must_not_hold(&mut self, lock: &ClaimLock) -> Result<(), Violation> {
        let lock = lock.as_str();
        let mut rows = self.rows().into_iter();
        match rows.find(|row| row.lock.as_deref() == Some(lock) && !row.is_over()) {
            Some(row) => Err(format!("a claim was not extended: {row:?}")),
            None => Ok(()),
        }
    }

    /// A run that its board shows as lost is no longer its worker's.
    pub(crate) fn nothing_lost_is_held(&mut self, world: &World) -> Result<(), Violation> {
        let account = &world.account;
        let rows = self.rows();
        let held = rows.iter().filter(|row| row.is_held());
        for row in held.filter(|row| !account.is_uprooted(row, |_| true)) {
            let mut deeds = account.deeds_of(row);
            if deeds.any(|deed| matches!(deed.what, What::Foreign)) {
                return Err(format!("a lost run is still held: {row:?}"));
            }
        }
        Ok(())
    }

    /// What is not over, in the store.
    pub(crate) fn left_over(&mut self) -> Vec<String> {
        let mut left: Vec<String> = self
            .rows()
            .iter()
            .filter(|row| !row.is_over())
            .map(|row| format!("{row:?}"))
            .collect();
        left.extend(
            self.intents()
                .into_iter()
                .map(|lock| format!("intent {lock}")),
        );
        left
    }
}

fn one_live_run_for_each_slot(rows: &[Row]) -> Result<(), Violation> {
    let mut live: BTreeMap<i64, &Row> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_live()) {
        if let Some(other) = live.insert(row.ordinal, row) {
            return Err(format!("two live assignments: {other:?} and {row:?}"));
        }
    }
    Ok(())
}

fn attempt_is_allowed(row: &Row) -> Result<(), Violation> {
    if (1..=ATTEMPTS).contains(&row.attempt) {
        return Ok(());
    }
    Err(format!("an attempt too many: {row:?}"))
}

/// Every result names the attempt that its worker held.
fn result_is_of_the_attempt(row: &Row) -> Result<(), Violation> {
    let Some(result) = &row.result else {
        return Ok(());
    };
    let name = format!("ordinal={} attempt={} ", row.ordinal, row.attempt);
    if result.contains(&name) {
        return Ok(());
    }
    Err(format!("a result of another attempt was taken: {row:?}"))
}

/// A write of the pool on a board has its reason in the store, which always knows first.
fn deed_is_justified(deed: &Deed, rows: &[Row], intents: &[String]) -> Result<(), Violation> {
    let row = rows
        .iter()
        .find(|row| row.lock.as_deref() == Some(deed.lock.as_str()));
    let intended = intents.iter().any(|lock| lock == deed.lock.as_str());
    let justified = match (&deed.what, row) {
        (What::Foreign | What::Vanished, _) => true,
        (What::Claimed, None) => intended,
        (What::Claimed, Some(_)) => false,
        (What::Extended | What::Beat, row) => row.is_some_and(|row| !row.is_over()),
        (What::Ended(ending), None) => intended && gives_back(ending, deed.unfit),
        (What::Ended(_), Some(row)) if row.is_over() => false,
        (What::Ended(ending), Some(row)) => {
            let released = row.result.is_some() || row.state == "lease_failed";
            released && row.asks_for(deed, ending) && (!times_out(ending) || deed.is_past_limit())
        }
    };
    if justified {
        return Ok(());
    }
    Err(format!(
        "a write on a board without a reason: {deed:?}, the store has {row:?}"
    ))
}

fn times_out(ending: &Ending) -> bool {
    matches!(ending, Ending::TimeOut { .. })
}

fn gives_back(ending: &Ending, unfit: bool) -> bool {
    match ending {
        Ending::Release { .. } => true,
        Ending::Block { kind, .. } => unfit && *kind == BlockKind::Capability,
        _ => false,
    }
}

/// A board that was gone or another one is believed at the second look, a minute after the first.
const LOOKS_APART: Duration = Duration::from_secs(60);

fn end_has_evidence(row: &Row, account: &Account, now: Duration) -> Result<(), Violation> {
    let deeds = || account.deeds_of(row);
    let ends_asked_for = deeds().any(|deed| match &deed.what {
        What::Ended(ending) => row.asks_for(deed, ending),
        _ => false,
    });
    // That neither the run nor its task is there is certain at the first look, whatever happened to the board before.
    let ended_otherwise = deeds().any(|deed| match &deed.what {
        What::Foreign | What::Vanished => true,
        What::Ended(ending) => !row.asks_for(deed, ending),
        What::Claimed | What::Extended | What::Beat => false,
    });
    let uprooted = account.is_uprooted(row, |at| now - at >= LOOKS_APART);
    let proved = match row.state.as_str() {
        "finalized" => ends_asked_for,
        _ => ended_otherwise || uprooted,
    };
    if proved {
        return Ok(());
    }
    let deeds: Vec<_> = deeds().collect();
    Err(format!(
        "an end without evidence: {row:?}, the board knows {deeds:?}"
    ))
}

impl Account {
    /// What happened to the claim of a row.
    fn deeds_of<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a Deed> {
        let deeds = self.deeds.iter();
        deeds.filter(|deed| Some(deed.lock.as_str()) == row.lock.as_deref())
    }

    /// Whether, since a row's claim, its board became another one or went away, at a time like this.
    fn is_uprooted(&self, row: &Row, at: impl Fn(Duration) -> bool) -> bool {
        let claim = row.lock.as_ref().and_then(|lock| self.claims.get(lock));
        claim.is_some_and(|claim| {
            self.upheavals.iter().any(|upheaval| {
                upheaval.board.as_str() == row.board && upheaval.at >= claim.at && at(upheaval.at)
            })
        })
    }
}

fn see_end(row: &Row) {
    saw(match row.state.as_str() {
        "finalized" => Event::Finalized,
        _ => Event::Stale,
    });
    match row.cause.as_deref() {
        Some("exhausted") => saw(Event::Exhausted),
        Some("never_fetched") => saw(Event::NeverFetched),
        Some("unsettled") => saw(Event::Unsettled),
        Some("unconfirmed") => saw(Event::Unconfirmed),
        Some("superseded") => saw(Event::Superseded),
        Some("limit_passed") => saw(Event::LimitPassed),
        _ => {}
    }
}
