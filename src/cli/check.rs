//! `check`: whether a coordinator could start on this configuration.

use clap::Args;

use crate::config::{Config, Problem};
use crate::protocol::read_key;

use super::ConfigOption;
use super::failure::Failure;
use super::key::key_problem;
use super::output::say;

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    config: ConfigOption,
}

pub(super) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    // For this command a wrong configuration is what was looked for, so it fails rather than being misused.
    let config = arguments.config.load().map_err(Failure::failed)?;
    let problems: Vec<String> = check_key(&config)
        .into_iter()
        .map(|problem| problem.to_string())
        .collect();
    if problems.is_empty() {
        let source = config
            .file
            .map_or_else(|| "built-in".into(), |file| file.display().to_string());
        say(&format!("ok: configuration ({source}), key"))
    } else {
        Err(Failure::Failed(problems.join("\n")))
    }
}

fn check_key(config: &Config) -> Option<Problem> {
    let path = &config.pool.key_file;
    let error = read_key(path).err()?;
    Some(Problem {
        at: "pool.key_file".into(),
        what: key_problem(path, &error),
    })
}
