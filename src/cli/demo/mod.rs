//! `demo`: a whole pool in a temporary folder, for somebody who wants to see one work.
//!
//! It is the real thing in small: the coordinator's actors and servers in this process, three `hermes-pool worker`
//! processes that reach them over HTTP, and a board with tasks. Some wait for others; one ends with a question; one loses
//! its worker to SIGKILL in the middle of its run, which comes back before the lease ends and is offered the same attempt.

mod narrator;
mod outcome;
mod sample;
mod stage;
pub(super) mod task;
mod workers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix::System;
use clap::Args;

use crate::actors::{Listener, Pool, PoolEvent};
use crate::clock::SystemClock;
use crate::domain::TaskId;
use crate::http::{OperatorAuth, Servers, ServersOptions, bind_both};

use super::failure::Failure;
use super::logging;
use super::output::say;
use super::signals::StopSignals;
use narrator::{Narrator, Teller};
use stage::{SLOTS, Stage};
use workers::{Workers, is_locked};

/// The tasks have to end before this, so that the whole demo ends within a minute.
const LIMIT: Duration = Duration::from_secs(45);
/// How far the run has got when its worker is killed.
const MID_RUN: Duration = Duration::from_millis(1500);
/// How often a command's lock is looked at.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(super) struct DemoArguments {
    /// Keep the folder, to look into it afterwards.
    #[arg(long)]
    keep: bool,
}

pub(super) fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    logging::start(logging::PROBLEMS);
    let folder = tempfile::Builder::new()
        .prefix("hermes-pool-demo-")
        .tempdir()
        .map_err(|error| Failure::Failed(format!("no temporary folder can be made: {error}")))?;
    let ended = System::new().block_on(play(folder.path()));
    if arguments.keep {
        let path = folder.keep();
        say(&format!("kept in {}", path.display()))?;
    }
    ended
}

async fn play(folder: &Path) -> Result<(), Failure> {
    let mut stop = StopSignals::listen().map_err(Failure::failed)?;
    let teller = Teller::new();
    let stage = Stage::set(folder)?;
    let pool = Pool::start(
        stage.pool_settings()?,
        Arc::new(SystemClock::new()),
        Arc::new(stage.boards.clone()),
    )
    .map_err(Failure::failed)?;
    let servers = serve(&pool, &stage)?;
    let ended = tokio::select! {
        ended = story(&stage, &pool, &servers, &teller) => ended,
        () = stop.requested() => Err(Failure::Failed("the demo was interrupted".to_owned())),
    };
    servers.stop().await;
    ended
}

/// Starts both servers, on ports that are free.
fn serve(pool: &Pool, stage: &Stage) -> Result<Servers, Failure> {
    let anywhere = ([127, 0, 0, 1], 0).into();
    let listeners = bind_both(anywhere, anywhere).map_err(Failure::failed)?;
    let auth = OperatorAuth::open(&stage.operator_token(), anywhere).map_err(Failure::failed)?;
    let options = ServersOptions {
        max_requests: 64,
        client_timeout: Duration::from_secs(15),
        threads: 1,
    };
    Servers::start(pool, listeners, auth, &options).map_err(Failure::failed)
}

/// From the start of the workers to the table. However it ends, the workers have ended then.
async fn story(
    stage: &Stage,
    pool: &Pool,
    servers: &Servers,
    teller: &Teller,
) -> Result<(), Failure> {
    let (mut heard, offers) = (pool.listen(), pool.listen());
    teller.tell(&format!(
        "coordinator: {SLOTS} slots, workers on {}, web page on http://{}/",
        servers.worker_address, servers.operator_address
    ))?;
    let mut narrator = Narrator::begin(stage, teller)?;
    let mut workers = Workers::start(stage, servers.worker_address).map_err(Failure::failed)?;
    for ordinal in 0..SLOTS {
        tell_start(teller, &workers, ordinal, "is started")?;
    }
    let victim = &stage
        .tasks
        .first()
        .ok_or_else(|| Failure::failed("there are no tasks"))?
        .id;
    let both = async {
        tokio::try_join!(
            narrator.follow(&mut heard, LIMIT),
            accident(stage, teller, &mut workers, offers, victim),
        )
    };
    match tokio::time::timeout(LIMIT, both).await {
        Ok(ended) => ended.map(|_| ())?,
        Err(_) => teller.tell("that is enough: not everything has ended in time")?,
    }
    outcome::conclude(stage, pool, victim).await
}

/// Kills the worker that works on a task, and starts it again.
async fn accident(
    stage: &Stage,
    teller: &Teller,
    workers: &mut Workers<'_>,
    mut offers: Listener,
    victim: &TaskId,
) -> Result<(), Failure> {
    let offered = offers
        .wait_for(
            LIMIT,
            |event| matches!(event, PoolEvent::Offered(binding) if binding.key.task == *victim),
        )
        .await;
    let Ok(PoolEvent::Offered(binding)) = offered else {
        return Err(Failure::failed("no worker was offered the first task"));
    };
    let (ordinal, command) = (binding.ordinal.0, stage.alive_file(victim));
    until_locked(&command, true).await?;
    tokio::time::sleep(MID_RUN).await;
    workers.kill(ordinal).map_err(Failure::failed)?;
    teller.tell(&format!(
        "worker {ordinal} is killed (SIGKILL) in the middle of its run"
    ))?;
    until_locked(&command, false).await?;
    teller.tell("  its command is gone too: nothing works on a run without a lease")?;
    workers.restart(ordinal).map_err(Failure::failed)?;
    tell_start(teller, workers, ordinal, "is started again")
}

fn tell_start(
    teller: &Teller,
    workers: &Workers<'_>,
    ordinal: u16,
    what: &str,
) -> Result<(), Failure> {
    let pid = workers.pid(ordinal).unwrap_or_default();
    teller.tell(&format!("worker {ordinal} {what} (pid {pid})"))
}

/// Waits until a command is there, or gone, by the lock that it holds.
async fn until_locked(file: &Path, expected: bool) -> Result<(), Failure> {
    while is_locked(file).map_err(Failure::failed)? != expected {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
