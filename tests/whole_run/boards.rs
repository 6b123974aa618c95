//! Boards and tasks, made by Hermes itself.

use serde_json::{Value, json};

use super::oracle::Oracle;

/// Makes an empty board.
pub(crate) fn create(oracle: &mut Oracle, slug: &str) {
    oracle.get("board_create", json!({"slug": slug}));
}

/// Adds a task for one of the pool's lanes and returns its id. `more` are further arguments of Hermes' `create_task`.
pub(crate) fn add(oracle: &mut Oracle, slug: &str, title: &str, more: Value) -> String {
    let mut request = json!({"board": slug, "title": title, "assignee": "codex-cli"});
    for (name, value) in more.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    let made = oracle.get("task_create", request);
    made["id"].as_str().expect("a task has an id").to_owned()
}

/// The body by which the test's worker knows how a task's runs end, one after the other.
pub(crate) fn runs_end(results: &[Value]) -> String {
    json!(results).to_string()
}
