//! What the running program holds in memory.
//!
//! Goal: under 20 MB with 3 slots, under 150 MB with 10,000 slots that all have a live lease; both after some heartbeats.

use super::starting::crowded;
use crate::support::connection::{Connection, request};
use crate::support::figures::Session;
use crate::support::served::Home;
use crate::support::table::Line;
use crate::support::worker::Worker;
use crate::support::{Outcome, runtime};

/// A pool of the ordinary size.
const FEW_SLOTS: u16 = 3;
/// Workers that send heartbeats.
const WORKERS: u16 = 3;
/// Heartbeats of each before memory is looked at.
const HEARTBEATS: usize = 500;

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..session.rounds.min(3) {
        few.push(resident(&Home::new(FEW_SLOTS, FEW_SLOTS)?)?);
        many.push(resident(&crowded()?)?);
    }
    Ok(vec![
        Line::new("slots 3", "MB", few).at_most(20.0),
        Line::new("slots 10,000, each with a live lease", "MB", many).at_most(150.0),
    ])
}

/// Resident megabytes after some workers have fetched their runs and sent heartbeats.
fn resident(home: &Home) -> Outcome<f64> {
    let served = home.serve()?;
    runtime()?.block_on(async {
        for ordinal in 0..WORKERS {
            let mut worker = Worker::new(&home.master, ordinal, home.slots)?;
            let mut connection = Connection::open(served.address).await?;
            let poll = request("/v2/poll", &worker.poll(30)?);
            worker.take(&connection.send(&poll).await?)?;
            for _ in 0..HEARTBEATS {
                let heartbeat = request("/v2/heartbeat", &worker.heartbeat()?);
                worker.confirm(&connection.send(&heartbeat).await?)?;
            }
        }
        served.resident_megabytes()
    })
}
