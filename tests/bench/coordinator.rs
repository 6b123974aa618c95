//! How fast the coordinator is, next to its goals and to what people would use instead, on this machine in the same run.
//!
//! `cargo bench` measures every row of [`rows::ROWS`] but the soak; `cargo bench -- lives passes` only those that are
//! named, `-- --quick` takes one short round of each, to see that everything runs. What the rows mean stands in the README
//! under "Measure it". Nothing is asserted about time: whether a figure is good is for people.

#[path = "../support/python.rs"]
mod python;
mod rows;
mod support;

/// What [`python`] needs of the tests' oracle: where it stands what Hermes needs.
mod oracle {
    use std::path::{Path, PathBuf};

    pub(crate) fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle")
    }
}

use support::figures::Session;
use support::{Outcome, raw, table};

fn main() -> Outcome<()> {
    let mut session = Session::full();
    let mut wanted = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => session = Session::quick(),
            // Cargo says so to every benchmark.
            "--bench" => {}
            name => wanted.push(name.to_owned()),
        }
    }
    let rows = rows::chosen(&wanted)?;
    println!(
        "medians of {} rounds on {} cores\n",
        session.rounds,
        std::thread::available_parallelism()?
    );
    for row in rows {
        table::heading(row.number, row.title, &raw::commit_millis()?);
        for line in (row.measure)(&session)? {
            line.print();
        }
        println!();
    }
    Ok(())
}
