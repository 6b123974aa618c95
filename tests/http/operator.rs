//! The operators' endpoints: documents, paging, metrics, and who may do what.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use hermes_pool::actors::{PoolSnapshot, SlotState};

use crate::served::Served;
use crate::support::{START, Stage};
use crate::wire::Answer;

/// A pool of three slots; the last one has a run.
fn served() -> Served {
    let stage = Stage::new(3);
    let board = stage.board("lab");
    let mut served = Served::start(stage);
    served.running(&board, "A task with <b>markup</b>", 2);
    served
}

#[track_caller]
fn assert_error(answer: &Answer, status: u16, code: &str) {
    let told = answer.error();
    assert_eq!((told.0, told.1.as_str()), (status, code), "{answer:?}");
}

#[test]
fn health_readiness_and_the_page_are_there() {
    let served = served();
    let health = served.operate("GET", "/healthz", "");
    assert_eq!((health.status, health.text()), (200, r#"{"status":"ok"}"#));
    let ready = served.operate("GET", "/readyz", "");
    assert_eq!(
        (ready.status, ready.text()),
        (200, r#"{"ready":true,"reasons":[]}"#)
    );
    let page = served.operate("GET", "/", "");
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(page.text().starts_with("<!doctype html>"));
    // It is told apart by what it reads, not by what is put into it.
    assert!(!page.text().contains("A task with"));
}

#[test]
fn one_look_shows_the_whole_pool() {
    let served = served();
    let answer = served.operate("GET", "/api/v1/pool", "");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let snapshot: PoolSnapshot = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        serde_json::to_value(&snapshot).unwrap(),
        answer.json(),
        "the document has the fields of the view and no others"
    );
    let pool = &snapshot.pool;
    assert_eq!((pool.id.as_str(), pool.slots), ("test", 3));
    assert_eq!((pool.ready, pool.draining), (true, false));
    assert_eq!((pool.started_at, pool.now), (START.0, START.0));
    let states: Vec<SlotState> = snapshot.slots.iter().map(|slot| slot.state).collect();
    assert_eq!(
        states,
        [SlotState::Absent, SlotState::Absent, SlotState::Running]
    );
    let slot = &snapshot.slots[2];
    assert_eq!((slot.ordinal, slot.attempt), (2, Some(1)));
    assert_eq!(slot.board.as_deref(), Some("lab"));
    assert_eq!(slot.lease_until, Some(START.0 + 90.0));
    assert_eq!(snapshot.boards[0].slug, "lab");
    assert_eq!(snapshot.counts.running, 1);
    assert!(snapshot.deferrals.is_empty());
}

#[test]
fn assignments_come_page_by_page_each_once() {
    let stage = Stage::new(5);
    let board = stage.board("lab");
    let mut served = Served::start(stage);
    let mut expected = BTreeSet::new();
    for ordinal in 0..5 {
        let (task, job) = served.running(&board, "t", ordinal);
        let run = job.envelope["run_id"].as_str().unwrap().to_owned();
        expected.insert(format!("lab/{task}/{run}"));
    }
    let (mut found, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let target = format!("/api/v1/assignments?limit=2{after}");
        let page = served.operate("GET", &target, "");
        assert_eq!(page.status, 200, "{target}");
        let document = page.json();
        for row in document["assignments"].as_array().unwrap() {
            let name = |field: &str| row[field].as_str().unwrap().to_owned();
            found.push(format!(
                "{}/{}/{}",
                name("board"),
                name("task"),
                name("run")
            ));
            assert_eq!(
                (name("state").as_str(), &row["attempt"]),
                ("running", &1.into())
            );
        }
        pages += 1;
        match document["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace('/', "%2F")),
            None => break,
        }
    }
    assert_eq!((pages, found.len()), (3, 5));
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "in order");

    let all = served
        .operate("GET", "/api/v1/assignments?limit=4000000000", "")
        .json();
    assert_eq!(all["assignments"].as_array().unwrap().len(), 5);
    let none = served
        .operate("GET", "/api/v1/assignments?after=zzz/t_0/1", "")
        .json();
    assert_eq!(
        none.to_string(),
        r#"{"assignments":[],"illegal":[],"next":null}"#
    );
    for query in [
        "limit=x",
        "limit=-1",
        "limit=4294967296",
        "limit=1&limit=2",
        "after=lab",
        "after=lab/t",
        "after=../x/1",
        "after=%ff",
        "after=lab/t/1%00",
    ] {
        let answer = served.operate("GET", &format!("/api/v1/assignments?{query}"), "");
        assert_error(&answer, 400, "invalid_query");
    }
}

/// Every row and every complaint of the assignments, page by page.
fn pages(served: &Served, limit: usize) -> (Vec<String>, Vec<String>) {
    let (mut runs, mut illegal, mut after) = (Vec::new(), Vec::new(), String::new());
    loop {
        let target = format!("/api/v1/assignments?limit={limit}{after}");
        let page = served.operate("GET", &target, "");
        assert_eq!(page.status, 200, "{target}");
        let document = page.json();
        let (rows, complaints) = (&document["assignments"], &document["illegal"]);
        let (rows, complaints) = (rows.as_array().unwrap(), complaints.as_array().unwrap());
        assert!(rows.len() + complaints.len() <= limit);
        runs.extend(
            rows.iter()
                .map(|row| row["run"].as_str().unwrap().to_owned()),
        );
        illegal.extend(
            complaints
                .iter()
                .map(|row| row.as_str().unwrap().to_owned()),
        );
        match document["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace('/', "%2F")),
            None => return (runs, illegal),
        }
    }
}

#[test]
fn pages_full_of_rows_that_cannot_be_read_are_gone_through_like_any_other() {
    let stage = Stage::new(3);
    let board = stage.board("lab");
    let mut served = Served::start(stage);
    let (_, job) = served.running(&board, "t", 0);
    let store = served.stage.settings.state_dir.join("assignments.db");
    let sql = rusqlite::Connection::open(store).unwrap();
    // Names of every kind, on both sides of the good one; three of each, and one whose state is none.
    for name in [
        "'A B'",
        "x'ff'",
        "x'00'",
        "''",
        "CAST(x'80ff' AS TEXT)",
        "'t_0'",
    ] {
        for run in ["1", "2", "3"] {
            let row = format!(
                "INSERT INTO assignments VALUES('lab',{name},'{run}',1,1,'d','{{}}','none',0,0,NULL,NULL,0,0)"
            );
            sql.execute(&row, []).unwrap();
        }
    }
    for limit in [1, 2, 3, 100] {
        let (runs, illegal) = pages(&served, limit);
        assert_eq!(runs, [job.envelope["run_id"].as_str().unwrap()], "{limit}");
        assert_eq!(illegal.len(), 18, "{limit}: {illegal:#?}");
        let once: BTreeSet<_> = illegal.iter().collect();
        assert_eq!(
            once.len(),
            18,
            "{limit}: each by its own name: {illegal:#?}"
        );
    }
    for query in ["after=row:", "after=row:x", "after=row:1x"] {
        let answer = served.operate("GET", &format!("/api/v1/assignments?{query}"), "");
        assert_error(&answer, 400, "invalid_query");
    }
}

/// A sample's name, its labels, and its value.
fn sample(line: &str) -> (&str, Vec<(&str, &str)>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
    };
    let labels = labels.split(',').filter(|label| !label.is_empty());
    let labels = labels
        .map(|label| {
            let (key, value) = label.split_once('=').unwrap();
            (
                key,
                value.strip_prefix('"').unwrap().strip_suffix('"').unwrap(),
            )
        })
        .collect();
    (name, labels, value.parse().unwrap())
}

#[test]
fn metrics_are_open_metrics_with_bounded_labels() {
    let served = served();
    served.worker(0).poll();
    let answer = served.operate("GET", "/metrics", "");
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = answer.text();
    let body = text.strip_suffix("# EOF\n").expect("a text that is whole");
    let mut families = Vec::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) = (words.next(), words.next().unwrap(), words.next().unwrap());
            assert!(matches!(what, Some("HELP" | "TYPE" | "UNIT")), "{line}");
            if what == Some("TYPE") {
                assert!(!families.contains(&(name, rest)), "{name} comes once");
                families.push((name, rest));
            }
            continue;
        }
        let (name, labels, value) = sample(line);
        let (family, kind) = families.last().copied().unwrap();
        let expected = match kind {
            "counter" => format!("{family}_total"),
            _ => family.to_owned(),
        };
        assert_eq!(name, expected, "{line}");
        assert!(name.starts_with("hermes_pool_") && value >= 0.0, "{line}");
        for (key, value) in labels {
            assert!(
                ["state", "cause", "kind", "outcome", "actor"].contains(&key),
                "{line}"
            );
            assert!(
                value
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
                "{line}"
            );
        }
    }
    for line in [
        "hermes_pool_ready 1",
        "hermes_pool_offers_total 1",
        "hermes_pool_assignments_added_total 1",
        "hermes_pool_results_total 0",
        "hermes_pool_deferrals 0",
        "hermes_pool_assignments{state=\"running\"} 1",
        "hermes_pool_assignments{state=\"stale\"} 0",
        "hermes_pool_slots{state=\"running\"} 1",
        "hermes_pool_slots{state=\"idle\"} 1",
        "hermes_pool_slots{state=\"absent\"} 1",
        "hermes_pool_boards{state=\"ok\"} 1",
        "hermes_pool_messages_total{kind=\"poll\",outcome=\"assignment\"} 1",
        "hermes_pool_messages_total{kind=\"poll\",outcome=\"idle\"} 2",
    ] {
        assert!(
            body.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
}

#[test]
fn whatever_could_change_something_needs_the_token_on_loopback_too() {
    let served = served();
    let token = served.bearer();
    let paths = [
        "/",
        "/readyz",
        "/metrics",
        "/api/v1/pool",
        "/api/v1/assignments",
    ];
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
        for path in paths {
            let refused = served.operate(method, path, "");
            assert_error(&refused, 401, "token_required");
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
            let allowed = served.operate(method, path, &token);
            assert_error(&allowed, 405, "method_not_allowed");
            assert_eq!(allowed.header("allow"), Some("GET"));
        }
        let health = served.operate(method, "/healthz", "");
        assert_error(&health, 405, "method_not_allowed");
        assert_eq!(health.header("allow"), Some("GET"));
    }
    let secret = token.trim().rsplit(' ').next().unwrap().to_owned();
    for wrong in [
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Basic {secret}"),
        format!("Bearer {}", &secret[1..]),
        format!("Bearer {secret}0"),
        format!("Bearer {}", secret.to_uppercase()),
        secret.clone(),
        format!("Bearer {}", served.master),
    ] {
        let headers = format!("Authorization: {wrong}\r\n");
        assert_error(
            &served.operate("POST", "/metrics", &headers),
            401,
            "token_required",
        );
    }
    let file = served.stage.folder.path().join("operator.token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(secret.len(), 64);
}

#[test]
fn beyond_loopback_only_health_is_told_without_the_token() {
    let served = Served::start_as_if_on(Stage::new(1), "10.0.0.1".parse().unwrap());
    let token = served.bearer();
    assert_eq!(served.operate("GET", "/healthz", "").status, 200);
    for path in [
        "/",
        "/readyz",
        "/metrics",
        "/api/v1/pool",
        "/api/v1/assignments",
    ] {
        let refused = served.operate("GET", path, "");
        assert_error(&refused, 401, "token_required");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        assert_eq!(served.operate("GET", path, &token).status, 200, "{path}");
    }
    let nowhere = served.operate("GET", "/nowhere", "");
    assert_error(&nowhere, 401, "token_required");
}

#[test]
fn other_paths_are_not_found() {
    let served = served();
    let token = served.bearer();
    for path in [
        "/nowhere",
        "/healthz/",
        "/readyz/x",
        "/api",
        "/api/v1",
        "/api/v1/pool/",
        "/api/v2/pool",
        "/API/v1/pool",
        "//metrics",
        "/%2e%2e/etc/passwd",
        "/operator.token",
    ] {
        assert_error(&served.operate("GET", path, ""), 404, "not_found");
        assert_error(&served.operate("POST", path, &token), 404, "not_found");
    }
    for path in ["/v2/poll", "/v2/heartbeat", "/v2/result"] {
        assert_error(&served.operate("POST", path, &token), 404, "not_found");
    }
    assert_eq!(served.operate("GET", "/api/v1/pool?x=%ff", "").status, 200);
    assert_eq!(served.operate("GET", "/healthz?x", "").status, 200);
}
