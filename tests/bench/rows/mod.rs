//! What is measured, one file each.

mod assigning;
mod collecting;
mod envelopes;
mod expiry;
mod idle;
mod in_process;
mod lives;
mod memory;
mod over_http;
mod passes;
mod reference;
mod soak;
mod starting;

use super::support::Outcome;
use super::support::figures::Session;
use super::support::table::Line;

/// One measurement, which may print several lines.
pub(crate) struct Row {
    /// By which it is chosen.
    pub(crate) name: &'static str,
    /// Its number in the list of goals.
    pub(crate) number: &'static str,
    /// What it measures, for people.
    pub(crate) title: &'static str,
    /// Measures.
    pub(crate) measure: fn(&Session) -> Outcome<Vec<Line>>,
    /// Takes minutes: only if it is named.
    is_long: bool,
}

macro_rules! rows {
    ($($name:ident $number:literal $title:literal $is_long:literal;)*) => {
        /// Every measurement, in the order in which they run.
        pub(crate) const ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            number: $number,
            title: $title,
            measure: $name::measure,
            is_long: $is_long,
        }),*];
    };
}

rows! {
    in_process "1, 2" "durable heartbeats in-process" false;
    reference "3" "durable heartbeats in-process, against the reference" false;
    over_http "4" "durable heartbeats over HTTP" false;
    lives "5" "whole lives of runs" false;
    assigning "6" "from ready to a worker's hands" false;
    passes "7" "passes with a long history" false;
    starting "8" "from the start of the program to serving" false;
    memory "9" "resident memory" false;
    soak "9" "resident memory after an hour's worth of heartbeats" true;
    expiry "10" "lateness of expiry" false;
    idle "10" "an idle pool" false;
    collecting "11" "heartbeats while a history is collected" false;
    envelopes "12" "canonical JSON and verification" false;
}

/// The rows of these names; all but the long ones for no name.
pub(crate) fn chosen(names: &[String]) -> Outcome<Vec<&'static Row>> {
    if let Some(name) = names
        .iter()
        .find(|name| ROWS.iter().all(|row| row.name != **name))
    {
        let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        return Err(format!("there is no row {name:?}; there are {}", known.join(", ")).into());
    }
    let is_chosen = |row: &&Row| {
        if names.is_empty() {
            !row.is_long
        } else {
            names.iter().any(|name| name == row.name)
        }
    };
    Ok(ROWS.iter().filter(is_chosen).collect())
}
