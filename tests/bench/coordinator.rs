//! How fast the coordinator is, next to what the disk and SQLite allow on this machine in the same run.
//!
//! `cargo bench --bench coordinator` measures everything in about a minute; `-- --quick` takes one short round of each.
//! Every figure is the median of its rounds. Nothing is asserted about time: whether a figure is good is for people.
//!
//! | module | measures |
//! |---|---|
//! | [`support::in_process`] | durable heartbeats through the actors, against raw SQLite ([`support::raw`]) |
//! | [`support::over_http`] | the same through the real program on loopback |
//! | [`support::starting`] | time from the start of the program to the first run in a worker's hands, and memory |

mod support;

use support::figures::Effort;
use support::{Outcome, in_process, over_http, starting};

fn main() -> Outcome<()> {
    let effort = if std::env::args().any(|argument| argument == "--quick") {
        Effort::quick()
    } else {
        Effort::full()
    };
    println!(
        "medians of {} rounds on {} cores\n",
        effort.rounds,
        std::thread::available_parallelism()?
    );
    in_process::measure(&effort)?;
    over_http::measure(&effort)?;
    starting::measure(&effort)
}
