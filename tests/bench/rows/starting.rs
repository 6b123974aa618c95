//! From the start of the program until it says that it is ready, and until a worker that asked all the while has its run.
//!
//! Goal: 0.3 s until it serves with 1,000,000 ended assignments in the store and 100,000 done tasks on the board, 1 s with
//! 10,000 slots, each with a live lease. The first brief reads the lane's whole history on the board, as Hermes does.

use std::time::{Duration, Instant};

use crate::support::connection::{Connection, question, request};
use crate::support::figures::{Session, millis_since};
use crate::support::leases;
use crate::support::served::{Home, Served};
use crate::support::table::Line;
use crate::support::worker::Worker;
use crate::support::{Outcome, runtime};

/// A pool of the ordinary size.
const FEW_SLOTS: u16 = 3;
/// A pool of the largest size.
const MOST_SLOTS: u16 = 10_000;

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let history = session.history()?;
    let empty = || Home::new(FEW_SLOTS, 1);
    let full = || {
        let home = Home::new(FEW_SLOTS, 1)?;
        history.copy_store(&home.state_dir())?;
        history.fill_board(&home.boards())?;
        Ok(home)
    };
    let mut lines = Vec::new();
    lines.extend(of(session, "no history", 300.0, empty, 0)?);
    lines.extend(of(session, "long histories", 300.0, full, 0)?);
    lines.extend(of(
        session,
        "10,000 live runs",
        1000.0,
        crowded,
        MOST_SLOTS - 1,
    )?);
    Ok(lines)
}

/// A home whose slots all have a live lease.
pub(super) fn crowded() -> Outcome<Home> {
    let home = Home::new(MOST_SLOTS, 0)?;
    let now = Session::now();
    let ends = leases::Ends {
        first: now + 600.0,
        step: 0.0,
    };
    leases::fill(&home.state_dir(), &home.boards(), MOST_SLOTS, now, ends)?;
    Ok(home)
}

/// The times of a home, made anew for each start.
fn of(
    session: &Session,
    what: &str,
    goal: f64,
    home: impl Fn() -> Outcome<Home>,
    ordinal: u16,
) -> Outcome<[Line; 2]> {
    let (mut ready, mut offered) = (Vec::new(), Vec::new());
    for _ in 0..session.rounds.min(3) {
        let home = home()?;
        let began = Instant::now();
        let served = home.serve()?;
        let (serving, offer) = runtime()?.block_on(times(&home, &served, ordinal, began))?;
        ready.push(serving);
        offered.push(offer);
    }
    Ok([
        Line::new(format!("{what}: serving"), "ms", ready).at_most(goal),
        Line::new(format!("{what}: first offer"), "ms", offered),
    ])
}

/// Milliseconds until the program says that it is ready, and until a worker has its run.
async fn times(home: &Home, served: &Served, ordinal: u16, began: Instant) -> Outcome<(f64, f64)> {
    let serving = async {
        let mut connection = Connection::open(served.operators).await?;
        let question = question("/readyz");
        patiently(&mut connection, || Ok(question.clone())).await?;
        Ok::<_, Box<dyn std::error::Error>>(millis_since(began))
    };
    let offered = async {
        let mut worker = Worker::new(&home.master, ordinal, home.slots)?;
        let mut connection = Connection::open(served.address).await?;
        let poll = || Ok(request("/v2/poll", &worker.poll(30)?));
        let reply = patiently(&mut connection, poll).await?;
        worker.take(&reply)?;
        Ok::<_, Box<dyn std::error::Error>>(millis_since(began))
    };
    let (serving, offered) = tokio::join!(serving, offered);
    Ok((serving?, offered?))
}

/// Asks again, like any client, for as long as the program cannot answer yet.
async fn patiently(
    connection: &mut Connection,
    request: impl Fn() -> Outcome<Vec<u8>>,
) -> Outcome<Vec<u8>> {
    loop {
        match connection.send(&request()?).await {
            Err(refused) if refused.to_string().starts_with("HTTP/1.1 503 ") => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            reply => return reply,
        }
    }
}
