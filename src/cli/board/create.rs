//! `board create`.

use clap::Args;

use crate::board::hermes::BoardDetails;
use crate::domain::BoardSlug;

use super::super::failure::Failure;
use super::super::output::say;
use super::{HomeOption, now, refused};

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArguments {
    /// Name of the board in paths and envelopes: 1 to 64 of a-z, 0-9, _ and -.
    #[arg(value_name = "SLUG", value_parser = BoardSlug::parse)]
    slug: BoardSlug,
    /// Name for people; made from the slug if absent.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    home: HomeOption,
}

pub(super) fn run(arguments: &CreateArguments) -> Result<(), Failure> {
    let details = BoardDetails {
        name: arguments.name.clone(),
        ..BoardDetails::default()
    };
    let database = arguments
        .home
        .boards()?
        .create(&arguments.slug, &details, now())
        .map_err(|error| refused(&arguments.slug, &error))?;
    say(&format!(
        "board {} made: {}",
        arguments.slug,
        database.display()
    ))
}
