//! What a long history costs: 1,000,000 ended assignments in the store and 100,000 done tasks on the board, against a pool
//! without any, whose passes are measured in turn with it.
//!
//! Both pools have three running runs and tasks that wait. Goal: at most 1.5 times the time of the empty history. What
//! operators ask for is measured too; it is not part of any pass.

use std::path::Path;
use std::time::Instant;

use actix::System;
use hermes_pool::actors::{LookNow, Pool, RunPass, Wake};
use hermes_pool::domain::BoardSlug;
use hermes_pool::store::operations::{CollectDeliveries, CollectEnded, DELIVERIES_KEPT_SECONDS};

use super::lives::{add_tasks, per_second};
use crate::support::figures::{Session, median, millis_since};
use crate::support::pool::{BOARD, Ground, RETENTION_SECONDS};
use crate::support::table::Line;
use crate::support::{Outcome, scratch};

/// Slots, each with a running run.
const SLOTS: u16 = 3;
/// Tasks that wait.
const WAITING: usize = 100;

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let (empty, full) = (scratch()?, scratch()?);
    let grounds = [
        ground(empty.path(), session, false)?,
        ground(full.path(), session, true)?,
    ];
    let [one, other] = &grounds;
    System::new().block_on(async {
        let pools = [Stage::start(one).await?, Stage::start(other).await?];
        let mut lines = Vec::new();
        for (what, goal, piece) in PIECES {
            let (mut without, mut with) = (Vec::new(), Vec::new());
            // What is no part of a pass takes so long that a few will do.
            let times = goal.map_or(3, |_| session.choose(40, 5));
            for _ in 0..session.rounds {
                let medians = in_turn(&pools, *piece, times).await?;
                without.push(medians[0]);
                with.push(medians[1]);
            }
            let line = Line::new(*what, "ms", with).against("empty history", without);
            lines.push(match goal {
                Some(goal) => line.at_most(*goal),
                None => line,
            });
        }
        for (ground, stage) in grounds.iter().zip(pools) {
            ground.stop(stage.pool).await?;
        }
        let [without, with] = lives_in_turn([one, other], session.rounds).await?;
        lines.push(
            Line::new("a whole life", "ms", with)
                .against("empty history", without)
                .at_most(1.5),
        );
        Ok(lines)
    })
}

/// What a pool lives on, with or without a history.
fn ground(folder: &Path, session: &Session, with_history: bool) -> Outcome<Ground> {
    let ground = Ground::new(folder, SLOTS)?;
    add_tasks(&ground, 0)?;
    if with_history {
        let history = session.history()?;
        history.copy_store(&ground.settings.state_dir)?;
        history.fill_board(ground.boards.root())?;
    }
    Ok(ground)
}

/// What is measured of a pool.
#[derive(Clone, Copy)]
enum Piece {
    Pass,
    Look,
    CollectEnded,
    CollectDeliveries,
    Snapshot,
    Metrics,
}

const PIECES: &[(&str, Option<f64>, Piece)] = &[
    ("Reconciler's pass", Some(1.5), Piece::Pass),
    ("Dispatcher's look", Some(1.5), Piece::Look),
    ("collecting assignments", Some(1.5), Piece::CollectEnded),
    ("collecting deliveries", Some(1.5), Piece::CollectDeliveries),
    ("operators: status", None, Piece::Snapshot),
    ("operators: metrics", None, Piece::Metrics),
];

/// Medians of the milliseconds that a piece takes in each pool. They take turns, so that whatever else the machine does
/// meets both.
async fn in_turn(pools: &[Stage; 2], piece: Piece, times: usize) -> Outcome<[f64; 2]> {
    let mut millis = [Vec::new(), Vec::new()];
    for _ in 0..times {
        for (stage, millis) in pools.iter().zip(&mut millis) {
            let began = Instant::now();
            stage.carry_out(piece).await?;
            millis.push(millis_since(began));
            // A pass wakes the Dispatcher; what it does then must not fall into the other pool's time.
            stage.carry_out(Piece::Look).await?;
        }
    }
    Ok(millis.map(|millis| median(&millis)))
}

/// Milliseconds of a whole life with each history, a figure for each round. They take turns too, each with a pool that is
/// started anew, after a round that counts for nothing: in it all ends that waited for the pieces.
async fn lives_in_turn(grounds: [&Ground; 2], rounds: usize) -> Outcome<[Vec<f64>; 2]> {
    let mut millis = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (ground, millis) in grounds.iter().zip(&mut millis) {
            let count = match round {
                0 => usize::from(SLOTS) + WAITING,
                _ => WAITING,
            };
            if round > 0 {
                add_tasks(ground, count)?;
            }
            let pool = ground.start().await?;
            let rate = per_second(ground, &pool, count).await?;
            ground.stop(pool).await?;
            if round > 0 {
                millis.push(1e3 / rate);
            }
        }
    }
    Ok(millis)
}

/// A running pool whose slots are all taken.
struct Stage {
    pool: Pool,
    board: BoardSlug,
}

impl Stage {
    async fn start(ground: &Ground) -> Outcome<Self> {
        add_tasks(ground, usize::from(SLOTS) + WAITING)?;
        let pool = ground.start().await?;
        for ordinal in 0..SLOTS {
            ground.worker(&pool, ordinal)?.fetch(30).await?;
        }
        Ok(Self {
            pool,
            board: BoardSlug::parse(BOARD)?,
        })
    }

    async fn carry_out(&self, piece: Piece) -> Outcome<()> {
        let board = self
            .pool
            .board(&self.board)
            .ok_or("the board is not served")?;
        match piece {
            Piece::Pass => {
                // As after a change by somebody else: every run is looked at.
                board.reconciler.tell(Wake {
                    board_changed: true,
                })?;
                board.reconciler.ask(RunPass).await?;
            }
            Piece::Look => {
                board.dispatcher.ask(LookNow).await?;
            }
            Piece::CollectEnded => {
                let operation = CollectEnded {
                    retention_seconds: f64::from(RETENTION_SECONDS),
                    limit: 1000,
                };
                self.pool.store().call(operation).await?;
            }
            Piece::CollectDeliveries => {
                let operation = CollectDeliveries {
                    kept_seconds: DELIVERIES_KEPT_SECONDS,
                    limit: 1000,
                };
                self.pool.store().call(operation).await?;
            }
            Piece::Snapshot => {
                self.pool.snapshot().await?;
            }
            Piece::Metrics => {
                self.pool.gauges().await;
            }
        }
        Ok(())
    }
}
