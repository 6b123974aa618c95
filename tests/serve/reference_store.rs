//! A store that the Python coordinator left behind is opened and carried on, row by row.

use hermes_pool::domain::TaskId;
use hermes_pool::protocol::{Digest, Json, canonical_text, parse_json};
use rusqlite::{Connection, params};

use super::process::{Home, LANE, now, until};

/// The tables as the reference makes them.
const REFERENCE_TABLES: &str = include_str!("../support/reference_tables.sql");

/// The store while the other coordinator still has it.
struct Reference<'a> {
    home: &'a Home,
    sql: Connection,
}

impl<'a> Reference<'a> {
    fn new(home: &'a Home) -> Self {
        std::fs::create_dir(home.path("state")).unwrap();
        let sql = Connection::open(home.path("state/assignments.db")).unwrap();
        sql.pragma_update(None, "journal_mode", "WAL").unwrap();
        sql.execute_batch(REFERENCE_TABLES).unwrap();
        Self { home, sql }
    }

    /// Claims a new task, and leaves its run in the store as this row.
    fn row(
        &self,
        title: &str,
        ordinal: u16,
        attempt: i64,
        state: &str,
        result: Option<&str>,
    ) -> TaskId {
        let task = self.home.task(title, &[]);
        let lock = format!("execution-pool:{title}");
        let claim = self
            .home
            .open_board()
            .claim_task(task.as_str(), &lock, 900, now());
        let run = claim.unwrap().unwrap().run;
        let payload = payload(&task, title);
        let result =
            result.map(|text| canonical_text(&parse_json(text.as_bytes()).unwrap()).unwrap());
        let seen = if state == "running" { now() } else { 0 };
        let until = if state == "running" { now() + 60 } else { 0 };
        self.sql
            .execute(
                "INSERT INTO assignments VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?13)",
                params![
                    self.home.board.as_str(),
                    task.as_str(),
                    run.to_string(),
                    ordinal,
                    attempt,
                    Digest::of(payload.as_bytes()).as_str(),
                    payload,
                    state,
                    f64::from(i32::try_from(until).unwrap()),
                    f64::from(i32::try_from(seen).unwrap()),
                    result
                        .as_ref()
                        .map(|text| Digest::of(text.as_bytes()).as_str().to_owned()),
                    result,
                    f64::from(i32::try_from(now()).unwrap()),
                ],
            )
            .unwrap();
        task
    }
}

/// What the worker is offered, as the store holds it.
fn payload(task: &TaskId, title: &str) -> String {
    let text = format!(
        r#"{{"schema":1,"lane":"{LANE}","task":{{"id":"{task}","title":"{title}","body":null,"priority":0,"tenant":null,
        "skills":[],"model_override":null}},"context":"{title}","workspace":{{"kind":"scratch","path":null,"branch":null}},
        "limits":{{"lease_seconds":60,"max_runtime_seconds":null}}}}"#
    );
    let payload: Json = parse_json(text.as_bytes()).unwrap();
    canonical_text(&payload).unwrap()
}

#[test]
fn every_row_is_carried_on_from_where_it_is() {
    let home = Home::new();
    let reference = Reference::new(&home);
    let result = r#"{"outcome":"completed","summary":"by the other one"}"#;
    let assigned = reference.row("assigned", 0, 1, "assigned", None);
    let running = reference.row("running", 1, 2, "running", None);
    let delivered = reference.row("delivered", 2, 1, "result", Some(result));
    let expired = reference.row("expired", 0, 3, "lease_failed", None);
    drop(reference);

    let coordinator = home.serve();
    coordinator.wait_until_ready();
    home.wait_for_status(&delivered, "done");
    home.wait_for_status(&expired, "blocked");
    assert_eq!(
        home.runs(&delivered)[0].summary.as_deref(),
        Some("by the other one")
    );
    let line = "echo \"attempt $HERMES_POOL_ATTEMPT of $(cat)\"";
    let _workers = [0, 1].map(|ordinal| home.worker(ordinal, &coordinator, line));
    for (task, summary) in [
        (&assigned, "attempt 1 of assigned"),
        (&running, "attempt 2 of running"),
    ] {
        home.wait_for_status(task, "done");
        let runs = home.runs(task);
        assert_eq!((runs.len(), runs[0].summary.as_deref()), (1, Some(summary)));
    }
    until("every row is final", || {
        (coordinator.count("finalized") == 4).then_some(())
    });
}
