//! `status`: asks the running coordinator and shows its answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;

use crate::actors::{BoardView, DeferralView, PoolSnapshot, PoolView, SlotView};
use crate::config::{Config, OperatorConfig};
use crate::http::bearer_token;

use super::ConfigOption;
use super::failure::Failure;
use super::key::token_problem;
use super::output::{one_line, say};
use super::table::table;

/// How long the coordinator may take. It answers from memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// Far more than ten thousand slots need.
const LARGEST_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    config: ConfigOption,
    /// Print the coordinator's JSON document as it is.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &StatusArguments) -> Result<(), Failure> {
    let config = arguments.config.load()?;
    let (address, document) = ask(&config)?;
    if arguments.json {
        return say(document.trim_end());
    }
    let snapshot = serde_json::from_str(&document).map_err(|error| not_ours(address, error))?;
    say(&show(&snapshot))
}

/// The document of the coordinator that this configuration is for, and where it was found.
fn ask(config: &Config) -> Result<(SocketAddr, String), Failure> {
    let address = reachable(config.operator.bind);
    let token = token_to_read(&config.operator)?;
    let (status, document) = get(address, "/api/v1/pool", token.as_deref())?;
    match status {
        200 => Ok((address, document)),
        503 => Err(not_able(address, token.as_deref())?),
        401 => Err(Failure::Failed(format!(
            "the coordinator on {address} does not take the token in {}: set operator.token_file to the file it uses",
            config.operator.token_file.display()
        ))),
        status => Err(not_ours(address, format!("status {status}"))),
    }
}

/// The status and the text of an answer.
fn get(address: SocketAddr, path: &str, token: Option<&str>) -> Result<(u16, String), Failure> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .proxy(None)
        .build()
        .new_agent();
    let mut request = agent.get(format!("http://{address}{path}"));
    if let Some(token) = token {
        request = request.header("Authorization", token);
    }
    let mut response = request.call().map_err(|error| {
        Failure::Failed(format!(
            "no coordinator answers on {address} ({error}): start it with hermes-pool serve, or name its configuration \
             with --config"
        ))
    })?;
    let status = response.status().as_u16();
    let document = response
        .body_mut()
        .with_config()
        .limit(LARGEST_ANSWER_BYTES)
        .read_to_string()
        .map_err(|error| not_ours(address, error))?;
    Ok((status, document))
}

/// Why a coordinator cannot show its pool, as it says itself.
fn not_able(address: SocketAddr, token: Option<&str>) -> Result<Failure, Failure> {
    #[derive(serde::Deserialize)]
    struct Readiness {
        reasons: Vec<String>,
    }
    let (_, document) = get(address, "/readyz", token)?;
    let readiness: Readiness =
        serde_json::from_str(&document).map_err(|error| not_ours(address, error))?;
    let why = match &readiness.reasons[..] {
        [] => "its log says why".to_owned(),
        reasons => reasons.join("; "),
    };
    Ok(Failure::Failed(format!(
        "the coordinator on {address} cannot read its store: {}",
        one_line(&why)
    )))
}

fn not_ours(address: SocketAddr, what: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!(
        "what answers on {address} is no coordinator of this version ({what}): check operator.bind"
    ))
}

/// A server that listens on every address is asked on loopback.
fn reachable(bind: SocketAddr) -> SocketAddr {
    let ip = match bind.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bind.port())
}

/// Reading needs the token only where the port is not loopback.
fn token_to_read(operator: &OperatorConfig) -> Result<Option<String>, Failure> {
    if operator.bind.ip().is_loopback() {
        return Ok(None);
    }
    bearer_token(&operator.token_file)
        .map(Some)
        .map_err(|error| Failure::Failed(format!("operator.token_file: {}", token_problem(&error))))
}

fn show(snapshot: &PoolSnapshot) -> String {
    let now = snapshot.pool.now;
    let counts = &snapshot.counts;
    let mut parts = vec![show_pool(&snapshot.pool), show_slots(&snapshot.slots, now)];
    if !snapshot.boards.is_empty() {
        parts.push(show_boards(&snapshot.boards, now));
    }
    if !snapshot.deferrals.is_empty() {
        parts.push(show_deferrals(&snapshot.deferrals, now));
    }
    parts.push(format!(
        "assignments: {} assigned, {} running, {} result, {} lease_failed, {} finalized, {} stale",
        counts.assigned,
        counts.running,
        counts.result,
        counts.lease_failed,
        counts.finalized,
        counts.stale
    ));
    parts.join("\n\n")
}

fn show_pool(pool: &PoolView) -> String {
    let mut line = format!(
        "pool {} (version {}), {} slots, up {}: ",
        pool.id,
        pool.version,
        pool.slots,
        span(pool.now - pool.started_at)
    );
    line.push_str(match (pool.draining, pool.ready) {
        (true, _) => "draining",
        (false, true) => "ready",
        (false, false) => "not ready",
    });
    if pool.restarts > 0 {
        line.push_str(&format!(", {} restarts", pool.restarts));
    }
    for reason in &pool.reasons {
        line.push_str(&format!("\n  {}", one_line(reason)));
    }
    line
}

fn show_slots(slots: &[SlotView], now: f64) -> String {
    let rows: Vec<[String; 7]> = slots
        .iter()
        .map(|slot| {
            let run = match (&slot.board, &slot.task, &slot.run) {
                (Some(board), Some(task), Some(run)) => format!("{board}/{task}/{run}"),
                _ => NONE.to_owned(),
            };
            [
                slot.ordinal.to_string(),
                word(slot.state),
                run,
                slot.attempt
                    .map_or_else(|| NONE.to_owned(), |attempt| attempt.to_string()),
                moment(slot.lease_until, now),
                moment(slot.last_seen, now),
                slot.restarts.to_string(),
            ]
        })
        .collect();
    table(
        [
            "SLOT",
            "STATE",
            "RUN",
            "ATTEMPT",
            "LEASE ENDS",
            "WORKER SEEN",
            "RESTARTS",
        ],
        &rows,
    )
}

fn show_boards(boards: &[BoardView], now: f64) -> String {
    let rows: Vec<[String; 6]> = boards
        .iter()
        .map(|board| {
            [
                board.slug.clone(),
                word(board.state),
                board.ready.to_string(),
                moment(board.last_pass, now),
                board.restarts.to_string(),
                board.reason.clone().unwrap_or_else(|| NONE.to_owned()),
            ]
        })
        .collect();
    table(
        ["BOARD", "STATE", "READY", "LAST PASS", "RESTARTS", "REASON"],
        &rows,
    )
}

fn show_deferrals(deferrals: &[DeferralView], now: f64) -> String {
    let rows: Vec<[String; 6]> = deferrals
        .iter()
        .map(|deferral| {
            [
                deferral.scope.clone(),
                deferral.what.clone(),
                moment(Some(deferral.since), now),
                deferral.times.to_string(),
                moment(deferral.next_try, now),
                deferral.why.clone(),
            ]
        })
        .collect();
    table(
        ["PUT OFF", "WORK", "SINCE", "TRIED", "NEXT TRY", "WHY"],
        &rows,
    )
}

/// What stands where there is nothing.
const NONE: &str = "-";

/// A state as the document spells it.
fn word(state: impl serde::Serialize) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(word)) => word,
        _ => NONE.to_owned(),
    }
}

/// A point in time as seen from `now`.
fn moment(time: Option<f64>, now: f64) -> String {
    match time {
        None => NONE.to_owned(),
        Some(time) if time > now => format!("in {}", span(time - now)),
        Some(time) => format!("{} ago", span(now - time)),
    }
}

/// A length of time, in the largest unit that leaves a number above one.
fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    for (length, unit) in [(86_400.0, "d"), (3_600.0, "h"), (60.0, "min")] {
        if seconds >= 2.0 * length {
            return format!("{:.0} {unit}", (seconds / length).floor());
        }
    }
    format!("{:.0} s", seconds.floor())
}
