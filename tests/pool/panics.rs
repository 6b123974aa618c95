//! Panics: whatever breaks is the only thing that is affected, is built anew from the store, and is counted.
//!
//! Each test breaks one piece of work by its name, once or always, and sees a second board and slot go on meanwhile.

use std::time::{Duration, Instant};

use hermes_pool::actors::{Look, PoolEvent, PoolSnapshot};
use hermes_pool::clock::Clock;
use hermes_pool::domain::{BoardSlug, Terminal};
use hermes_pool::faults::{Fault, Work};

use crate::support::{Job, PATIENCE, Running, Stage, Worker};

/// Restarts after which the pauses have grown to about half a minute.
const RESTARTS: usize = 10;
const COMPLETED: &str = r#"{"outcome":"completed"}"#;

/// Has a worker complete the next run of the given board, which must be there; time moves, since what is broken backs off.
async fn complete_one(pool: &mut Running<'_>, ordinal: u16, board: &BoardSlug) {
    let worker = pool.worker(ordinal);
    let job = fetch(pool, &worker).await;
    assert_eq!(job.binding.board, board.as_str());
    submit(pool, &worker, &job).await;
    ended(pool, &job).await;
}

/// A worker's next run. Like any worker it asks again when a part of the pool was restarting.
async fn fetch(pool: &mut Running<'_>, worker: &Worker) -> Job {
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        if let Ok(Some(job)) = worker.try_poll().await {
            return job;
        }
        pool.a_moment(1.0).await;
    }
    panic!("no run came: {:#?}", pool.pool.ledger().entries());
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

fn restarts_of(snapshot: &PoolSnapshot, actor: &str) -> u64 {
    if let Some(ordinal) = actor.strip_prefix("ordinal-") {
        let ordinal: usize = ordinal.parse().unwrap();
        return snapshot.slots[ordinal].restarts;
    }
    if let Some((_, board)) = actor.split_once('-') {
        let board = snapshot.boards.iter().find(|view| view.slug == board);
        return board.unwrap().restarts;
    }
    snapshot.pool.restarts
}

/// What a broken actor is, in the metrics.
fn kind(actor: &str) -> &str {
    actor.split('-').next().unwrap()
}

#[actix::test]
async fn an_actor_that_panics_once_is_built_anew_counted_and_shown_and_every_run_ends() {
    for (actor, work) in [
        ("ordinal-0", Work::Message),
        ("roster", Work::Message),
        ("boards", Work::Message),
        ("reconciler-a", Work::Message),
        ("dispatcher-a", Work::Message),
        ("store", Work::Group),
    ] {
        let stage = Stage::new(2);
        let board = stage.board("a");
        let tasks: Vec<_> = (0..3)
            .map(|n| stage.task(&board, &format!("t{n}")))
            .collect();
        let mut pool = stage.start().await;
        let worker = pool.worker(0);
        let job = fetch(&mut pool, &worker).await;
        submit(&mut pool, &worker, &job).await;

        let mut heard = pool.pool.listen();
        stage.faults.arm_work(work, actor, Fault::PanicOnce);
        ended(&mut pool, &job).await;
        for _ in 1..tasks.len() {
            complete_one(&mut pool, 0, &board).await;
        }
        pool.until_restarted(&mut heard, actor).await;
        for task in &tasks {
            assert_eq!(stage.status(&board, task), "done", "{actor}");
            assert_eq!(stage.runs(&board, task).len(), 1, "{actor}: no run is lost");
        }
        let snapshot = pool.snapshot().await;
        assert_eq!(restarts_of(&snapshot, actor), 1, "{actor}");
        let metrics = pool
            .pool
            .metrics()
            .render(&pool.pool.gauges().await)
            .unwrap();
        let counted = format!(
            "hermes_pool_actor_restarts_total{{actor=\"{}\"}} 1",
            kind(actor)
        );
        assert!(metrics.contains(&counted), "{actor}: {metrics}");
    }
}

#[actix::test]
async fn a_board_whose_actor_always_panics_is_quarantined_and_stops_no_other() {
    for (actor, work) in [
        ("reconciler-a", Work::Message),
        ("dispatcher-a", Work::Message),
    ] {
        let stage = Stage::new(1);
        let (broken, sound) = (stage.board("a"), stage.board("b"));
        let mut pool = stage.start().await;
        stage.faults.arm_work(work, actor, Fault::PanicAlways);
        stage.task(&broken, "behind a broken actor");
        for n in 0..3 {
            stage.task(&sound, &format!("t{n}"));
        }
        let (mut done, worker) = (0, pool.worker(0));
        while done < 3 {
            let job = fetch(&mut pool, &worker).await;
            submit(&mut pool, &worker, &job).await;
            if job.binding.board == "b" {
                ended(&mut pool, &job).await;
                done += 1;
            } else {
                // Its board takes no result while its Reconciler is down; the slot is freed all the same.
                pool.hear_after_a_while(|event| matches!(event, PoolEvent::LeaseFailed(..)))
                    .await;
            }
        }
        assert!(pool.snapshot().await.pool.ready, "{actor}");
        stage.faults.disarm();
        let deadline = pool.stage.now() + 600;
        while stage.open_tasks(&broken) > 0 {
            assert!(
                stage.now() < deadline,
                "{actor}: it goes on once it is mended"
            );
            if let Ok(Some(job)) = worker.try_poll().await {
                submit(&mut pool, &worker, &job).await;
            }
            pool.a_moment(1.0).await;
        }
    }
}

#[actix::test]
async fn what_always_panics_is_rebuilt_at_a_growing_interval() {
    for (actor, work) in [
        ("roster", Work::Message),
        ("boards", Work::Message),
        ("reconciler-a", Work::Message),
        ("dispatcher-a", Work::Message),
        ("ordinal-0", Work::Message),
        ("store", Work::Group),
    ] {
        let stage = Stage::new(1);
        let board = stage.board("a");
        let mut pool = stage.start().await;
        let worker = pool.worker(0);
        let mut heard = pool.pool.listen();
        stage.faults.arm_work(work, actor, Fault::PanicAlways);
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
                |event: &PoolEvent| matches!(event, PoolEvent::Restarted(name) if name == actor);
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
async fn a_step_or_visit_that_always_panics_puts_off_its_own_rows_and_nothing_else() {
    for (work, name) in [
        (Work::Step, "a/settle"),
        (Work::Step, "a/watch"),
        (Work::Step, "a/intents"),
        (Work::Visit, "a/settle"),
        (Work::Visit, "a/watch"),
        (Work::Visit, "a/look for work"),
        (Work::Visit, "a/make the claim"),
        (Work::Visit, "a/read the task"),
    ] {
        let stage = Stage::new(2);
        let (broken, sound) = (stage.board("a"), stage.board("b"));
        let kept = stage.task(&broken, "behind a broken step");
        let mut pool = stage.start().await;
        stage.faults.arm_work(work, name, Fault::PanicAlways);
        for n in 0..4 {
            stage.task(&sound, &format!("t{n}"));
        }
        let (worker, mut done) = (pool.worker(0), 0);
        while done < 4 {
            let job = fetch(&mut pool, &worker).await;
            submit(&mut pool, &worker, &job).await;
            if job.binding.board == "b" {
                ended(&mut pool, &job).await;
                done += 1;
            }
        }
        let snapshot = pool.snapshot().await;
        assert!(snapshot.pool.ready, "{work:?} {name}");
        assert!(
            snapshot.boards.iter().all(|board| board.restarts == 0),
            "{work:?} {name}: the panic ends where it belongs"
        );
        stage.faults.disarm();
        let deadline = stage.now() + 2000;
        while stage.status(&broken, &kept) != "done" {
            assert!(
                stage.now() < deadline,
                "{work:?} {name}: mended, it goes on"
            );
            if let Ok(Some(job)) = worker.try_poll().await {
                submit(&mut pool, &worker, &job).await;
            }
            pool.a_moment(1.0).await;
        }
    }
}

#[actix::test]
async fn a_store_operation_that_panics_fails_alone_and_is_never_acknowledged() {
    for operation in [
        "RecordIntent",
        "AddAssignment",
        "Offer",
        "SubmitResult",
        "End",
        "NoteConfirmed",
        "NoteBoardHeartbeat",
        "LiveOf",
        "Expire",
        "IsIntended",
        "DropIntent",
    ] {
        let stage = Stage::new(1);
        let board = stage.board("a");
        let task = stage.task(&board, "t");
        stage
            .faults
            .arm_work(Work::Operation, operation, Fault::PanicOnce);
        let mut pool = stage.start().await;
        complete_one(&mut pool, 0, &board).await;
        assert_eq!(stage.status(&board, &task), "done", "{operation}");
        assert_eq!(pool.snapshot().await.pool.restarts, 0, "{operation}");
    }
}

#[actix::test]
async fn a_heartbeat_that_panics_is_not_acknowledged_and_the_next_one_is() {
    let stage = Stage::new(1);
    let board = stage.board("a");
    stage.task(&board, "t");
    let mut pool = stage.start().await;
    let worker = pool.worker(0);
    let job = fetch(&mut pool, &worker).await;
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
async fn while_one_slot_breaks_the_others_are_answered_as_fast_as_before() {
    let stage = Stage::new(3);
    let board = stage.board("a");
    for n in 0..3 {
        stage.task(&board, &format!("t{n}"));
    }
    let mut pool = stage.start().await;
    let workers = [pool.worker(0), pool.worker(1), pool.worker(2)];
    let mut jobs = Vec::new();
    for worker in &workers {
        jobs.push(fetch(&mut pool, worker).await);
    }
    // Alternating rounds, so that whatever else the machine does falls on both alike.
    let (mut calm, mut beside_the_fault) = (Vec::new(), Vec::new());
    for round in 0..20 {
        for broken in [false, true] {
            if broken {
                stage
                    .faults
                    .arm_work(Work::Message, "ordinal-2", Fault::PanicAlways);
                let _ = workers[2].try_heartbeat(&jobs[2]).await;
            }
            for n in 0..2 {
                let began = std::time::Instant::now();
                let answer = workers[n].heartbeat(&jobs[n]).await;
                let taken = began.elapsed();
                assert_eq!(answer.code(), "ok", "round {round}");
                if broken {
                    beside_the_fault.push(taken);
                } else {
                    calm.push(taken);
                }
            }
            stage.faults.disarm();
            pool.advance(1.0);
        }
    }
    calm.sort();
    beside_the_fault.sort();
    let (median, slowest_calm) = (beside_the_fault[20], calm[calm.len() - 1]);
    assert!(
        median <= slowest_calm,
        "the median beside the fault {median:?} is within the noise up to {slowest_calm:?}"
    );
}
