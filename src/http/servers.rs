//! Both servers of one pool, started and stopped together.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::dev::ServerHandle;

use super::limit::RequestLimit;
use super::operator::operator_routes;
use super::operator_auth::OperatorAuth;
use super::server::{ServerOptions, start};
use super::worker::{WorkerDoor, worker_routes};
use crate::actors::Pool;

/// Requests that operators may have in flight: people, probes and one or two scrapers.
const OPERATOR_REQUESTS: usize = 64;
/// Longer than the longest poll, so that a worker's connection outlives its pauses.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// What the servers need beside the pool.
#[derive(Clone, Debug)]
pub struct ServersOptions {
    /// Worker requests at once, waiting polls included.
    pub max_requests: usize,
    /// Time for a whole request to arrive.
    pub client_timeout: Duration,
    /// Threads of the worker server.
    pub threads: usize,
}

/// Both servers, running.
pub struct Servers {
    pool: Pool,
    handles: [ServerHandle; 2],
    /// Where workers are served.
    pub worker_address: SocketAddr,
    /// Where operators are served.
    pub operator_address: SocketAddr,
}

impl Servers {
    /// Starts both servers on ports that are bound already.
    ///
    /// # Errors
    /// What the system says where a port cannot be used.
    pub fn start(
        pool: &Pool,
        (worker, operator): (TcpListener, TcpListener),
        auth: OperatorAuth,
        options: &ServersOptions,
    ) -> io::Result<Self> {
        let (worker_address, operator_address) = (worker.local_addr()?, operator.local_addr()?);
        let door = WorkerDoor {
            pool: pool.clone(),
            client_timeout: options.client_timeout,
        };
        let server_options = |threads, requests| ServerOptions {
            threads,
            client_timeout: options.client_timeout,
            keep_alive: KEEP_ALIVE,
            limit: RequestLimit::new(requests),
        };
        let workers = start(
            worker,
            &server_options(options.threads, options.max_requests),
            worker_routes(door),
        )?;
        let operators = start(
            operator,
            &server_options(1, OPERATOR_REQUESTS),
            operator_routes(pool.clone(), auth),
        )?;
        let handles = [workers.handle(), operators.handle()];
        actix_web::rt::spawn(workers);
        actix_web::rt::spawn(operators);
        Ok(Self {
            pool: pool.clone(),
            handles,
            worker_address,
            operator_address,
        })
    }

    /// Stops gracefully: no new claims and offers, waiting polls answer idle, what is in flight ends. Nothing is written
    /// on any board: claims and workers live on.
    pub async fn stop(self) {
        self.pool.drain();
        let [workers, operators] = self.handles;
        workers.stop(true).await;
        operators.stop(false).await;
        self.pool.stop();
    }
}
