//! Boards that are broken when the pool starts.

use std::path::Path;

use rusqlite::Connection;

use super::{complete, lock_out, settle_file};
use crate::support::Stage;

/// What is done to a board's file before the pool starts; the value is kept until it is mended.
type Break = fn(&Path) -> Option<Connection>;

/// How a board is broken, and the state and reason that operators see.
const AT_START: [(&str, Break, &str, &str); 6] = [
    (
        "locked by somebody for longer than anybody waits",
        |database| Some(lock_out(database)),
        "unreadable",
        "locked",
    ),
    (
        "a text file",
        |database| {
            std::fs::write(database, "this is no database, whatever its name says").unwrap();
            None
        },
        "unreadable",
        "not a database",
    ),
    (
        "malformed pages",
        |database| {
            let mut bytes = std::fs::read(database).unwrap();
            bytes[4096..].fill(0xa5);
            std::fs::write(database, bytes).unwrap();
            None
        },
        "unreadable",
        "malformed",
    ),
    (
        "a directory in its place",
        |database| {
            std::fs::remove_file(database).unwrap();
            std::fs::create_dir(database).unwrap();
            None
        },
        "unreadable",
        "unable to open",
    ),
    (
        "a schema that may not be written to",
        |database| {
            let sql = Connection::open(database).unwrap();
            sql.execute_batch("ALTER TABLE tasks RENAME COLUMN claim_lock TO held_by")
                .unwrap();
            drop(sql);
            settle_file(database);
            None
        },
        "read_only",
        "claim_lock",
    ),
    (
        // Hermes makes its tables at its first look; until then there is nothing to claim.
        "zero bytes",
        |database| {
            std::fs::write(database, "").unwrap();
            None
        },
        "ok",
        "",
    ),
];

#[actix::test]
async fn a_board_that_is_broken_at_the_start_is_told_stops_no_other_and_is_served_once_mended() {
    for (name, damage, state, reason) in AT_START {
        let stage = Stage::impatient(1);
        let (broken, sound) = (stage.board("a"), stage.board("b"));
        let kept = stage.task(&broken, "kept");
        let database = stage.database(&broken);
        settle_file(&database);
        let copy = stage.folder.path().join("copy.db");
        std::fs::copy(&database, &copy).unwrap();
        let held = damage(&database);
        stage.task(&sound, "t");

        let mut pool = stage.start().await;
        complete(&mut pool, &sound, 1).await;
        let snapshot = pool.snapshot().await;
        let board = &snapshot.boards[0];
        assert_eq!(board.state.as_str(), state, "{name}: {board:?}");
        let told = board.reason.clone().unwrap_or_default();
        assert!(told.contains(reason), "{name}: {told}");
        let entries = pool.pool.ledger().entries();
        let put_off = entries
            .iter()
            .any(|(item, _)| item.scope.board() == Some(&broken));
        assert_eq!(put_off, state != "ok", "{name}: {entries:?}");
        assert!(snapshot.pool.ready, "{name}: a sick board is no reason");

        // Somebody puts the board back as it was.
        match held {
            Some(lock) => lock.execute_batch("ROLLBACK").unwrap(),
            None => {
                let _ = std::fs::remove_dir(&database);
                std::fs::rename(&copy, &database).unwrap();
            }
        }
        complete(&mut pool, &broken, 1).await;
        assert_eq!(stage.status(&broken, &kept), "done", "{name}");
        assert_eq!(
            pool.snapshot().await.boards[0].state.as_str(),
            "ok",
            "{name}"
        );
    }
}
