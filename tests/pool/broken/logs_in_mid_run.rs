//! What becomes of a store whose write-ahead log is taken away, or whose tables are, while a worker holds a run.

use std::time::Instant;

use rusqlite::Connection;

use super::{COMPLETED, empty_log, patient_stage, shell};
use crate::support::{Job, PATIENCE, Running, Worker};

/// How the log goes, each as a line of shell in the folder of the store. `../copy.db` is a store without what was
/// acknowledged since.
const LOSSES: [(&str, &str); 4] = [
    ("removed", "rm assignments.db-wal"),
    (
        "removed with its index",
        "rm assignments.db-wal assignments.db-shm",
    ),
    (
        "removed, and read by somebody",
        "rm assignments.db-wal; : > assignments.db-wal",
    ),
    (
        // Who closes the other one moves the log into it and removes the log.
        "another store in its place, and back",
        "mv assignments.db ..; cp ../copy.db assignments.db
         python3 -c \"import sqlite3
sql = sqlite3.connect('assignments.db')
sql.execute('SELECT count(*) FROM assignments').fetchall()
sql.close()\"
         mv ../assignments.db .; test ! -e assignments.db-wal",
    ),
];

/// The worker says that it is alive, again until it is heard, while time passes.
async fn beat(pool: &mut Running<'_>, worker: &Worker, job: &Job, what: &str) {
    let patience = Instant::now() + PATIENCE;
    loop {
        match worker.try_heartbeat(job).await {
            Ok(answer) => return assert_eq!(answer.code(), "ok", "{what}"),
            Err(_) if Instant::now() < patience => pool.a_moment(0.2).await,
            Err(error) => panic!("{what}: {error}: {:?}", pool.pool.reasons()),
        }
    }
}

async fn until_ready(pool: &mut Running<'_>, what: &str) {
    let patience = Instant::now() + PATIENCE;
    while !pool.pool.reasons().is_empty() {
        let reasons = pool.pool.reasons();
        assert!(Instant::now() < patience, "{what}: {reasons:?}");
        pool.a_moment(0.2).await;
    }
}

#[actix::test]
async fn a_log_that_is_lost_in_mid_run_loses_nothing_that_was_acknowledged() {
    for (name, loss) in LOSSES {
        let stage = patient_stage(1);
        let board = stage.board("a");
        stage.task(&board, "t");
        let mut pool = stage.start().await;
        let (worker, job) = pool.first_job(0).await;
        pool.pass(&board).await;
        let folder = &stage.settings.state_dir;
        empty_log(&folder.join("assignments.db"));
        shell(folder, "cp assignments.db ../copy.db");
        for _ in 0..10 {
            assert_eq!(worker.heartbeat(&job).await.code(), "ok", "{name}");
        }
        shell(folder, loss);
        for _ in 0..10 {
            beat(&mut pool, &worker, &job, name).await;
        }
        until_ready(&mut pool, name).await;
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok", "{name}");

        // What a crash would leave at this moment.
        shell(
            folder,
            "mkdir ../left; cp assignments.db assignments.db-wal ../left",
        );
        let left = Connection::open(stage.folder.path().join("left/assignments.db")).unwrap();
        let count = |query: &str| left.query_row(query, [], |row| row.get::<_, i64>(0));
        let beats = count("SELECT count(*) FROM deliveries WHERE kind='heartbeat'");
        assert_eq!(beats, Ok(20), "{name}");
        let results = count("SELECT count(*) FROM assignments WHERE result_json IS NOT NULL");
        assert_eq!(results, Ok(1), "{name}");
        let whole = left.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        assert_eq!(whole.as_deref(), Ok("ok"), "{name}");
    }
}

#[actix::test]
async fn a_table_that_is_lost_in_mid_run_is_told_as_damage_until_it_is_back() {
    for table in ["deliveries", "claims"] {
        let stage = patient_stage(1);
        let board = stage.board("a");
        stage.task(&board, "t");
        let mut pool = stage.start().await;
        let (worker, job) = pool.first_job(0).await;
        pool.pass(&board).await;
        let sql = Connection::open(stage.settings.state_dir.join("assignments.db")).unwrap();
        let rename = |from: &str, to: &str| {
            let statement = format!("ALTER TABLE {from} RENAME TO {to}");
            sql.execute_batch(&statement).unwrap();
        };
        rename(table, "lost");
        assert!(worker.try_heartbeat(&job).await.is_err(), "{table}");
        // What does not need the table does not make the store ready meanwhile.
        let _ = worker.try_poll().await;
        let reasons = pool.pool.reasons();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        let text = format!("was altered by another program: no such table: {table}");
        assert!(reasons[0].contains(&text), "{reasons:?}");
        rename("lost", table);
        until_ready(&mut pool, table).await;
        assert_eq!(worker.heartbeat(&job).await.code(), "ok", "{table}");
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok", "{table}");
    }
}
