//! Ports and servers.
//!
//! Both ports are bound before either answers. Each server is its own, with its own threads and its own limit, so that a
//! flood on one leaves the other answering.

use std::future::ready;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::{HttpService, Protocol};
use actix_service::{ServiceFactoryExt, map_config};
use actix_web::dev::{AppConfig, Extensions, Server, fn_service};
use actix_web::middleware::from_fn;
use actix_web::rt::net::TcpStream;
use actix_web::web::{self, QueryConfig, ServiceConfig};
use actix_web::{App, HttpResponse};

use super::connections::{Connections, Patience};
use super::error::HttpError;
use super::limit::{RequestLimit, admit};
use super::turns::InTurns;

/// How long the head of a request may take.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// How long a refused client has to read its answer, and a closing connection to close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// How long requests in flight may go on at a graceful stop. The process has ten seconds altogether.
const STOP_PATIENCE_SECONDS: u64 = 8;
/// Connections that the system holds ready for a server that is busy.
const BACKLOG: i32 = 1024;
/// Connections beyond twice the requests in flight that one thread keeps: idle ones, and those that are to be refused.
const SPARE_CONNECTIONS: usize = 1024;

/// A port cannot be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "{setting}: cannot listen on {address}: {cause}; stop what uses it, or set another address"
)]
pub struct BindError {
    /// The setting that named it.
    pub setting: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// What the system said.
    #[source]
    pub cause: io::Error,
}

/// Binds the ports of the worker endpoints and of the operator endpoints, in this order.
///
/// Connections wait until the servers are started.
///
/// # Errors
/// [`BindError`] for the first one that cannot be had; then neither is bound.
pub fn bind_both(
    worker: SocketAddr,
    operator: SocketAddr,
) -> Result<(TcpListener, TcpListener), BindError> {
    let bind = |setting, address| {
        bind(address).map_err(|cause| BindError {
            setting,
            address,
            cause,
        })
    };
    Ok((bind("http.bind", worker)?, bind("operator.bind", operator)?))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // The standard library asks for a queue of 128, less than a pool of workers that come back at once.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// What a server needs to know beside its routes.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Threads that answer.
    pub threads: usize,
    /// Time for a whole request to arrive. The head has five seconds of it at most.
    pub client_timeout: Duration,
    /// How long a connection may idle between two requests.
    pub keep_alive: Duration,
    /// Requests at once.
    pub limit: RequestLimit,
}

/// Starts a server on a bound port. It runs when the answer is spawned or awaited, and takes no signals.
///
/// # Errors
/// What the system says where the port cannot be used.
pub fn start<R>(listener: TcpListener, options: &ServerOptions, routes: R) -> io::Result<Server>
where
    R: Fn(&mut ServiceConfig) + Clone + Send + 'static,
{
    let limit = options.limit.clone();
    let head_patience = options.client_timeout.min(HEAD_PATIENCE);
    let connections = Connections::look_after(Patience {
        idle: options.keep_alive + head_patience,
        blocked: options.client_timeout,
    });
    let app = move || {
        let limit = limit.clone();
        App::new()
            .app_data(QueryConfig::default().error_handler(|_, _| HttpError::BadQuery.into()))
            .configure(routes.clone())
            .default_service(web::to(|| async {
                Err::<HttpResponse, _>(HttpError::NotFound)
            }))
            .wrap(from_fn(move |request, next| {
                admit(limit.clone(), request, next)
            }))
    };
    let server = Server::build()
        .workers(options.threads)
        .worker_max_blocking_threads(1)
        .max_concurrent_connections(2 * options.limit.limit() + SPARE_CONNECTIONS)
        .shutdown_timeout(STOP_PATIENCE_SECONDS)
        .disable_signals();
    let stopping = server.graceful_shutdown_signal();
    let keep_alive = options.keep_alive;
    let server = server.listen("http", listener, move || {
        let (stopping, connections) = (stopping.clone(), Arc::clone(&connections));
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .client_request_timeout(head_patience)
            .client_disconnect_timeout(CLOSE_PATIENCE)
            .keep_alive(keep_alive)
            .on_connect_ext(move |connection: &InTurns, of_requests: &mut Extensions| {
                if let Some(watched) = connections.add(connection.stream()) {
                    connection.turns().watch(watched);
                }
                of_requests.insert(Rc::clone(connection.turns()));
            })
            .finish(map_config(app(), |()| AppConfig::default()));
        fn_service(|stream: TcpStream| {
            let peer = stream.peer_addr().ok();
            ready(Ok((InTurns::new(stream), Protocol::Http1, peer)))
        })
        .and_then(http)
    })?;
    Ok(server.run())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_told_with_its_setting_and_address() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let told = bind_both("127.0.0.1:0".parse().unwrap(), address)
            .unwrap_err()
            .to_string();
        assert!(told.starts_with(&format!(
            "operator.bind: cannot listen on {address}: Address already in use"
        )));
    }
}
