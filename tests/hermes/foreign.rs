//! What is made here without Hermes, Hermes takes for its own.

use hermes_pool::board::hermes::{BoardDetails, HermesBoards, NewTask};
use hermes_pool::domain::BoardSlug;
use serde_json::json;

use super::answers;
use super::differences::differences;
use super::oracle::Oracle;
use super::stage::NOW;

#[test]
fn a_board_made_here_is_the_board_that_hermes_would_have_made() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let boards = HermesBoards::new(ours.path().to_owned(), answers::settings());
    let details = BoardDetails {
        name: Some("Lab ✓".to_owned()),
        description: Some("for tests".to_owned()),
        default_workdir: None,
    };
    for slug in ["lab", "default"] {
        boards
            .create(&BoardSlug::parse(slug).unwrap(), &details, NOW)
            .unwrap();
    }
    let mut board = boards.open(&BoardSlug::parse("lab").unwrap()).unwrap();
    let parent = NewTask {
        title: " parent ".to_owned(),
        body: Some("body".to_owned()),
        assignee: Some("Codex-CLI".to_owned()),
        priority: 3,
        skills: vec!["größe".to_owned()],
        ..NewTask::default()
    };
    let parent = board.create_task(&parent, NOW).unwrap();
    let child = NewTask {
        title: "child".to_owned(),
        parents: vec![parent.clone()],
        ..NewTask::default()
    };
    board.create_task(&child, NOW).unwrap();

    let Some(mut left) = Oracle::start(theirs.path()) else {
        return;
    };
    left.get("clock", json!({"set": NOW}));
    for slug in ["lab", "default"] {
        left.get(
            "board_create",
            json!({"slug": slug, "name": "Lab ✓", "description": "for tests"}),
        );
    }
    let made = left.get(
        "task_create",
        json!({"board": "lab", "title": " parent ", "body": "body", "assignee": "Codex-CLI", "priority": 3,
               "skills": ["größe"]}),
    );
    left.get(
        "task_create",
        json!({"board": "lab", "title": "child", "parents": [made["id"]]}),
    );
    let mut right = Oracle::start(ours.path()).unwrap();
    right.get("clock", json!({"set": NOW}));

    let mut found = Vec::new();
    for (op, arguments) in [
        ("schema", json!({"board": "lab"})),
        ("schema", json!({"board": "default"})),
        ("dump", json!({"board": "lab", "aliases": true})),
    ] {
        let hermes = left.get(op, arguments.clone());
        let adapter = right.get(op, arguments);
        differences(op, &hermes, &adapter, &mut found);
    }
    let listed = |oracle: &mut Oracle| {
        let mut boards = oracle.get("board_list", json!({}));
        for board in boards.as_array_mut().unwrap() {
            board["db_path"].take();
        }
        boards
    };
    differences(
        "board_list",
        &listed(&mut left),
        &listed(&mut right),
        &mut found,
    );
    assert_eq!(found, Vec::<String>::new());
    let claim = right.get("claim", json!({"board": "lab", "id": parent}));
    assert_eq!(claim["status"], "running");
}
