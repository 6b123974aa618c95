//! `board list`.

use clap::Args;
use serde_json::{Value, json};

use crate::board::hermes::BoardEntry;

use super::super::failure::Failure;
use super::super::output::say;
use super::super::table::table;
use super::HomeOption;

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArguments {
    /// Print one JSON array.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    home: HomeOption,
}

pub(super) fn run(arguments: &ListArguments) -> Result<(), Failure> {
    let boards = arguments.home.boards()?;
    let mut entries = boards.list().map_err(Failure::failed)?;
    // Hermes lists its default board whether or not it was ever made.
    entries.retain(|entry| entry.database.exists());
    if arguments.json {
        let documents: Vec<Value> = entries.iter().map(document).collect();
        return say(&Value::from(documents).to_string());
    }
    if entries.is_empty() {
        return say(&format!("no boards in {}", boards.root().display()));
    }
    let rows: Vec<[String; 4]> = entries
        .iter()
        .map(|entry| {
            [
                entry.found.slug.to_string(),
                name(entry).to_owned(),
                state(entry).to_owned(),
                entry.database.display().to_string(),
            ]
        })
        .collect();
    say(&table(["BOARD", "NAME", "STATE", "DATABASE"], &rows))
}

fn document(entry: &BoardEntry) -> Value {
    json!({
        "slug": entry.found.slug.as_str(),
        "name": name(entry),
        "archived": entry.found.archived,
        "database": entry.database.to_string_lossy(),
    })
}

fn state(entry: &BoardEntry) -> &'static str {
    match (entry.found.archived, &entry.found.unclear) {
        (true, _) => "archived",
        (false, Some(_)) => "unclear",
        (false, None) => "open",
    }
}

fn name(entry: &BoardEntry) -> &str {
    let name = entry.metadata.get("name").and_then(Value::as_str);
    name.unwrap_or(entry.found.slug.as_str())
}
