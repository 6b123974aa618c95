//! The adapter's values in the shape of the oracle's answers.

use hermes_pool::board::BoardError;
use hermes_pool::board::hermes::{Completion, HermesBoard, HermesBoards, Observation, Settings};
use hermes_pool::domain::{BoardSlug, ClaimLock, Fate, Lane};
use hermes_pool::protocol::{BlockKind, Json, parse_json};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::player::Player;

/// Settings under which the adapter and the oracle tell the same time.
pub(crate) fn settings() -> Settings {
    Settings {
        time_zone: TimeZone::UTC,
        ..Settings::default()
    }
}

/// Lets the adapter perform a step.
pub(crate) fn answer(player: &mut Player, op: &str, request: &Value) -> Value {
    let outcome = match op {
        "board_list" => board_list(player, request),
        "evidence" => evidence(player, request),
        _ => on_board(player, op, request),
    };
    match outcome {
        Ok(result) => json!({"op": op, "ok": true, "result": result}),
        Err(error) => json!({"op": op, "ok": false, "error": error.to_string()}),
    }
}

fn boards(player: &Player) -> HermesBoards {
    HermesBoards::new(player.oracle.home().to_owned(), settings())
}

fn slug(request: &Value) -> String {
    text(request, "board").unwrap_or("default").to_owned()
}

fn text<'a>(request: &'a Value, key: &str) -> Option<&'a str> {
    request.get(key).and_then(Value::as_str)
}

fn integer(request: &Value, key: &str) -> Option<i64> {
    request.get(key).and_then(Value::as_i64)
}

/// Performs a step on an opened board. Hermes makes a board that is not there at the first contact, and the adapter never
/// does; so that both plays show the same boards, Hermes is asked to make it.
fn on_board(player: &mut Player, op: &str, request: &Value) -> Result<Value, BoardError> {
    let board = slug(request);
    for _ in 0..2 {
        if open(player, &board)? {
            let now = player.now();
            let outcome = perform(player, &board, op, request, now);
            if !matches!(outcome, Err(BoardError::Gone(_) | BoardError::Replaced)) {
                return outcome;
            }
            player.boards.remove(&board);
        }
        player
            .oracle
            .ask(&json!({"op": "task_list", "board": board}));
    }
    Err(BoardError::Gone(board))
}

/// Opens a board, if it is there.
fn open(player: &mut Player, board: &str) -> Result<bool, BoardError> {
    if !player.boards.contains_key(board) {
        let slug =
            BoardSlug::parse(board).map_err(|error| BoardError::Refused(error.to_string()))?;
        match boards(player).open(&slug) {
            Ok(opened) => player.boards.insert(board.to_owned(), opened),
            Err(BoardError::Gone(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
    }
    Ok(true)
}

fn perform(
    player: &mut Player,
    slug: &str,
    op: &str,
    request: &Value,
    now: i64,
) -> Result<Value, BoardError> {
    let Player {
        boards,
        claimer,
        default_ttl_seconds,
        ..
    } = player;
    let Some(board) = boards.get_mut(slug) else {
        return Err(BoardError::Gone(slug.to_owned()));
    };
    let id = text(request, "id").unwrap_or_default();
    let run = integer(request, "run");
    let ttl = integer(request, "ttl").unwrap_or(*default_ttl_seconds);
    let claimer = text(request, "claimer").unwrap_or(claimer);
    match op {
        "ready" => ready(board, request, now),
        "claim" => {
            let claim = board.claim_task(id, claimer, ttl, now)?;
            Ok(claim.map_or(Value::Null, |claim| {
                json!({"id": id, "run": claim.run, "lock": claimer, "expires": claim.expires_at,
                       "status": "running", "assignee": claim.assignee})
            }))
        }
        "heartbeat" => board.extend_claim(id, claimer, ttl, now).map(Value::from),
        "heartbeat_worker" => board
            .record_heartbeat(id, run, text(request, "note"), now)
            .map(Value::from),
        "complete" => complete(board, request, now),
        "block" => {
            let kind = text(request, "kind")
                .map(str::parse::<BlockKind>)
                .transpose();
            let kind = kind.map_err(|error| BoardError::Refused(error.to_string()))?;
            let landing = board.block_task(id, run, kind, text(request, "reason"), now)?;
            Ok(json!(landing.is_some()))
        }
        "reclaim" => {
            let held = board.observe(id, 0, None)?.task;
            let held = held.as_ref().and_then(|task| task.lock.value());
            held.map_or(Ok(false), |lock| {
                board.release_task(id, lock, text(request, "reason"), now)
            })
            .map(Value::from)
        }
        "comment" => {
            let (author, body) = (text(request, "author"), text(request, "body"));
            board
                .comment(
                    id,
                    author.unwrap_or_default(),
                    body.unwrap_or_default(),
                    now,
                )
                .map(Value::from)
        }
        "context" => board.brief_of(id, now).map(|brief| json!(brief.context)),
        other => Err(BoardError::Refused(format!("the adapter has no {other}"))),
    }
}

fn ready(board: &mut HermesBoard, request: &Value, now: i64) -> Result<Value, BoardError> {
    let lanes: Option<Vec<Lane>> =
        request
            .get("assignees")
            .and_then(Value::as_array)
            .map(|names| {
                let names = names.iter().filter_map(Value::as_str);
                names
                    .filter_map(|name| Lane::parse(&name.trim().to_lowercase()).ok())
                    .collect()
            });
    let waiting = board.waiting(lanes.as_deref(), now)?;
    Ok(waiting
        .into_iter()
        .filter(|task| task.lock.is_none())
        .map(|task| {
            json!({"id": task.id, "assignee": task.assignee, "priority": task.priority,
                   "created_at": task.created_at,
                   "guard": task.guard.map(|guard| guard.rule.as_str())})
        })
        .collect())
}

fn complete(board: &mut HermesBoard, request: &Value, now: i64) -> Result<Value, BoardError> {
    let metadata = request
        .get("metadata")
        .filter(|metadata| metadata.is_object());
    let metadata = metadata.map(|metadata| {
        let parsed = parse_json(metadata.to_string().as_bytes());
        parsed.expect("what serde writes is JSON")
    });
    let completion = Completion {
        summary: text(request, "summary"),
        result: text(request, "result"),
        metadata: metadata.as_ref().and_then(Json::as_object),
    };
    let cards = request.get("created_cards").and_then(Value::as_array);
    let cards: Vec<String> = cards
        .into_iter()
        .flatten()
        .filter_map(|card| card.as_str().map(str::to_owned))
        .collect();
    let id = text(request, "id").unwrap_or_default();
    board
        .complete_task(id, integer(request, "run"), &completion, &cards, now)
        .map(Value::from)
}

/// What became of a run. It never makes a board, also not in the oracle.
fn evidence(player: &mut Player, request: &Value) -> Result<Value, BoardError> {
    let board = slug(request);
    let (id, run) = (
        text(request, "id").unwrap_or_default(),
        integer(request, "run").unwrap_or(0),
    );
    let lock = text(request, "lock").map(ClaimLock::recorded);
    let now = player.now();
    for _ in 0..2 {
        if !open(player, &board)? {
            break;
        }
        let Some(file) = player.boards.get_mut(&board) else {
            break;
        };
        match file.observe(id, run, None) {
            Ok(seen) => {
                let fate = seen.fate(id, run, lock.as_ref(), None, now)?;
                return Ok(fate_answer(&seen, &fate));
            }
            Err(BoardError::Gone(_) | BoardError::Replaced) => player.boards.remove(&board),
            Err(error) => return Err(error),
        };
    }
    Ok(json!({"fate": "board_gone"}))
}

fn fate_answer(seen: &Observation, fate: &Fate) -> Value {
    let task_status = seen.task.as_ref().and_then(|task| task.status.value());
    match fate {
        Fate::Current { expired, .. } => json!({"fate": "current", "expired": expired}),
        Fate::Ended(run) => json!({
            "fate": "ended", "outcome": run.outcome.as_str(),
            "status": seen.run.as_ref().and_then(|run| run.status.as_deref()),
            "task_status": run.task_status, "summary": run.summary, "error": run.error,
        }),
        Fate::Superseded { .. } => json!({
            "fate": "superseded", "status": task_status,
            "current_run_id": seen.task.as_ref().and_then(|task| task.current_run.value()),
        }),
        Fate::TaskGone => json!({"fate": "task_gone"}),
        Fate::RunGone => json!({"fate": "run_gone", "status": task_status}),
        // A script records no anchor, without which the adapter does not call a task deleted.
        Fate::BoardReplaced { .. } if seen.was_issued && seen.run.is_none() => {
            json!({"fate": "task_gone"})
        }
        Fate::BoardReplaced { why } => json!({"fate": "board_replaced", "why": why}),
    }
}

fn board_list(player: &mut Player, request: &Value) -> Result<Value, BoardError> {
    let with_archived = request.get("include_archived") == Some(&json!(true));
    let listed = boards(player).list()?;
    Ok(listed
        .into_iter()
        .filter(|board| with_archived || !board.found.archived)
        .map(|board| {
            let mut answer = Value::Object(board.metadata);
            answer["db_path"] = json!(board.database);
            answer
        })
        .collect())
}
