//! Whole lives of runs: claimed on the board, added, offered, completed by the worker, settled on the board, finalized.
//!
//! Against Hermes' own `claim_task` and `complete_task`, called in a loop in one Python process that knows neither workers
//! nor restarts, on a board of its own in the same round. Goal: at least 5 times as many.

use std::path::Path;
use std::time::{Duration, Instant};

use actix::System;
use hermes_pool::actors::{Listener, Pool, PoolEvent};
use hermes_pool::board::hermes::{BoardDetails, NewTask};
use hermes_pool::clock::{Clock, SystemClock};
use hermes_pool::domain::BoardSlug;

use crate::support::figures::Session;
use crate::support::peer::{NO_HERMES, Peer};
use crate::support::pool::{BOARD, Ground, LANE, Local};
use crate::support::table::Line;
use crate::support::{Outcome, scratch};

/// Slots of the pool.
const SLOTS: [u16; 3] = [1, 3, 64];
/// The size of a pool that the goal is for.
const JUDGED: u16 = 3;
/// How long a life may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let (count, count_of_hermes) = session.choose((300, 60), (60, 20));
    let mut lines = Vec::new();
    for slots in SLOTS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..session.rounds.min(3) {
            let folder = scratch()?;
            let ground = Ground::new(folder.path(), slots)?;
            let lives = async {
                add_tasks(&ground, count)?;
                let pool = ground.start().await?;
                let lives = per_second(&ground, &pool, count).await;
                pool.stop();
                lives
            };
            ours.push(System::new().block_on(lives)?);
            theirs.extend(hermes(&folder.path().join("hermes"), count_of_hermes)?);
        }
        let line = Line::new(format!("slots {slots}"), "/s", ours);
        lines.push(match (theirs.is_empty(), slots == JUDGED) {
            (true, _) => line.note(NO_HERMES),
            (false, false) => line.against("Hermes", theirs),
            (false, true) => line.against("Hermes", theirs).at_least(5.0),
        });
    }
    Ok(lines)
}

/// Makes the board with so many ready tasks.
pub(super) fn add_tasks(ground: &Ground, count: usize) -> Outcome<()> {
    let slug = BoardSlug::parse(BOARD)?;
    let now = SystemClock::new().now().whole_seconds();
    if !ground
        .boards
        .serving()?
        .iter()
        .any(|board| board.found.slug == slug)
    {
        ground.boards.create(&slug, &BoardDetails::default(), now)?;
    }
    let mut board = ground.boards.open(&slug)?;
    for number in 0..count {
        let task = NewTask {
            title: format!("task {number}"),
            assignee: Some(LANE.to_owned()),
            ..NewTask::default()
        };
        board.create_task(&task, now)?;
    }
    Ok(())
}

/// Lives a second of a pool in which so many tasks wait, from the end of the first until the end of the last: what is
/// done once for each board comes before.
pub(super) async fn per_second(ground: &Ground, pool: &Pool, count: usize) -> Outcome<f64> {
    let mut events = pool.listen();
    for ordinal in 0..ground.settings.slots {
        actix::spawn(work(ground.worker(pool, ordinal)?));
    }
    until_ended(&mut events, 1).await?;
    let began = Instant::now();
    until_ended(&mut events, count - 1).await?;
    Ok((count - 1) as f64 / began.elapsed().as_secs_f64())
}

/// Completes whatever comes, until the pool is gone.
async fn work(mut worker: Local) {
    loop {
        // Idle answers and those of a pool that ends are nothing to act on; what is wrong shows in what does not end.
        if worker.fetch(30).await.is_err() || worker.complete().await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Waits until so many runs are over.
async fn until_ended(events: &mut Listener, count: usize) -> Outcome<()> {
    for _ in 0..count {
        events
            .wait_for(PATIENCE, |event| matches!(event, PoolEvent::Ended { .. }))
            .await
            .map_err(|_| "a run did not end")?;
    }
    Ok(())
}

/// Lives a second of Hermes alone.
fn hermes(home: &Path, count: usize) -> Outcome<Option<f64>> {
    std::fs::create_dir(home)?;
    let peer = Peer::hermes(home, &["lives", &count.to_string()])?;
    peer.map(|mut peer| Ok(peer.line()?.parse()?)).transpose()
}
