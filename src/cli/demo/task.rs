//! `demo-task`: the sample command that the demo's workers run. Nothing for people, so it is not listed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::sample::Script;
use crate::cli::failure::Failure;

/// A file in the task's folder. Its lock tells the demo that the command is alive, and goes with the process.
pub(super) const ALIVE_FILE: &str = "alive.lock";

/// Works as the context on standard input says, and ends with its result.
pub(in crate::cli) fn run() -> Result<(), Failure> {
    work().map_err(Failure::failed)
}

fn work() -> io::Result<()> {
    let mut context = String::new();
    io::stdin().read_to_string(&mut context)?;
    let script = Script::find(&context)
        .ok_or_else(|| io::Error::other("the context on standard input is of no sample task"))?;
    let alive = File::create(Path::new(ALIVE_FILE))?;
    alive.lock()?;
    let mut out = io::stdout();
    for second in 1..=script.seconds {
        thread::sleep(Duration::from_secs(1));
        writeln!(out, "step {second} of {}", script.seconds)?;
    }
    writeln!(out, "{}", script.answer)
}
