//! Panics: how soon what broke is tried again, and what the one who asked for it is told. `places` breaks every place.

use std::time::{Duration, Instant};

use hermes_pool::actors::{Look, PoolEvent};
use hermes_pool::clock::Clock;
use hermes_pool::domain::{BoardSlug, CLAIM_TTL_SECONDS, Terminal};
use hermes_pool::faults::{Fault, Work};

use crate::support::{Job, PATIENCE, Running, Stage, Worker};

/// Restarts after which the pauses have grown to about half a minute.
const RESTARTS: usize = 10;
const COMPLETED: &str = r#"{"outcome":"completed"}"#;

/// Has a worker complete the next run of the given board, which must be there; time moves, since what is broken backs off.
async fn complete_one(pool: &mut Running<'_>, ordinal: u16, board: &BoardSlug) {
    let worker = pool.worker(ordinal);
    let job = pool.next_job(ordinal).await;
    assert_eq!(job.binding.board, board.as_str());
    submit(pool, &worker, &job).await;
    ended(pool, &job).await;
}

/// Submits a result, again until it is acknowledged.
async fn submit(pool: &mut Running<'_>, worker: &Worker, job: &Job) {
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        match worker.try_submit(job, COMPLETED).await {
            Ok(answer) => return assert_eq!(answer.code(), "ok"),
            Err(_) => pool.a_moment(0.5).await,
        }
    }
    panic!("no acknowledgement came");
}

async fn ended(pool: &mut Running<'_>, job: &Job) {
    let run = job.binding.run_id.clone();
    let board = job.binding.board.clone();
    let end = pool
        .hear_after_a_while(|event| {
            matches!(event, PoolEvent::Ended { binding, .. }
                if binding.key.run.as_str() == run && binding.key.board.as_str() == board)
        })
        .await;
    assert!(
        matches!(
            end,
            PoolEvent::Ended {
                terminal: Terminal::Finalized,
                ..
            }
        ),
        "{end:?}"
    );
}

/// Every part that goes down when it panics, as slot 0 and board `a` have it.
fn parts() -> impl Iterator<Item = (String, Work)> {
    let kinds = [Work::Message, Work::Round, Work::Group].into_iter();
    kinds.flat_map(|work| {
        work.all().iter().map(move |what| match *what {
            "ordinal" => ("ordinal-0".to_owned(), work),
            "reconciler" | "dispatcher" => (format!("{what}-a"), work),
            other => (other.to_owned(), work),
        })
    })
}

#[actix::test]
async fn what_always_panics_is_rebuilt_at_a_growing_interval() {
    for (actor, work) in parts() {
        let stage = Stage::new(1);
        let board = stage.board("a");
        let mut pool = stage.start().await;
        let worker = pool.worker(0);
        let mut heard = pool.pool.listen();
        stage.faults.arm_work(work, &actor, Fault::PanicAlways);
        if work == Work::Round {
            // Two of the upkeep's tasks have something to do only when the store was down.
            let store = Work::Group;
            stage.faults.arm_work(store, "store", Fault::PanicOnce);
        }
        let mut restarts = Vec::new();
        let patience = Instant::now() + 3 * PATIENCE;
        while restarts.len() < RESTARTS {
            assert!(Instant::now() < patience, "{actor}: {restarts:?}");
            // Everything that speaks to the broken part goes on speaking to it.
            let _ = worker.try_poll().await;
            if let Some(board) = pool.pool.board(&board) {
                let _ = board.dispatcher.tell(Look);
            }
            let restarted =
                |event: &PoolEvent| matches!(event, PoolEvent::Restarted(name) if *name == actor);
            let soon = Duration::from_millis(2);
            if heard.wait_for(soon, restarted).await.is_ok() {
                restarts.push(stage.clock.now().0);
            } else {
                pool.advance(1.0);
            }
        }
        // The pauses double from 0.05 s on, and the jitter at most halves them.
        let shortest = 0.5 * 0.05 * (f64::powi(2.0, RESTARTS as i32 - 1) - 1.0);
        let taken = restarts[RESTARTS - 1] - restarts[0];
        assert!(taken >= shortest, "{actor}: {restarts:?}");
        stage.faults.disarm();
        stage.task(&board, "after it was mended");
        complete_one(&mut pool, 0, &board).await;
    }
}

#[actix::test]
async fn a_heartbeat_that_panics_is_not_acknowledged_and_the_next_one_is() {
    let stage = Stage::new(1);
    let board = stage.board("a");
    stage.task(&board, "t");
    let mut pool = stage.start().await;
    let worker = pool.worker(0);
    let job = pool.next_job(0).await;
    stage
        .faults
        .arm_work(Work::Operation, "Heartbeat", Fault::PanicOnce);
    assert!(worker.try_heartbeat(&job).await.is_err());
    assert_eq!(worker.heartbeat(&job).await.code(), "ok");
}

#[actix::test]
async fn a_task_that_breaks_its_claim_leaves_the_tasks_behind_it_their_turn() {
    let stage = Stage::new(1);
    let board = stage.board("a");
    let first = stage.task(&board, "first");
    let second = stage.task(&board, "second");
    stage
        .faults
        .arm_work(Work::Visit, "a/make the claim", Fault::PanicOnce);
    let mut pool = stage.start().await;
    let worker = pool.worker(0);
    worker.poll().await;
    let added = pool
        .hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;
    assert!(
        matches!(added, PoolEvent::Added(binding) if binding.key.task == second),
        "the same look serves the next one in line"
    );
    assert_eq!(stage.status(&board, &first), "ready");
}

#[actix::test]
async fn a_run_that_cannot_be_watched_stops_its_worker_before_its_claim_ends() {
    let stage = Stage::new(1);
    let board = stage.board("a");
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    let (worker, job) = pool.first_job(0).await;
    pool.pass(&board).await;
    let confirmed_at = stage.now();
    stage
        .faults
        .arm_work(Work::Step, "a/watch", Fault::PanicAlways);
    while worker.heartbeat(&job).await.code() == "ok" {
        assert!(stage.now() - confirmed_at < CLAIM_TTL_SECONDS);
        pool.advance(30.0);
        pool.pass(&board).await;
    }
    assert_eq!(worker.heartbeat(&job).await.code(), "run_superseded");
    assert!(stage.now() - confirmed_at < CLAIM_TTL_SECONDS);
    stage.faults.disarm();
    complete_one(&mut pool, 0, &board).await;
    assert_eq!(stage.status(&board, &task), "done");
}
