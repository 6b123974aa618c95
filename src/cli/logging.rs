//! The log: one line per record on stderr, with a time in UTC.
//!
//! `RUST_LOG` sets the level (default `info`), as `env_logger` documents it.

use std::io::Write;

use env_logger::Env;

use super::output::one_line;

/// The web server's own news of its start are none to an operator.
const DEFAULT_LEVELS: &str = "info,actix_server=warn";

/// Starts logging for a command that runs for long. Panics are logged like everything else.
pub(super) fn start() {
    env_logger::Builder::from_env(Env::default().default_filter_or(DEFAULT_LEVELS))
        .format(|line, record| {
            let time = line.timestamp_millis();
            let (level, message) = (record.level(), record.args().to_string());
            writeln!(
                line,
                "{time} {level} {} {}",
                record.target(),
                one_line(&message)
            )
        })
        .init();
    std::panic::set_hook(Box::new(|panic| log::error!("{panic}")));
}
