//! Durable heartbeats in-process, ours next to the reference's in the same rounds: from the signature of a request to the
//! verification of its answer on its side, to its answer on ours.
//!
//! Goal: at least 3 times the reference with 1 sender, 20 times with 64. The reference has three assignments at most, so its
//! senders share them, one thread each.

use std::path::Path;

use actix::System;

use super::in_process::heartbeats;
use crate::support::figures::Session;
use crate::support::peer::{NO_REFERENCE, Peer, reference};
use crate::support::table::Line;
use crate::support::{Outcome, scratch};

/// Senders at once, and the goal.
const SENDERS: [(u16, f64); 2] = [(1, 3.0), (64, 20.0)];

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let Some(modules) = reference() else {
        return Ok(vec![Line::missing("senders 1, 64", NO_REFERENCE)]);
    };
    let mut lines = Vec::new();
    for (senders, goal) in SENDERS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..session.rounds {
            let folder = scratch()?;
            let our = System::new().block_on(heartbeats(folder.path(), senders, session.round))?;
            ours.push(our);
            theirs.push(one_round(&modules, folder.path(), senders, session)?);
        }
        lines.push(
            Line::new(format!("senders {senders}"), "/s", ours)
                .against("reference", theirs)
                .at_least(goal),
        );
    }
    Ok(lines)
}

/// Heartbeats a second of the reference. It uses the key that our own round left in the folder.
fn one_round(modules: &Path, folder: &Path, senders: u16, session: &Session) -> Outcome<f64> {
    let (senders, seconds) = (senders.to_string(), session.round.as_secs_f64().to_string());
    let arguments = ["heartbeats", &senders, &seconds];
    Ok(Peer::reference(modules, folder, &arguments)?
        .line()?
        .parse()?)
}
