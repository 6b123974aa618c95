//! The limit: SQLite alone, doing the two statements of a heartbeat on the store's own tables; and what a commit takes.

use std::path::Path;
use std::time::{Duration, Instant};

use hermes_pool::protocol::Digest;
use hermes_pool::store::Store;
use rusqlite::{Connection, TransactionBehavior, params};
use uuid::Uuid;

use super::figures::{WARM_UP, millis_since};
use super::{Outcome, scratch};

/// Heartbeats a second with `group` runs, each group of one heartbeat of each run in one commit.
pub(crate) fn heartbeats_per_second(folder: &Path, group: u16, duration: Duration) -> Outcome<f64> {
    let path = folder.join("raw.db");
    drop(Store::open(&path, 256)?);
    let mut connection = Connection::open(&path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    for run in 0..group {
        connection.execute(
            "INSERT INTO assignments(board,task_id,run_id,worker_ordinal,attempt,assignment_digest,payload_json,state,\
             created_at,updated_at) VALUES('bench',?1,?2,?3,1,'','{}','running',0,0)",
            params![format!("t_{run:08x}"), run.to_string(), run],
        )?;
    }
    let names: Vec<_> = (0..group)
        .map(|run| (format!("t_{run:08x}"), run.to_string(), run))
        .collect();
    let digest = Digest::of(b"a heartbeat");
    let (began, mut count) = (Instant::now(), 0_u32);
    let mut unmeasured = None;
    while began.elapsed() < WARM_UP + duration {
        if unmeasured.is_none() && began.elapsed() >= WARM_UP {
            unmeasured = Some((count, began.elapsed()));
        }
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut add = tx.prepare_cached(
                "INSERT INTO deliveries(delivery_id,kind,digest,received_at) VALUES(?1,'heartbeat',?2,?3)",
            )?;
            let mut renew = tx.prepare_cached(
                "UPDATE assignments SET lease_until=?4,last_heartbeat=?5,updated_at=?5 WHERE board='bench' AND \
                 task_id=?1 AND run_id=?2 AND worker_ordinal=?3 AND attempt=1 AND state='running'",
            )?;
            for (task, run, ordinal) in &names {
                let now = 1_700_000_000.0 + f64::from(count) / 1e6;
                add.execute(params![Uuid::new_v4().to_string(), digest.as_str(), now])?;
                renew.execute(params![task, run, ordinal, now + 90.0, now])?;
                count += 1;
            }
        }
        tx.commit()?;
    }
    let (count_before, before) = unmeasured.ok_or("a round was too short")?;
    Ok(f64::from(count - count_before) / (began.elapsed() - before).as_secs_f64())
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
