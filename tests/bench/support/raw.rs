//! The limit: SQLite alone, doing the two statements of a heartbeat on the store's own tables; and what a commit takes.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hermes_pool::protocol::Digest;
use hermes_pool::store::Store;
use rusqlite::{Connection, TransactionBehavior, params};
use uuid::Uuid;

use super::figures::millis_since;
use super::{Outcome, scratch};

/// A store that nobody but SQLite works on.
pub(crate) struct Raw {
    connection: Connection,
    /// Task, run and ordinal of each run: one group is a heartbeat of each, in one commit.
    runs: Vec<(String, String, u16)>,
    digest: Digest,
    count: u32,
}

impl Raw {
    /// A store in a new file, with `group` runs.
    pub(crate) fn new(file: &Path, group: u16) -> Outcome<Self> {
        drop(Store::open(file, 256)?);
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let runs: Vec<_> = (0..group)
            .map(|run| (format!("t_{run:08x}"), run.to_string(), run))
            .collect();
        for run in &runs {
            connection.execute(
                "INSERT INTO assignments(board,task_id,run_id,worker_ordinal,attempt,assignment_digest,payload_json,\
                 state,created_at,updated_at) VALUES('bench',?1,?2,?3,1,'','{}','running',0,0)",
                params![run.0, run.1, run.2],
            )?;
        }
        Ok(Self {
            connection,
            runs,
            digest: Digest::of(b"a heartbeat"),
            count: 0,
        })
    }

    /// One group after the other; returns the heartbeats, and the seconds that they took.
    pub(crate) fn beat_for(&mut self, duration: Duration) -> Outcome<(f64, f64)> {
        let (began, before) = (Instant::now(), self.count);
        while began.elapsed() < duration {
            self.commit_group()?;
        }
        let elapsed = began.elapsed().as_secs_f64();
        Ok((f64::from(self.count - before), elapsed))
    }

    fn commit_group(&mut self) -> Outcome<()> {
        let behavior = TransactionBehavior::Immediate;
        let tx = self.connection.transaction_with_behavior(behavior)?;
        {
            let mut add = tx.prepare_cached(
                "INSERT INTO deliveries(delivery_id,kind,digest,received_at) VALUES(?1,'heartbeat',?2,?3)",
            )?;
            let mut renew = tx.prepare_cached(
                "UPDATE assignments SET lease_until=?4,last_heartbeat=?5,updated_at=?5 WHERE board='bench' AND \
                 task_id=?1 AND run_id=?2 AND worker_ordinal=?3 AND attempt=1 AND state='running'",
            )?;
            for (task, run, ordinal) in &self.runs {
                let now = 1_700_000_000.0 + f64::from(self.count) / 1e6;
                add.execute(params![
                    Uuid::new_v4().to_string(),
                    self.digest.as_str(),
                    now
                ])?;
                renew.execute(params![task, run, ordinal, now + 90.0, now])?;
                self.count += 1;
            }
        }
        Ok(tx.commit()?)
    }
}

/// The same on a thread of its own, which is asked for each group and answers after its commit: what any store costs that
/// one thread writes for all others.
pub(crate) struct RawOnThread {
    ask: mpsc::Sender<()>,
    answers: mpsc::Receiver<bool>,
}

impl RawOnThread {
    /// Starts the thread, which ends with this value.
    pub(crate) fn start(mut raw: Raw) -> Self {
        let (ask, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        std::thread::spawn(move || {
            while let Ok(()) = asked.recv() {
                if answer.send(raw.commit_group().is_ok()).is_err() {
                    return;
                }
            }
        });
        Self { ask, answers }
    }

    /// One group after the other; returns the groups, and the seconds that they took.
    pub(crate) fn beat_for(&self, duration: Duration) -> Outcome<(f64, f64)> {
        let (began, mut count) = (Instant::now(), 0.0);
        while began.elapsed() < duration {
            self.ask.send(())?;
            if !self.answers.recv()? {
                return Err("raw SQLite failed on its thread".into());
            }
            count += 1.0;
        }
        Ok((count, began.elapsed().as_secs_f64()))
    }
}

/// Commits that [`commit_millis`] makes.
const COMMITS: u32 = 100;

/// Milliseconds of single commits of one row each: how quick the disk is, and how undisturbed, at this moment.
pub(crate) fn commit_millis() -> Outcome<Vec<f64>> {
    let folder = scratch()?;
    let connection = Connection::open(folder.path().join("commits.db"))?;
    connection.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE rows(number)",
    )?;
    let mut millis = Vec::new();
    for number in 0..COMMITS {
        let began = Instant::now();
        connection.execute("INSERT INTO rows VALUES(?1)", [number])?;
        millis.push(millis_since(began));
    }
    Ok(millis)
}
