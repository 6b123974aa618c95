//! Boards whose `board.json` cannot be read or understood: nobody waits for it, and no board is opened by it.

use hermes_pool::actors::ListBoards;

use super::{COMPLETED, complete, is_end_on, look, patient_stage, serve_one, shell};
use crate::support::{PATIENCE, Running};

/// What stands where the file should be, and what is told of it.
const FILES: [(&str, &str, &str); 8] = [
    ("a FIFO", "mkfifo board.json", "not a regular file"),
    ("a directory", "mkdir board.json", "not a regular file"),
    (
        "a device without an end",
        "ln -s /dev/zero board.json",
        "not a regular file",
    ),
    (
        "two gigabytes",
        "truncate -s 2G board.json",
        "larger than 65536 bytes",
    ),
    (
        "half a file",
        "printf '{\"archived\": tru' > board.json",
        "no JSON",
    ),
    ("nothing in it", ": > board.json", "no JSON"),
    ("a list", "echo '[]' > board.json", "no JSON object"),
    (
        "JSON deeper than any stack",
        "yes [ | head -c 60000 > board.json",
        "no JSON",
    ),
];

async fn list(pool: &Running<'_>) {
    pool.pool.boards().unwrap().ask(ListBoards).await.unwrap();
}

/// State, and reason, of the board that is listed first.
async fn shown(pool: &Running<'_>) -> (&'static str, String) {
    let board = pool.snapshot().await.boards.remove(0);
    (board.state.as_str(), board.reason.unwrap_or_default())
}

#[actix::test]
async fn a_board_json_that_is_no_such_thing_opens_no_board_and_stops_no_other() {
    for (name, line, why) in FILES {
        let stage = patient_stage(1);
        let (board, sound) = (stage.board("a"), stage.board("b"));
        let waiting = stage.task(&board, "waiting");
        let folder = stage.database(&board).parent().unwrap().to_owned();
        shell(&folder, r#"echo '{"archived":true}' > board.json"#);
        let archived = stage.start().await;
        assert_eq!(archived.snapshot().await.boards.len(), 1, "{name}");
        archived.stop().await;

        shell(&folder, &format!("rm board.json; {line}"));
        let mut pool = stage.start().await;
        serve_one(&mut pool, 0, &sound).await;
        list(&pool).await;
        look(&pool, &board).await;
        let (state, reason) = shown(&pool).await;
        assert_eq!(state, "unreadable", "{name}: {reason}");
        assert!(reason.contains(why), "{name}: {reason}");
        let entries = pool.pool.ledger().entries();
        assert_eq!(entries.len(), 1, "{name}: {entries:?}");
        assert_eq!(stage.status(&board, &waiting), "ready", "{name}");

        shell(&folder, "rm -r board.json");
        list(&pool).await;
        complete(&mut pool, &board, 1).await;
        assert!(pool.pool.ledger().is_empty(), "{name}");
        assert_eq!(shown(&pool).await, ("ok", String::new()), "{name}");
    }
}

#[actix::test]
async fn a_board_json_that_is_spoilt_in_mid_run_leaves_an_open_board_open_and_a_closed_one_closed()
{
    for (name, line, why) in FILES {
        let stage = patient_stage(1);
        let board = stage.board("a");
        let mut pool = stage.start().await;
        let folder = stage.database(&board).parent().unwrap().to_owned();
        shell(&folder, &format!("rm board.json; {line}"));
        list(&pool).await;
        serve_one(&mut pool, 0, &board).await;
        let (state, reason) = shown(&pool).await;
        assert_eq!(state, "ok", "{name}: it is served as before");
        assert!(reason.contains(why), "{name}: {reason}");

        // A run is held, so that the board stays known once it is archived.
        stage.task(&board, "kept");
        let mut heard = pool.pool.listen();
        let (worker, job) = {
            look(&pool, &board).await;
            let worker = pool.worker(0);
            let job = super::fetch(&mut pool, 0).await;
            (worker, job)
        };
        let waiting = stage.task(&board, "not any more");
        shell(
            &folder,
            r#"rm -r board.json; echo '{"archived":true}' > board.json"#,
        );
        list(&pool).await;
        assert_eq!(shown(&pool).await.0, "closed", "{name}");
        shell(&folder, &format!("rm board.json; {line}"));
        list(&pool).await;
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok");
        heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
        look(&pool, &board).await;
        assert_eq!(stage.status(&board, &waiting), "ready", "{name}");
        assert_eq!(shown(&pool).await.0, "unreadable", "{name}");
    }
}
