//! Processor time of a program in which nothing happens, as a part of one core.
//!
//! Goal: under 1 % with 3 slots whose workers wait in long polls. With 10,000 live leases, of which the board has to be told
//! from time to time, it is reported.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::starting::crowded;
use crate::support::connection::{Connection, request};
use crate::support::figures::{Session, cpu_seconds};
use crate::support::served::{Home, Served};
use crate::support::table::Line;
use crate::support::worker::Worker;
use crate::support::{Outcome, runtime};

/// Slots of the idle pool.
const SLOTS: u16 = 3;
/// From the start until it counts as idle.
const SETTLING: Duration = Duration::from_secs(2);

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let seconds = Duration::from_secs(session.choose(20, 3));
    let home = Home::new(SLOTS, 0)?;
    let served = home.serve()?;
    let waiting = || async {
        let polls = (0..SLOTS).map(|ordinal| wait(&home, served.address, ordinal));
        futures_util::future::join_all(polls).await;
    };
    let idle = runtime()?.block_on(used(&served, seconds, waiting()))?;
    drop(served);
    let crowd = crowded()?;
    let served = crowd.serve()?;
    let crowded = runtime()?.block_on(used(&served, seconds, std::future::pending()))?;
    Ok(vec![
        Line::new("slots 3, workers waiting", "%", vec![idle]).at_most(1.0),
        Line::new("slots 10,000, each with a live lease", "%", vec![crowded]),
    ])
}

/// A worker that asks for work again and again.
async fn wait(home: &Home, address: SocketAddr, ordinal: u16) -> Outcome<()> {
    let worker = Worker::new(&home.master, ordinal, home.slots)?;
    let mut connection = Connection::open(address).await?;
    loop {
        connection
            .send(&request("/v2/poll", &worker.poll(30)?))
            .await?;
    }
}

/// The part of one core that the program uses, in per cent, while `others` go on.
async fn used(
    served: &Served,
    duration: Duration,
    others: impl Future<Output = ()>,
) -> Outcome<f64> {
    let measured = async {
        tokio::time::sleep(SETTLING).await;
        let (began, before) = (Instant::now(), cpu_seconds(&served.process())?);
        tokio::time::sleep(duration).await;
        let used = cpu_seconds(&served.process())? - before;
        Ok(used / began.elapsed().as_secs_f64() * 1e2)
    };
    tokio::select! {
        measured = measured => measured,
        () = others => Err("the workers of an idle pool were refused".into()),
    }
}
