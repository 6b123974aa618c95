//! Poison that comes into the store in the middle of a run: into the row of a slot whose worker is at it, and into what is
//! remembered of its messages.

use hermes_pool::actors::DeliveryError;
use hermes_pool::domain::{BoardSlug, IllegalRow};
use hermes_pool::protocol::{Json, Kind};
use hermes_pool::store::{Reader, StoreError};
use rusqlite::Connection;

use super::values::{VALUES, causes, cells, columns, is_no_number, is_no_text, kept, put, store};
use crate::support::{Answer, Job, PATIENCE, Running, Stage, Worker};

const RESULT: &str = r#"{"outcome":"completed"}"#;

/// How a row gets into a state, whatever the pool does meanwhile.
const STATES: [(&str, &str); 3] = [
    ("assigned", "state='assigned',lease_until=0"),
    ("running", "state='running'"),
    (
        "result",
        "state='result',result_digest='d',result_json='{\"outcome\":\"released\"}'",
    ),
];

/// A pool of one slot for each value, and a last one beside them; all of them at work.
async fn at_work<'a>(stage: &'a Stage, board: &BoardSlug) -> (Running<'a>, Vec<(Worker, Job)>) {
    let slots = stage.settings.slots;
    for number in 0..slots {
        stage.task(board, &format!("task {number}"));
    }
    let mut pool = stage.start().await;
    let mut at_work = Vec::new();
    for ordinal in 0..slots {
        let (worker, job) = pool.first_job(ordinal).await;
        at_work.push((worker, job));
    }
    (pool, at_work)
}

fn stage() -> Stage {
    let mut stage = Stage::new(u16::try_from(VALUES.len()).unwrap() + 1);
    stage.settings.interval_seconds = 30.0;
    stage
}

/// Rows that cannot be understood, as far as they are not over.
fn illegal(stage: &Stage, board: &BoardSlug) -> Vec<IllegalRow> {
    let reader = Reader::open(&stage.settings.state_dir.join("assignments.db")).unwrap();
    let unsettled = reader.unsettled(board).unwrap();
    let mut rows: Vec<_> = unsettled.into_iter().filter_map(Result::err).collect();
    rows.extend(reader.boards().unwrap().1);
    rows
}

/// Whether a value must keep every transition from its row, by the declared type of a column that is read.
fn is_unusable(kind: &str, name: &str) -> bool {
    match kind {
        "TEXT" => is_no_text(name),
        _ => is_no_number(name),
    }
}

/// A worker may be told that the row is unreadable (503), or be refused, or go on.
#[track_caller]
fn assert_clear(answer: Result<String, DeliveryError>, what: &str) {
    match answer {
        Ok(code) => assert_ne!(code, "", "{what}"),
        Err(DeliveryError::Store(StoreError::Illegal(_))) => {}
        Err(other) => panic!("{what}: {other}"),
    }
}

async fn say_everything((worker, job): &(Worker, Job), what: &str) {
    let code =
        |answer: Result<Answer, DeliveryError>| answer.map(|answer| answer.code().to_owned());
    assert_clear(code(worker.try_heartbeat(job).await), what);
    let polled = worker.try_poll().await;
    assert_clear(polled.map(|_| "ok".to_owned()), what);
    assert_clear(code(worker.try_submit(job, RESULT).await), what);
}

/// Time passes, and the neighbour goes on, until each worker is answered again as if nothing had been.
async fn until_every_slot_serves(pool: &mut Running<'_>, slots: &[(Worker, Job)], what: &str) {
    let (neighbour, victims) = slots.split_last().unwrap();
    let mut lost: Vec<usize> = (0..victims.len()).collect();
    for _ in 0..60 {
        // Half a lease, and a moment for what is tried again after a second.
        pool.a_moment(45.0).await;
        pool.a_moment(1.1).await;
        let beat = neighbour.0.heartbeat(&neighbour.1).await;
        assert_eq!(beat.code(), "ok", "{what}: the neighbour goes on");
        let mut still = Vec::new();
        for slot in lost {
            if victims[slot].0.try_poll().await.is_err() {
                still.push(slot);
            }
        }
        lost = still;
        if lost.is_empty() {
            return;
        }
    }
    let names: Vec<_> = lost.iter().map(|slot| VALUES[*slot].0).collect();
    panic!("{what}: these slots are lost: {names:?}");
}

#[track_caller]
fn assert_told_once(pool: &Running<'_>, rows: &[IllegalRow], what: &str) {
    let causes = causes(pool);
    for row in rows {
        let told = causes.iter().filter(|why| **why == kept(&row.to_string()));
        assert_eq!(told.count(), 1, "{what}: {row}: {causes:#?}");
    }
}

/// Poisons one column of every slot's row but the last, one value each; gives what stands in those that are unusable now.
fn poison(sql: &Connection, table: &str, (column, kind): (&str, &str), set: &str) -> Vec<String> {
    let mut unusable = Vec::new();
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    for (ordinal, (name, value)) in VALUES.into_iter().enumerate() {
        let own: i64 = sql
            .query_row(
                "SELECT rowid FROM assignments WHERE worker_ordinal=?1 AND payload_json<>''",
                [i64::try_from(ordinal).unwrap()],
                |row| row.get(0),
            )
            .unwrap();
        let own = format!("rowid={own}");
        sql.execute(&format!("UPDATE assignments SET {set} WHERE {own}"), [])
            .unwrap();
        let which = match table {
            "claims" => format!("task_id=(SELECT task_id FROM assignments WHERE {own})"),
            _ => own,
        };
        let stands = put(sql, table, column, &which, value);
        if stands && is_unusable(kind, name) {
            unusable.extend(cells(sql, table, column, &which));
        }
    }
    sql.execute_batch("COMMIT").unwrap();
    unusable
}

/// Columns that no transition reads, or that are read only where they are offered or settled.
fn is_read(table: &str, column: &str) -> bool {
    let aside = ["payload_json", "result_json"];
    match table {
        "claims" => !["board", "task_id", "run_id", "created_at"].contains(&column),
        _ => !aside.contains(&column),
    }
}

async fn poisoned_in_mid_run(table: &str, column: (&str, &str), (state, set): (&str, &str)) {
    let what = format!("{table}.{} while {state}", column.0);
    let stage = stage();
    let board = stage.board("lab");
    let (mut pool, slots) = at_work(&stage, &board).await;
    let sql = store(&stage);
    let unusable = poison(&sql, table, column, set);
    for slot in &slots[..VALUES.len()] {
        say_everything(slot, &what).await;
    }
    pool.pass(&board).await;
    let boards = pool.pool.boards().unwrap();
    boards.ask(hermes_pool::actors::ListBoards).await.unwrap();
    let rows = illegal(&stage, &board);
    if is_read(table, column.0) {
        let found = rows.len();
        assert!(found >= unusable.len(), "{what}: {unusable:?}, {rows:#?}");
    }
    assert_told_once(&pool, &rows, &what);
    until_every_slot_serves(&mut pool, &slots, &what).await;
    pool.pass(&board).await;
    let after = illegal(&stage, &board);
    for row in &rows {
        let is_there = after.iter().any(|still| still.run == row.run);
        assert!(is_there, "{what}: repaired or dropped: {row}");
    }
    if is_read(table, column.0) {
        let cells = cells(&sql, table, column.0, "1");
        let repaired = unusable.iter().find(|cell| !cells.contains(cell));
        assert_eq!(repaired, None, "{what}");
    }
    assert_told_once(&pool, &after, &what);
    let live = Reader::open(&stage.settings.state_dir.join("assignments.db")).unwrap();
    for row in live
        .live()
        .unwrap()
        .iter()
        .filter_map(|row| row.as_ref().err())
    {
        assert_eq!(
            row.column, "worker_ordinal",
            "{what}: only what is no slot holds none: {row}"
        );
    }
    assert_eq!(pool.snapshot().await.boards[0].restarts, 0, "{what}");
}

async fn each_column(table: &str, states: &[(&str, &str)]) {
    let pattern = stage();
    pattern.start().await.stop().await;
    for (column, kind) in columns(&store(&pattern), table) {
        for state in states {
            poisoned_in_mid_run(table, (&column, &kind), *state).await;
        }
    }
}

#[actix::test]
async fn an_assigned_row_that_is_poisoned_costs_its_slot_a_lease_and_no_other_slot_anything() {
    each_column("assignments", &STATES[..1]).await;
}

#[actix::test]
async fn a_running_row_that_is_poisoned_costs_its_slot_a_lease_and_no_other_slot_anything() {
    each_column("assignments", &STATES[1..2]).await;
}

#[actix::test]
async fn a_result_that_is_poisoned_costs_its_slot_a_lease_and_no_other_slot_anything() {
    each_column("assignments", &STATES[2..]).await;
}

#[actix::test]
async fn an_entry_that_is_poisoned_costs_its_slot_a_lease_and_no_other_slot_anything() {
    each_column("claims", &STATES[1..2]).await;
}

#[actix::test]
async fn a_run_whose_row_comes_to_name_a_slot_that_the_pool_does_not_have_ends_all_the_same() {
    let stage = Stage::new(4);
    let board = stage.board("lab");
    let (mut pool, slots) = at_work(&stage, &board).await;
    let sql = store(&stage);
    let strayed = "worker_ordinal=2026";
    sql.execute(
        &format!("UPDATE assignments SET {strayed} WHERE worker_ordinal=0"),
        [],
    )
    .unwrap();
    let (worker, job) = &slots[0];
    assert_eq!(worker.heartbeat(job).await.code(), "wrong_ordinal");
    // Three attempts: a lease, and twice the time in which nobody fetches it.
    for _ in 0..20 {
        pool.a_moment(50.0).await;
        pool.pass(&board).await;
        let (neighbour, job) = &slots[1];
        assert_eq!(neighbour.heartbeat(job).await.code(), "ok");
    }
    assert_eq!(
        cells(&sql, "assignments", "state", strayed),
        ["text 66696E616C697A6564"]
    );
    let task = hermes_pool::domain::TaskId::parse(&job.binding.task_id).unwrap();
    assert_eq!(stage.status(&board, &task), "blocked");
}

#[actix::test]
async fn a_payload_that_cannot_be_offered_sends_its_run_back_and_blames_nobody() {
    for column in ["payload_json", "assignment_digest"] {
        let stage = stage();
        let board = stage.board("lab");
        let (mut pool, slots) = at_work(&stage, &board).await;
        let sql = store(&stage);
        poison(&sql, "assignments", (column, "TEXT"), "state='running'");
        let poisoned = cells(&sql, "assignments", column, "1");
        for ((worker, job), (name, _)) in slots.iter().zip(VALUES) {
            // Its worker restarted and asks again.
            let again = worker.try_poll().await;
            let is_kept = name == "NULL";
            let is_same = matches!(&again, Ok(Some(again)) if again.binding == job.binding);
            assert_eq!(is_same, is_kept, "{column} {name}: {again:?}");
            let is_illegal = column == "assignment_digest" && is_no_text(name);
            assert_eq!(again.is_err(), is_illegal, "{column} {name}: {again:?}");
            if !is_kept && !is_illegal {
                assert_eq!(worker.heartbeat(job).await.code(), "run_superseded");
            }
        }
        pool.pass(&board).await;
        until_every_slot_serves(&mut pool, &slots, column).await;
        let after = cells(&sql, "assignments", column, "1");
        for cell in poisoned {
            assert!(after.contains(&cell), "{column} was repaired: {cell}");
        }
        for (_, job) in &slots {
            let task = hermes_pool::domain::TaskId::parse(&job.binding.task_id).unwrap();
            assert_ne!(stage.status(&board, &task), "blocked", "{column}");
        }
    }
}

#[actix::test]
async fn a_delivery_that_is_poisoned_is_told_once_and_keeps_no_worker_from_its_lease() {
    let stage = stage();
    let board = stage.board("lab");
    let (pool, slots) = at_work(&stage, &board).await;
    let sql = store(&stage);
    let nothing = Json::object::<&str>([]);
    for (column, kind) in columns(&sql, "deliveries") {
        let mut poisoned = Vec::new();
        for (number, (name, value)) in VALUES.into_iter().enumerate() {
            let (worker, job) = &slots[number];
            let delivery = format!("{column}-{number}");
            let first = worker.say(Kind::Heartbeat, job, &nothing, &delivery).await;
            assert_eq!(first.code(), "ok");
            if put(
                &sql,
                "deliveries",
                &column,
                &format!("delivery_id='{delivery}'"),
                value,
            ) {
                poisoned.push((worker, job, delivery, name));
            }
        }
        let before = cells(&sql, "deliveries", &column, "1");
        for (worker, job, delivery, name) in poisoned {
            let again = worker.say(Kind::Heartbeat, job, &nothing, &delivery).await;
            assert_eq!(again.code(), "ok", "{column} {kind} {name}");
            let (why, task) = (format!("row {delivery}/"), job.binding.task_id.as_str());
            let entries = pool.pool.ledger().entries().into_iter();
            let told = entries.filter(|(item, entry)| {
                item.scope.to_string().contains(task) && entry.why.contains(&why)
            });
            assert_eq!(told.count(), usize::from(column == "digest"), "{name}");
            // The next one is like any other, and there is nothing to tell any more.
            assert_eq!(worker.heartbeat(job).await.code(), "ok", "{column} {name}");
        }
        let after = cells(&sql, "deliveries", &column, "1");
        assert!(before.iter().all(|cell| after.contains(cell)), "{column}");
        assert!(pool.pool.ledger().is_empty(), "{column}");
    }
    tokio::time::timeout(PATIENCE, pool.stop()).await.unwrap();
}
