//! Boards whose files are exchanged, restored, archived or linked.

use std::os::unix::fs::symlink;
use std::time::Duration;

use hermes_pool::actors::{ListBoards, PoolEvent};
use hermes_pool::domain::Terminal;

use super::{
    COMPLETED, complete, fetch, is_end_on, look, patient_stage, serve_one, settle_file, shell,
};
use crate::support::{PATIENCE, Running, Stage};

/// Another board's file comes into the place of a board on which a run is held, and goes again.
#[actix::test]
async fn a_board_whose_file_was_exchanged_in_mid_run_gets_its_result_when_it_is_put_back() {
    let stage = Stage::impatient(1);
    let (board, other) = (stage.board("a"), stage.board("b"));
    let task = stage.task(&board, "kept");
    let mut pool = stage.start().await;
    let job = fetch(&mut pool, 0).await;
    let folder = stage.database(&board).parent().unwrap().to_owned();
    let aside = stage.folder.path().join("aside");
    let elsewhere = Stage::impatient(1);
    let stranger = elsewhere.database(&elsewhere.board("a"));
    settle_file(&stranger);
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(stranger, folder.join("kanban.db")).unwrap();
    let answer = pool.worker(0).submit(&job, COMPLETED).await;
    assert_eq!(answer.code(), "ok");
    pool.pass(&board).await;
    pool.pass(&board).await;
    let entries = pool.pool.ledger().entries();
    assert!(!entries.is_empty(), "it is put off");
    // The slot is freed for the other board, whatever becomes of this one.
    stage.task(&other, "t");
    pool.advance(11.0);
    complete(&mut pool, &other, 1).await;

    let mut heard = pool.pool.listen();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    pool.pass(&board).await;
    pool.pass(&board).await;
    heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
    assert_eq!(stage.status(&board, &task), "done");
}

#[actix::test]
async fn a_board_that_was_restored_from_an_older_copy_ends_its_run_as_stale_at_the_second_look() {
    let mut stage = Stage::impatient(1);
    stage.settings.poll = Duration::from_secs(3600);
    let board = stage.board("a");
    let task = stage.task(&board, "t");
    let database = stage.database(&board);
    settle_file(&database);
    let copy = stage.folder.path().join("copy.db");
    std::fs::copy(&database, &copy).unwrap();
    let mut pool = stage.start().await;
    let job = fetch(&mut pool, 0).await;
    pool.pass(&board).await;
    let folder = database.parent().unwrap();
    std::fs::rename(folder, stage.folder.path().join("aside")).unwrap();
    std::fs::create_dir(folder).unwrap();
    std::fs::rename(&copy, &database).unwrap();

    for seconds in [60.0, 59.0] {
        pool.advance(seconds);
        // A visit that finds another file opens it, the next one looks at it.
        for _ in 0..2 {
            pool.pass(&board).await;
        }
        assert_eq!(
            pool.worker(0).heartbeat(&job).await.code(),
            "ok",
            "one look is no evidence"
        );
    }
    pool.advance(2.0);
    pool.pass(&board).await;
    let ended = pool
        .hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    assert!(matches!(
        ended,
        PoolEvent::Ended {
            terminal: Terminal::Stale,
            ..
        }
    ));
    assert_eq!(
        pool.worker(0).heartbeat(&job).await.code(),
        "run_superseded"
    );
    // The older board knows nothing of the run: its task is as it was, and is served again.
    complete(&mut pool, &board, 1).await;
    assert_eq!(stage.status(&board, &task), "done");
}

#[actix::test]
async fn a_linked_board_is_served_and_one_file_under_two_names_is_served_once() {
    for hard in [false, true] {
        let stage = Stage::impatient(1);
        let board = stage.board("a");
        let task = stage.task(&board, "t");
        let database = stage.database(&board);
        settle_file(&database);
        let second = stage.boards.root().join("kanban/boards/z");
        std::fs::create_dir(&second).unwrap();
        if hard {
            std::fs::hard_link(&database, second.join("kanban.db")).unwrap();
        } else {
            symlink(&database, second.join("kanban.db")).unwrap();
        }
        let mut pool = stage.start().await;
        complete(&mut pool, &board, 1).await;
        assert_eq!(stage.status(&board, &task), "done");
        let snapshot = pool.snapshot().await;
        let served: Vec<_> = snapshot.boards.iter().map(|board| &board.slug).collect();
        assert_eq!(served, ["a"], "hard link: {hard}");
    }
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    let task = stage.task(&board, "t");
    let database = stage.database(&board);
    settle_file(&database);
    let elsewhere = stage.folder.path().join("elsewhere.db");
    std::fs::rename(&database, &elsewhere).unwrap();
    symlink(&elsewhere, &database).unwrap();
    let mut pool = stage.start().await;
    complete(&mut pool, &board, 1).await;
    assert_eq!(stage.status(&board, &task), "done");
}

/// A link comes beside a board in use, under a name that is listed first.
#[actix::test]
async fn a_second_name_of_a_board_in_use_takes_nothing_over() {
    for hard in [false, true] {
        let stage = Stage::impatient(1);
        let board = stage.board("m");
        let task = stage.task(&board, "t");
        let pool = stage.start().await;
        let job = {
            let mut pool = pool;
            let (_, job) = pool.first_job(0).await;
            let line = if hard {
                "mkdir a; ln m/kanban.db a/kanban.db"
            } else {
                "ln -s m a"
            };
            shell(&stage.boards.root().join("kanban/boards"), line);
            pool.pool.boards().unwrap().ask(ListBoards).await.unwrap();
            assert_eq!(names(&pool).await, ["m"], "hard link: {hard}");
            pool.stop().await;
            job
        };
        // Whoever follows finds a run under this name.
        let mut pool = stage.start().await;
        assert_eq!(names(&pool).await, ["m"], "hard link: {hard}");
        let mut heard = pool.pool.listen();
        let worker = pool.worker(0);
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok");
        heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
        assert_eq!(stage.status(&board, &task), "done");
        serve_one(&mut pool, 0, &board).await;
        assert_eq!(names(&pool).await, ["m"], "hard link: {hard}");
        let entries = pool.pool.ledger().entries();
        assert!(entries.is_empty(), "{entries:?}");
    }
}

async fn names(pool: &Running<'_>) -> Vec<String> {
    let boards = pool.snapshot().await.boards.into_iter();
    boards.map(|board| board.slug).collect()
}

#[actix::test]
async fn a_directory_that_is_no_board_is_nobodys_business() {
    let stage = Stage::impatient(1);
    let board = stage.board("m");
    let boards = stage.boards.root().join("kanban/boards");
    shell(&boards, "mkdir a; echo notes > a/notes.txt; echo {} > b");
    let mut pool = stage.start().await;
    assert_eq!(names(&pool).await, ["m"]);
    // One that Hermes has only begun with is listed by it, and cannot be served yet.
    shell(
        &boards,
        "mkdir c Upper; echo {} > c/board.json; cp m/kanban.db Upper",
    );
    pool.pool.boards().unwrap().ask(ListBoards).await.unwrap();
    assert_eq!(names(&pool).await, ["m"]);
    serve_one(&mut pool, 0, &board).await;
    assert!(pool.pool.ledger().is_empty());
}

#[actix::test]
async fn a_board_that_is_archived_under_a_run_is_seen_through_and_closed() {
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    let task = stage.task(&board, "kept");
    let mut pool = stage.start().await;
    let (worker, job) = pool.first_job(0).await;
    let waiting = stage.task(&board, "not any more");
    let folder = stage.database(&board).parent().unwrap().to_owned();
    shell(&folder, r#"echo '{"archived":true}' > board.json"#);
    pool.pool.boards().unwrap().ask(ListBoards).await.unwrap();
    let state = pool.snapshot().await.boards[0].state;
    assert_eq!(state.as_str(), "closed");
    assert_eq!(worker.heartbeat(&job).await.code(), "ok");
    let mut heard = pool.pool.listen();
    assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok");
    heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
    assert_eq!(stage.status(&board, &task), "done");
    assert!(worker.poll().await.is_none());
    look(&pool, &board).await;
    assert_eq!(stage.status(&board, &waiting), "ready");
    shell(&folder, "rm board.json");
    pool.pool.boards().unwrap().ask(ListBoards).await.unwrap();
    complete(&mut pool, &board, 1).await;
    assert_eq!(stage.status(&board, &waiting), "done");
}

#[actix::test]
async fn a_board_that_is_gone_at_the_start_is_looked_for_while_a_run_is_held_on_it() {
    let stage = patient_stage(1);
    let board = stage.board("a");
    let task = stage.task(&board, "kept");
    let mut pool = stage.start().await;
    let (_, job) = pool.first_job(0).await;
    pool.stop().await;
    let boards = stage.boards.root().join("kanban/boards");
    shell(&boards, "mv a ../aside");

    let pool = stage.start().await;
    let view = pool.snapshot().await.boards.remove(0);
    assert_eq!((view.slug.as_str(), view.state.as_str()), ("a", "gone"));
    let worker = pool.worker(0);
    assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok");
    let mut heard = pool.pool.listen();
    shell(&boards, "mv ../aside a");
    look(&pool, &board).await;
    heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
    assert_eq!(stage.status(&board, &task), "done");
    assert_eq!(stage.runs(&board, &task).len(), 1);
}

/// What is mounted over, or not mounted, says nothing about any board.
#[actix::test]
async fn a_folder_of_boards_that_is_missing_or_another_one_ends_no_run() {
    let stage = patient_stage(1);
    let board = stage.board("a");
    let task = stage.task(&board, "kept");
    let mut pool = stage.start().await;
    let (worker, job) = pool.first_job(0).await;
    let place = stage.folder.path();
    for (line, looks) in [
        // The first look is under the right folder, the next ones a minute later are not.
        ("mv hermes/kanban/boards/a .", 1),
        ("mv hermes mounted; mkdir -p hermes/kanban/boards", 2),
        ("rm -r hermes", 3),
        ("mkdir hermes", 3),
    ] {
        shell(place, line);
        for _ in 0..looks {
            look(&pool, &board).await;
            assert_eq!(worker.heartbeat(&job).await.code(), "ok", "{line}");
            pool.advance(25.0);
        }
        let entries = pool.pool.ledger().entries();
        let mut items = entries.iter().map(|(item, _)| item.what);
        assert!(
            items.any(|what| what == "find its board"),
            "{line}: {entries:?}"
        );
    }
    assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok");
    let mut heard = pool.pool.listen();
    shell(
        place,
        "rm -r hermes; mv mounted hermes; mv a hermes/kanban/boards",
    );
    pool.pool.boards().unwrap().ask(ListBoards).await.unwrap();
    look(&pool, &board).await;
    heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
    assert_eq!(stage.status(&board, &task), "done");
    serve_one(&mut pool, 0, &board).await;
}
