//! The configuration: built-in defaults, a file over them, the environment over both.
//!
//! A [`Config`] is valid as a whole: each field has a type that holds only what is allowed, or was checked against its
//! limits when the value was made. All that is wrong is found at once and told as `section.key: what, what is allowed`.
//!
//! Deliberately absent: reading the process' environment by itself (it is handed in), and a look at what the values point
//! to; whether files exist and may be used is told by whoever opens them.

mod layers;
mod problem;
mod reader;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::domain::{BoardSlug, Lane, LeasePolicy, PoolId};
use crate::protocol::MAX_SLOTS;

pub use layers::{DEFAULT_TOML, Environment};
pub use problem::{ConfigError, Problem};

use layers::Layers;
use reader::Reader;

/// The file that is taken where none is named, if it exists.
const USUAL_FILE: &str = "config/pool.toml";

/// Everything an operator can set.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file it came from; `None` for the built-in values.
    pub file: Option<PathBuf>,
    /// `[pool]`
    pub pool: PoolConfig,
    /// `[http]`
    pub http: HttpConfig,
    /// `[operator]`
    pub operator: OperatorConfig,
    /// `[boards]`
    pub boards: BoardsConfig,
    /// `[maintenance]`
    pub maintenance: MaintenanceConfig,
}

/// `[pool]`: identity, slots and leases.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolConfig {
    /// Identity on the boards.
    pub id: PoolId,
    /// Worker slots, 1 to 10,000.
    pub slots: u16,
    /// Lengths of leases and offers, number of attempts.
    pub lease: LeasePolicy,
    /// Folder of the store.
    pub state_dir: PathBuf,
    /// The master key.
    pub key_file: PathBuf,
}

/// `[http]`: the worker endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    /// Where they listen.
    pub bind: SocketAddr,
    /// Requests at once, waiting polls included.
    pub max_requests: usize,
    /// Time for a whole request to arrive.
    pub client_timeout: Duration,
}

/// `[operator]`: the operator endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorConfig {
    /// Where they listen.
    pub bind: SocketAddr,
    /// File of the bearer token.
    pub token_file: PathBuf,
}

/// `[boards]`: which boards and tasks are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardsConfig {
    /// Home of Hermes' boards, to be taken as `HERMES_KANBAN_HOME`; `None` for Hermes' own resolution.
    pub hermes_home: Option<PathBuf>,
    /// Lanes that the pool serves; at least one.
    pub lanes: Vec<Lane>,
    /// Boards to serve; empty for all.
    pub include: Vec<BoardSlug>,
    /// How often a board is looked at for changes.
    pub poll_interval: Duration,
    /// Failures in a row after which a task is given up.
    pub failure_limit: i64,
}

/// `[maintenance]`: cadence and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceConfig {
    /// The longest time between two passes over a board.
    pub interval: Duration,
    /// How long ended assignments are kept.
    pub retention: Duration,
}

impl Config {
    /// The configuration in `file`; without one, in `config/pool.toml` below the current folder, or else the built-in one.
    ///
    /// # Errors
    /// [`ConfigError`] when the file cannot be read or parsed, or with every value that is not allowed.
    pub fn load(file: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let usual = Path::new(USUAL_FILE);
        let Some(path) = file.or_else(|| usual.exists().then_some(usual)) else {
            return Self::parse(DEFAULT_TOML, None, environment);
        };
        let text = std::fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable {
            path: path.to_owned(),
            cause,
        })?;
        Self::parse(&text, Some(path), environment)
    }

    /// The configuration in a text that was read from `file`. Relative paths count from the folder of that file, or from
    /// the current one.
    ///
    /// # Errors
    /// [`ConfigError`] when the text cannot be parsed, or with every value that is not allowed.
    pub fn parse(
        text: &str,
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let name = file.map_or_else(|| "configuration".into(), Path::to_string_lossy);
        let layers = Layers::new(text, &name, environment)?;
        let folder = absolute(file.and_then(Path::parent).unwrap_or(Path::new("")));
        let mut reader = Reader::new(layers, &folder, environment);

        // All sections are read before any may fail, so that every problem is found.
        let pool = read_pool(&mut reader);
        let http = read_http(&mut reader, pool.as_ref());
        let operator = read_operator(&mut reader, pool.as_ref());
        let boards = read_boards(&mut reader);
        let maintenance = read_maintenance(&mut reader);
        if let (Some(http), Some(operator)) = (&http, &operator)
            && http.bind == operator.bind
            && http.bind.port() != 0
        {
            reader.note("operator", "bind", "must differ from http.bind");
        }

        let config = || {
            Some(Self {
                file: file.map(Path::to_owned),
                pool: pool?,
                http: http?,
                operator: operator?,
                boards: boards?,
                maintenance: maintenance?,
            })
        };
        let problems = reader.into_problems();
        match config() {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(ConfigError::Invalid(problems)),
        }
    }
}

/// Where the current folder is unknown, paths stay relative to it and fail where they are used.
fn absolute(folder: &Path) -> PathBuf {
    std::env::current_dir().map_or_else(|_| folder.to_owned(), |current| current.join(folder))
}

fn read_pool(reader: &mut Reader<'_>) -> Option<PoolConfig> {
    let section = "pool";
    let id = reader.text(
        section,
        "id",
        "must be 1 to 32 of a-z, 0-9, _ and -, the first a letter or digit",
        |text| PoolId::parse(text).ok(),
    );
    let slots = reader.number(section, "slots", 1..=i64::from(MAX_SLOTS));
    // Out of range is no error for these two: they are clamped, as the reference does.
    let lease_seconds = reader.number(section, "lease_seconds", i64::MIN..=i64::MAX);
    let max_attempts = reader.number(section, "max_attempts", i64::MIN..=i64::MAX);
    let offer_timeout_seconds = reader.number(section, "offer_timeout_seconds", 1..=604_800);
    let state_dir = reader.path(section, "state_dir");
    let key_file = reader.path(section, "key_file");
    Some(PoolConfig {
        id: id?,
        slots: slots?,
        lease: LeasePolicy::clamped(lease_seconds?, max_attempts?, offer_timeout_seconds?),
        state_dir: state_dir?,
        key_file: key_file?,
    })
}

fn read_http(reader: &mut Reader<'_>, pool: Option<&PoolConfig>) -> Option<HttpConfig> {
    let section = "http";
    let bind = read_address(reader, section);
    let max_requests: Option<u32> = reader.number(section, "max_requests", 0..=1_000_000);
    let client_timeout_seconds = reader.number(section, "client_timeout_seconds", 1..=300);
    Some(HttpConfig {
        bind: bind?,
        max_requests: match max_requests? {
            0 => 2 * usize::from(pool?.slots) + 256,
            given => usize::try_from(given).ok()?,
        },
        client_timeout: Duration::from_secs(client_timeout_seconds?),
    })
}

fn read_operator(reader: &mut Reader<'_>, pool: Option<&PoolConfig>) -> Option<OperatorConfig> {
    let section = "operator";
    let bind = read_address(reader, section);
    let token_file = reader.optional_path(section, "token_file");
    Some(OperatorConfig {
        bind: bind?,
        token_file: match token_file? {
            Some(path) => path,
            None => pool?.state_dir.join("operator.token"),
        },
    })
}

fn read_boards(reader: &mut Reader<'_>) -> Option<BoardsConfig> {
    let section = "boards";
    let hermes_home = reader.optional_path(section, "hermes_home");
    let lanes = reader.list(
        section,
        "lanes",
        "must be a list of different assignees in lower case, none of them \"default\"",
        |text| {
            (text != "default")
                .then(|| Lane::parse(text).ok())
                .flatten()
        },
    );
    if lanes.as_ref().is_some_and(Vec::is_empty) {
        reader.note(section, "lanes", "must name at least one assignee");
    }
    let include = reader.list(
        section,
        "include",
        "must be a list of different board slugs: 1 to 64 of a-z, 0-9, _ and -, the first a letter or digit",
        |text| BoardSlug::parse(text).ok(),
    );
    let poll_millis = reader.number(section, "poll_millis", 10..=60_000);
    let failure_limit = reader.number(section, "failure_limit", 1..=1_000);
    Some(BoardsConfig {
        hermes_home: hermes_home?,
        lanes: lanes?,
        include: include?,
        poll_interval: Duration::from_millis(poll_millis?),
        failure_limit: failure_limit?,
    })
}

fn read_maintenance(reader: &mut Reader<'_>) -> Option<MaintenanceConfig> {
    let section = "maintenance";
    let interval_seconds = reader.number(section, "interval_seconds", 1..=3_600);
    let retention_seconds = reader.number(section, "retention_seconds", 3_600..=315_360_000);
    Some(MaintenanceConfig {
        interval: Duration::from_secs(interval_seconds?),
        retention: Duration::from_secs(retention_seconds?),
    })
}

fn read_address(reader: &mut Reader<'_>, section: &str) -> Option<SocketAddr> {
    reader.text(
        section,
        "bind",
        "must be an address as IP:PORT, for example 127.0.0.1:8750",
        |text| text.parse().ok(),
    )
}
