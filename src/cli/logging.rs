//! The log: one line per record on stderr, with a time in UTC.
//!
//! `RUST_LOG` sets the level, as `env_logger` documents it; each command has its own default.

use std::io::Write;

use env_logger::Env;

use super::output::one_line;

/// What an operator wants to know. The web server's news of its start are none, nor are its complaints about requests that
/// are no HTTP: anybody can send those.
pub(super) const NEWS: &str = "info,actix_server=warn,actix_http=off";
/// Nothing but what goes wrong, for a command that tells people itself what happens.
pub(super) const PROBLEMS: &str = "warn";

/// Starts logging for a command that runs for long. Panics are logged like everything else.
pub(super) fn start(default_levels: &str) {
    env_logger::Builder::from_env(Env::default().default_filter_or(default_levels))
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
