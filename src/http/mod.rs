//! The two HTTP servers: worker endpoints and operator endpoints.
//!
//! Every request passes the same gate ([`RequestLimit`]) and every refusal is worded in one place ([`HttpError`]), so that
//! both servers answer JSON on every path. A connection has one request at a time, whatever its client sends ahead, and none
//! while its client does not take the answer. What a request sets in motion takes place in the actors and does not depend on
//! the client staying.
//!
//! Deliberately absent: TLS (a proxy's work; envelopes are signed), queues (beyond a limit a request is refused, a little later,
//! so that a flood of them costs little), and limits of a rate. Two answers are the HTTP library's own and carry no JSON: to a head that is not HTTP (400, 431)
//! and to one that does not arrive in time (408).

mod body;
mod connections;
mod error;
mod limit;
mod operator;
mod operator_auth;
mod pace;
mod server;
mod servers;
mod turns;
mod unread;
mod worker;

pub use body::read_body;
pub use error::{HttpError, only};
pub use limit::RequestLimit;
pub use operator::operator_routes;
pub use operator_auth::{OperatorAuth, TokenError, bearer_token, require_token};
pub use server::{BindError, ServerOptions, bind_both, start};
pub use servers::{Servers, ServersOptions};
pub use worker::{WorkerDoor, worker_routes};
