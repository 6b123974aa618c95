//! `serve`: the coordinator.

use std::sync::Arc;
use std::time::Duration;

use actix::System;
use clap::Args;
use tokio::time::timeout;

use crate::actors::{Pool, PoolSettings, StateDir};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::faults::{FAULTS_VARIABLE, Faults};
use crate::http::{OperatorAuth, Servers, ServersOptions, bind_both};

use super::failure::Failure;
use super::home::boards;
use super::key::token_problem;
use super::output::say;
use super::signals::StopSignals;
use super::{ConfigOption, logging, open_files, process_environment};

/// How long the slots have to come up before anybody is served.
const SLOTS_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    config: ConfigOption,
    /// Bind nothing: go through every board once, print a summary, and end.
    #[arg(long)]
    once: bool,
}

pub(super) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let config = arguments.config.load()?;
    logging::start(logging::NEWS);
    let work = async {
        if arguments.once {
            once(&config).await
        } else {
            serve(&config).await
        }
    };
    System::new().block_on(work)
}

/// What a pool is started with.
pub(super) fn pool_settings(config: &Config, faults: Faults) -> PoolSettings {
    PoolSettings {
        id: config.pool.id.clone(),
        slots: config.pool.slots,
        policy: config.pool.lease,
        state_dir: config.pool.state_dir.clone(),
        key_file: config.pool.key_file.clone(),
        lanes: config.boards.lanes.clone(),
        include: config.boards.include.clone(),
        poll: config.boards.poll_interval,
        failure_limit: config.boards.failure_limit,
        interval_seconds: config.maintenance.interval.as_secs_f64(),
        retention_seconds: u32::try_from(config.maintenance.retention.as_secs())
            .unwrap_or(u32::MAX),
        faults,
    }
}

/// The tests' door, armed by a variable that no operator sets.
fn faults() -> Result<Faults, Failure> {
    let list = std::env::var(FAULTS_VARIABLE).unwrap_or_default();
    Faults::parse(&list).map_err(|error| Failure::Usage(error.to_string()))
}

fn hold_state_dir(config: &Config) -> Result<StateDir, Failure> {
    StateDir::hold(&config.pool.state_dir).map_err(Failure::failed)
}

fn start_pool(config: &Config, state_dir: StateDir) -> Result<Pool, Failure> {
    let faults = faults()?;
    let home = config.boards.hermes_home.as_deref();
    let host = Arc::new(boards(home, &process_environment(), faults.clone())?);
    let settings = pool_settings(config, faults);
    let clock = Arc::new(SystemClock::new());
    Ok(Pool::start_in(state_dir, settings, clock, host))
}

async fn once(config: &Config) -> Result<(), Failure> {
    let pool = start_pool(config, hold_state_dir(config)?)?;
    let report = pool.run_once().await;
    pool.stop();
    let line = serde_json::to_string(&report).map_err(Failure::failed)?;
    say(&line)
}

async fn serve(config: &Config) -> Result<(), Failure> {
    let mut stop = StopSignals::listen().map_err(Failure::failed)?;
    open_files::raise_limit();
    // A second coordinator finds both taken, and is told of the first one rather than of a port. No store is opened and no
    // board is touched by one that could not answer.
    let state_dir = hold_state_dir(config)?;
    let listeners = bind_both(config.http.bind, config.operator.bind).map_err(Failure::failed)?;
    let pool = start_pool(config, state_dir)?;
    // The token is made in the folder that the pool holds by now.
    let auth =
        OperatorAuth::open(&config.operator.token_file, config.operator.bind).map_err(|error| {
            Failure::Failed(format!("operator.token_file: {}", token_problem(&error)))
        })?;
    let options = ServersOptions {
        max_requests: config.http.max_requests,
        client_timeout: config.http.client_timeout,
        threads: std::thread::available_parallelism().map_or(2, usize::from),
    };
    // Workers that were waiting for a coordinator come at once.
    if timeout(SLOTS_LIMIT, pool.slots_up()).await.is_err() {
        log::warn!("not every slot is up yet; their workers are told to ask again");
    }
    let servers = Servers::start(&pool, listeners, auth, &options).map_err(Failure::failed)?;
    log::info!(
        "event=serving pool={} slots={} workers={} operators={}",
        config.pool.id.as_str(),
        config.pool.slots,
        servers.worker_address,
        servers.operator_address
    );
    stop.requested().await;
    log::info!("event=stopping");
    servers.stop().await;
    log::info!("event=stopped");
    Ok(())
}
