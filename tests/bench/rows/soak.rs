//! What the running program holds in memory after an hour's worth of heartbeats at 2,000 a second, sent as fast as it takes
//! them. It takes minutes, so it is measured only if it is named.
//!
//! Goal: no more than 1.05 times what it held after the first of them, when every cache was filled.

use std::time::Instant;

use super::over_http::{connect, round};
use crate::support::figures::Session;
use crate::support::served::Home;
use crate::support::table::Line;
use crate::support::{Outcome, runtime};

/// Connections at once, each of a slot.
const CONNECTIONS: u16 = 64;
/// Heartbeats of each connection between two looks at the memory.
const SHARE: usize = 1000;
/// Looks before memory counts as filled.
const WARM_UP: usize = 5;
/// An hour's worth: 3,600 s of 2,000 heartbeats each.
const HEARTBEATS: usize = 7_200_000;

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let home = Home::new(CONNECTIONS, CONNECTIONS)?;
    let served = home.serve()?;
    let runtime = runtime()?;
    let connected = connect(served.address, &home.master, CONNECTIONS, CONNECTIONS);
    let mut workers = runtime.block_on(connected)?;
    let wanted = session.choose(HEARTBEATS, HEARTBEATS / 60);
    let looks = wanted
        .div_ceil(SHARE * usize::from(CONNECTIONS))
        .max(WARM_UP + 1);
    let (began, mut sizes) = (Instant::now(), Vec::new());
    for _ in 0..looks {
        runtime.block_on(round(&mut workers, SHARE))?;
        sizes.push(served.resident_megabytes()?);
    }
    let (early, late) = sizes.split_at(WARM_UP);
    let first = early.last().copied().unwrap_or_default();
    let last = late.last().copied().unwrap_or_default();
    let sent = looks * SHARE * usize::from(CONNECTIONS);
    let rate = sent as f64 / began.elapsed().as_secs_f64();
    Ok(vec![
        Line::new(format!("after {sent} heartbeats"), "MB", vec![last])
            .against("warmed up", vec![first])
            .at_most(1.05)
            .note(format!("{rate:.0} heartbeats a second")),
    ])
}
