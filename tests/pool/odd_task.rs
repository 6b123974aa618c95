//! One task that cannot be claimed: it stands alone, and the next one is taken in the same turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use hermes_pool::actors::{Pool, PoolEvent};
use hermes_pool::board::hermes::HermesBoards;
use hermes_pool::board::{
    Board, BoardError, BoardHost, Brief, Claimed, Ended, Ending, Found, Listing, PoolClaim,
};
use hermes_pool::domain::{
    Anchor, BoardSlug, ClaimLock, Fate, Lane, PoolId, RunId, RunRef, TaskId,
};

use crate::support::{PATIENCE, Stage};

/// Boards of Hermes on which one task cannot be claimed.
struct OddBoards {
    boards: HermesBoards,
    odd: TaskId,
}

struct OddBoard {
    board: Box<dyn Board>,
    odd: TaskId,
}

impl BoardHost for OddBoards {
    fn list(&self, kept: &BTreeSet<BoardSlug>) -> Result<Vec<Found>, BoardError> {
        BoardHost::list(&self.boards, kept)
    }

    fn open(&self, slug: &BoardSlug) -> Result<Box<dyn Board>, BoardError> {
        Ok(Box::new(OddBoard {
            board: BoardHost::open(&self.boards, slug)?,
            odd: self.odd.clone(),
        }))
    }

    fn root_identity(&self, slug: &BoardSlug) -> Option<(u64, u64)> {
        self.boards.root_identity(slug)
    }

    fn holds_boards(&self, slug: &BoardSlug) -> bool {
        self.boards.holds_boards(slug)
    }
}

type Answer<T> = Result<T, BoardError>;

impl Board for OddBoard {
    fn claim(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
        ttl: i64,
        now: i64,
    ) -> Answer<Option<Claimed>> {
        if *task == self.odd {
            return Err(BoardError::BadRow {
                task: task.to_string(),
                why: "its row is odd".to_owned(),
            });
        }
        self.board.claim(task, lock, ttl, now)
    }

    fn changed(&mut self) -> Answer<bool> {
        self.board.changed()
    }

    fn ready(&mut self, lanes: &[Lane], limit: usize, now: i64) -> Answer<Listing> {
        self.board.ready(lanes, limit, now)
    }

    fn anchor(&mut self) -> Answer<Anchor> {
        self.board.anchor()
    }

    fn pool_claims(&mut self, pool: &PoolId) -> Answer<Vec<PoolClaim>> {
        self.board.pool_claims(pool)
    }

    fn claimed_run(&mut self, task: &TaskId, lock: &ClaimLock) -> Answer<Option<RunId>> {
        self.board.claimed_run(task, lock)
    }

    fn lock_of(&mut self, run: &RunRef) -> Answer<Option<ClaimLock>> {
        self.board.lock_of(run)
    }

    fn brief(&mut self, task: &TaskId, now: i64) -> Answer<Brief> {
        self.board.brief(task, now)
    }

    fn extend(&mut self, task: &TaskId, lock: &ClaimLock, ttl: i64, now: i64) -> Answer<bool> {
        self.board.extend(task, lock, ttl, now)
    }

    fn heartbeat(&mut self, run: &RunRef, note: Option<&str>, now: i64) -> Answer<bool> {
        self.board.heartbeat(run, note, now)
    }

    fn end(
        &mut self,
        run: &RunRef,
        lock: &ClaimLock,
        ending: &Ending,
        now: i64,
    ) -> Answer<Option<Ended>> {
        self.board.end(run, lock, ending, now)
    }

    fn finish_completion(&mut self, task: &TaskId, now: i64) -> Answer<()> {
        self.board.finish_completion(task, now)
    }

    fn has_open_parent(&mut self, task: &TaskId) -> Answer<bool> {
        self.board.has_open_parent(task)
    }

    fn fate(
        &mut self,
        run: &RunRef,
        lock: Option<&ClaimLock>,
        anchor: Option<&Anchor>,
        now: i64,
    ) -> Answer<Fate> {
        self.board.fate(run, lock, anchor, now)
    }
}

#[actix::test]
async fn a_task_that_cannot_be_claimed_holds_up_no_other() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let (odd, next) = (stage.task(&board, "first"), stage.task(&board, "second"));
    let host = OddBoards {
        boards: stage.boards.clone(),
        odd: odd.clone(),
    };
    let pool = Pool::start(stage.settings.clone(), stage.clock.clone(), Arc::new(host)).unwrap();
    let mut running = crate::support::Running {
        events: pool.listen(),
        pool,
        stage: &stage,
    };
    tokio::time::timeout(PATIENCE, running.pool.opened())
        .await
        .unwrap();
    running.worker(0).poll().await;
    let added = running
        .hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;
    assert!(
        matches!(&added, PoolEvent::Added(binding) if binding.key.task == next),
        "{added:?}"
    );
    let scopes: Vec<_> = running
        .pool
        .ledger()
        .entries()
        .into_iter()
        .map(|(item, _)| (item.scope.to_string(), item.what))
        .collect();
    assert_eq!(scopes, [(format!("lab/{odd}"), "make the claim")]);
    assert_eq!(stage.status(&board, &odd), "ready");
}
