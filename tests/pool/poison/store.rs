//! Poison that stands in the store when the pool starts.

use hermes_pool::actors::Scope;
use hermes_pool::board::BoardHost;
use hermes_pool::domain::{BoardSlug, ClaimLock, TaskId};
use rusqlite::{Connection, params};

use super::values::{VALUES, causes, columns, is_no_number, is_no_text, put, rows, serve, store};
use crate::support::{Running, Stage};

/// Whether a value makes its row one that cannot be understood, by the column's declared type. A text may always stand for
/// a name that is just nobody's.
fn is_unusable(kind: &str, name: &str) -> bool {
    match kind {
        "TEXT" => is_no_text(name),
        _ => is_no_number(name),
    }
}

/// A store that a pool has made, while no pool runs on it.
async fn made(stage: &Stage) -> Connection {
    stage.start().await.stop().await;
    store(stage)
}

/// Asserts that each row is put off once: one entry blames this column of this row.
#[track_caller]
fn assert_told_once(pool: &Running<'_>, wanted: &[(String, String)]) {
    let causes = causes(pool);
    for (row, column) in wanted {
        let told = causes.iter().filter(|why| {
            why.contains(row.as_str()) && why.starts_with(&format!("illegal {column} "))
        });
        assert_eq!(told.count(), 1, "{row} because of {column}: {causes:#?}");
    }
}

/// A row of a run that nobody ever claimed, with its entry; its slot was released.
fn add_row(sql: &Connection, task: &str, now: i64) {
    sql.execute(
        "INSERT INTO assignments(board,task_id,run_id,worker_ordinal,attempt,assignment_digest,payload_json,state,created_at,updated_at)
         VALUES('lab',?1,'1',1,1,'d','{}','lease_failed',?2,?2)",
        params![task, now],
    )
    .unwrap();
    sql.execute(
        "INSERT INTO claims(board,task_id,run_id,claim_lock,run_sequence,event_sequence,cause,created_at)
         VALUES('lab',?1,'1','pool/test:ffffffff:1',1,1,'exhausted',0)",
        [task],
    )
    .unwrap();
}

#[actix::test]
async fn no_value_in_any_column_of_the_store_keeps_the_rows_beside_it_from_being_served() {
    // What no decision and no pass needs. A row of these is as good as any, until it is offered or settled.
    let unread = ["payload_json"];
    for table in ["assignments", "claims"] {
        let stage = Stage::new(2);
        let board = stage.board("lab");
        let sql = made(&stage).await;
        let mut wanted = Vec::new();
        let mut number = 0;
        for (column, kind) in columns(&sql, table) {
            for (name, value) in VALUES {
                number += 1;
                let task = format!("t_{number:08x}");
                add_row(&sql, &task, stage.now());
                let stands = put(&sql, table, &column, &format!("task_id='{task}'"), value);
                let is_key = ["board", "task_id", "run_id"].contains(&column.as_str());
                let is_read = !unread.contains(&column.as_str())
                    && !(table == "claims" && (is_key || column == "created_at"));
                if stands && is_read && !is_key && is_unusable(&kind, name) {
                    wanted.push((format!("row lab/{task}/1"), column.clone()));
                }
            }
        }
        assert!(wanted.len() > 40, "{table}: {}", wanted.len());
        let before = rows(&sql, table);
        let healthy = [(board.clone(), stage.task(&board, "healthy"))];
        let mut pool = stage.start().await;
        serve(&mut pool, 0, &healthy).await;
        pool.pass(&board).await;
        assert_told_once(&pool, &wanted);
        let after = rows(&sql, table);
        for row in &before {
            assert!(after.contains(row), "{table}: repaired or dropped: {row}");
        }
        let snapshot = pool.snapshot().await;
        assert!(snapshot.pool.ready);
        assert_eq!(snapshot.boards[0].restarts, 0);
        // The others are put off too: each names a run that its board never issued.
        let put_off = pool.pool.ledger().entries();
        let scopes: std::collections::BTreeSet<_> = put_off
            .iter()
            .map(|(item, _)| &item.scope)
            .filter(|scope| !matches!(scope, Scope::Board(_)))
            .collect();
        assert_eq!(scopes.len(), number, "{table}: {put_off:#?}");
    }
}

#[actix::test]
async fn no_value_in_any_column_of_an_intent_is_taken_for_a_claim_that_was_never_made() {
    let stage = Stage::new(2);
    let board = stage.board("lab");
    let sql = made(&stage).await;
    let mut wanted = Vec::new();
    let mut number = 0;
    let mut claimed = Vec::new();
    for (column, kind) in columns(&sql, "intents") {
        for (name, value) in VALUES {
            number += 1;
            // The claim was made, and the coordinator ended before it could say so.
            let task = stage.task(&board, "claimed");
            let lock = format!("pool/test:ffffffff:{number}");
            let mut opened = BoardHost::open(&stage.boards, &board).unwrap();
            let run = opened.claim(&task, &ClaimLock::recorded(&lock), 900, stage.now());
            assert!(run.unwrap().is_some());
            sql.execute(
                "INSERT INTO intents VALUES(?1,'lab',?2,0,0,0,NULL,NULL,0)",
                params![lock, task.as_str()],
            )
            .unwrap();
            let which = format!("claim_lock='{lock}'");
            let stands = put(&sql, "intents", &column, &which, value);
            let is_lock = column == "claim_lock";
            if column != "created_at" && stands && (is_lock || is_unusable(&kind, name)) {
                let row = match column.as_str() {
                    "board" => "row ".to_owned(),
                    "task_id" => "row lab/".to_owned(),
                    "claim_lock" => format!("row lab/{task}/"),
                    _ => format!("row lab/{task}/{lock}"),
                };
                if column != "board" && column != "task_id" {
                    wanted.push((row, column.clone()));
                    claimed.push((task, is_lock));
                }
            }
        }
    }
    assert!(wanted.len() > 30, "{}", wanted.len());
    let before = rows(&sql, "intents");
    let healthy = [(board.clone(), stage.task(&board, "healthy"))];
    let mut pool = stage.start().await;
    serve(&mut pool, 0, &healthy).await;
    pool.pass(&board).await;
    assert_told_once(&pool, &wanted);
    let after = rows(&sql, "intents");
    for (task, is_lock) in claimed {
        let hex: String = task.as_str().bytes().map(|b| format!("{b:02X}")).collect();
        let kept = before.iter().find(|row| row.contains(&hex)).unwrap();
        assert!(after.contains(kept), "repaired or dropped: {kept}");
        assert_eq!(stage.status(&board, &task), "running", "left alone");
        let stranger = pool.pool.ledger().entries().into_iter().any(|(item, _)| {
            item.what == "unknown claim" && item.scope.to_string().ends_with(task.as_str())
        });
        assert_eq!(stranger, is_lock, "known by its lock alone: {task}");
    }
}

#[actix::test]
async fn rows_that_belong_to_nobody_are_put_off_and_left_as_they_are() {
    let stage = Stage::new(2);
    let board = stage.board("lab");
    let known = stage.task(&board, "known");
    let sql = made(&stage).await;
    for (board, task) in [
        ("nowhere", "t_00000001"),
        ("lab", "t_00000001"),
        ("lab", known.as_str()),
    ] {
        sql.execute(
            "INSERT INTO assignments(board,task_id,run_id,worker_ordinal,attempt,assignment_digest,payload_json,state,created_at,updated_at)
             VALUES(?1,?2,'77',1,1,'d','{}','lease_failed',?3,?3)",
            params![board, task, stage.now()],
        )
        .unwrap();
    }
    let before = rows(&sql, "assignments");
    let mut pool = stage.start().await;
    serve(&mut pool, 0, &[(board.clone(), known.clone())]).await;
    pool.pass(&board).await;
    pool.pass(&BoardSlug::parse("nowhere").unwrap()).await;
    let put_off: Vec<_> = pool
        .pool
        .ledger()
        .entries()
        .into_iter()
        .filter(|(item, _)| item.what == "find its board")
        .map(|(item, _)| item.scope.to_string())
        .collect();
    let mut wanted = vec![
        "nowhere/t_00000001/77".to_owned(),
        "lab/t_00000001/77".to_owned(),
        format!("lab/{known}/77"),
    ];
    wanted.sort();
    let mut sorted = put_off.clone();
    sorted.sort();
    assert_eq!(sorted, wanted);
    let after = rows(&sql, "assignments");
    assert!(before.iter().all(|row| after.contains(row)), "{after:#?}");
}

#[actix::test]
async fn what_is_over_and_has_no_age_is_told_once_and_never_collected() {
    let stage = Stage::new(2);
    let board = stage.board("lab");
    let sql = made(&stage).await;
    let mut wanted = Vec::new();
    for (number, (name, value)) in VALUES.into_iter().enumerate() {
        let task = format!("t_{number:08x}");
        add_row(&sql, &task, stage.now());
        let which = format!("task_id='{task}'");
        put(&sql, "assignments", "state", &which, "'finalized'");
        let ageless = is_no_number(name) || matches!(name, "largest integer" | "infinity");
        if put(&sql, "assignments", "updated_at", &which, value) && ageless {
            wanted.push((format!("row lab/{task}/1"), "updated_at".to_owned()));
        }
        let delivery = format!("d-{number:08x}");
        sql.execute(
            "INSERT INTO deliveries VALUES(?1,'heartbeat','d',0)",
            [&delivery],
        )
        .unwrap();
        let which = format!("delivery_id='{delivery}'");
        if put(&sql, "deliveries", "received_at", &which, value) && ageless {
            wanted.push((
                format!("row {delivery}/heartbeat/d"),
                "received_at".to_owned(),
            ));
        }
    }
    assert_eq!(wanted.len(), 2 * 9, "{wanted:?}");
    let mut pool = stage.start().await;
    let healthy: Vec<(BoardSlug, TaskId)> = vec![(board.clone(), stage.task(&board, "healthy"))];
    serve(&mut pool, 0, &healthy).await;
    assert_told_once(&pool, &wanted);
    // Far beyond the time that anything else is kept.
    for _ in 0..20 {
        pool.a_moment(100_000.0).await;
    }
    assert_told_once(&pool, &wanted);
    for (table, kept) in [("assignments", 9), ("deliveries", 9)] {
        assert!(rows(&sql, table).len() >= kept, "{table}");
    }
}
