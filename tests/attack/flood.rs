//! Somebody sends as much as he can. The others, on connections that they keep, notice little of it.
//!
//! Latency is compared within one run, round by round: quiet, then flooded, so that whatever else the machine does falls on
//! both. The median of the rounds' ratios is judged. The flood's own senders share the processors with what is measured.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::message::{Message, Signed};
use crate::peer::{Peer, Target};
use crate::process::now;
use crate::wire::{Wire, post};

/// The ordinal whose worker has gone bad. All above it are honest.
const FLOODER: u16 = 0;
const HONEST: [u16; 3] = [1, 2, 3];
/// Connections of the flood; more than one ordinal may have requests in flight.
const FLOOD_CONNECTIONS: usize = 96;
/// Rounds of quiet and flood.
const ROUNDS: usize = 7;
/// Heartbeats of each honest worker in half a round, and the pause between two.
const BEATS: usize = 80;
const PAUSE: Duration = Duration::from_millis(5);
/// How many times their quiet p99 the others may need.
const WORST_RATIO: f64 = 3.0;
/// How many a second are turned away, however fast they come again: each connection waits a tenth of a second at least, but
/// for the errors that are answered at once.
const MOST_A_SECOND: f64 = 10.0 * FLOOD_CONNECTIONS as f64 + 200.0;
const AT_ONCE: f64 = 100.0 + FLOOD_CONNECTIONS as f64;
/// What all floods together may cost in memory, KiB.
const GROWTH_LIMIT_KIB: u64 = 32 * 1024;

/// What became of the flood's requests.
#[derive(Default)]
struct Flood {
    stop: AtomicBool,
    answered: AtomicUsize,
    forged: AtomicUsize,
    refused: AtomicUsize,
}

impl Flood {
    /// Keeps one request in flight on a connection until it is told to stop, whatever the answers say.
    fn run(&self, workers: SocketAddr, request: &[u8]) {
        let mut wire = Wire::open(workers);
        while !self.stop.load(Ordering::Relaxed) {
            wire.send(request);
            let Ok(answer) = wire.answer() else {
                wire = Wire::open(workers);
                continue;
            };
            let count = match answer.status {
                200 => &self.answered,
                401 => &self.forged,
                503 => {
                    assert_eq!(answer.header("retry-after"), Some("1"));
                    &self.refused
                }
                other => panic!("{other}: {answer:?}"),
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends the flood, also where a test fails in the middle of it.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The heartbeats of all honest workers at once; how long each took.
fn beat(honest: &mut [(Peer, Signed)]) -> Vec<Duration> {
    let workers = honest.iter_mut();
    thread::scope(|scope| {
        let beating: Vec<_> = workers
            .map(|(peer, run)| {
                scope.spawn(move || {
                    let beats = (0..BEATS).map(|_| {
                        thread::park_timeout(PAUSE);
                        let request = peer.request("heartbeat", Some(run), "{}");
                        let (took, answer) = peer.ask(&request);
                        assert_eq!(answer.status, 200, "{answer:?}");
                        took
                    });
                    beats.collect::<Vec<_>>()
                })
            })
            .collect();
        let taken = beating.into_iter().flat_map(|one| one.join().unwrap());
        taken.collect()
    })
}

/// The duration that one in a hundred exceeds, in milliseconds.
fn p99_millis(mut taken: Vec<Duration>) -> f64 {
    taken.sort_unstable();
    taken[taken.len() * 99 / 100].as_secs_f64() * 1000.0
}

fn median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_unstable_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

#[test]
fn a_flood_from_one_ordinal_is_refused_and_hardly_noticed_by_the_others() {
    let _alone = crate::alone();
    let target = Target::start(&[("HERMES_POOL_POOL_SLOTS", "4")]);
    let mut flooder = target.peer(FLOODER);
    let run = target.run_of(&mut flooder);
    // The same authentic heartbeat, again and again.
    let request = flooder.request("heartbeat", Some(&run), "{}");
    let (flood, ratio) = flood(&target, &request, |flood| &flood.refused);
    assert!(ratio <= WORST_RATIO, "{ratio}");
    assert!(flood.answered.into_inner() > 0, "it is served as well");
    assert_eq!(flood.forged.into_inner(), 0);
}

#[test]
fn a_flood_in_the_name_of_an_ordinal_whose_key_it_has_not_takes_nothing_from_that_ordinal() {
    let _alone = crate::alone();
    let target = Target::start(&[("HERMES_POOL_POOL_SLOTS", "4")]);
    let stranger = "00".repeat(32);
    let forged = Message::new("poll", HONEST[0], now()).sealed(&stranger);
    let request = post("/v2/poll", &forged.body());
    let (flood, _) = flood(&target, &request, |flood| &flood.forged);
    assert_eq!(flood.answered.into_inner(), 0);
    assert_eq!(flood.refused.into_inner(), 0);
}

/// Floods and beats in turns, once `is_felt` shows that the flood is there; tells how many times their quiet p99 the others
/// needed, as the median of the rounds.
fn flood(target: &Target, request: &[u8], is_felt: fn(&Flood) -> &AtomicUsize) -> (Flood, f64) {
    let mut honest: Vec<(Peer, Signed)> = HONEST
        .map(|ordinal| {
            let mut peer = target.peer(ordinal);
            let run = target.run_of(&mut peer);
            (peer, run)
        })
        .into();
    beat(&mut honest);
    let (before, workers) = (target.resident_kib(), target.workers);
    let (mut ratios, mut all) = (Vec::new(), Flood::default());
    for _ in 0..ROUNDS {
        let quiet = p99_millis(beat(&mut honest));
        let (flood, began) = (Flood::default(), Instant::now());
        let flooded = thread::scope(|scope| {
            let _stop = StopOnDrop(&flood.stop);
            for _ in 0..FLOOD_CONNECTIONS {
                scope.spawn(|| flood.run(workers, request));
            }
            while is_felt(&flood).load(Ordering::Relaxed) < FLOOD_CONNECTIONS / 4 {
                assert!(began.elapsed() < crate::support::PATIENCE, "it is felt");
                thread::park_timeout(PAUSE);
            }
            p99_millis(beat(&mut honest))
        });
        let turned_away =
            flood.forged.load(Ordering::Relaxed) + flood.refused.load(Ordering::Relaxed);
        let most = AT_ONCE + began.elapsed().as_secs_f64() * MOST_A_SECOND;
        assert!(
            (turned_away as f64) < most,
            "{turned_away} were turned away"
        );
        *all.answered.get_mut() += flood.answered.into_inner();
        *all.forged.get_mut() += flood.forged.into_inner();
        *all.refused.get_mut() += flood.refused.into_inner();
        eprintln!("p99 of the others: {quiet:.1} ms quiet, {flooded:.1} ms flooded");
        ratios.push(flooded / quiet);
    }
    let (ratio, after) = (median(ratios), target.resident_kib());
    eprintln!(
        "median ratio {ratio:.2}; {:?} answered, {:?} forged, {:?} refused; resident {before} KiB before, {after} after",
        all.answered, all.forged, all.refused
    );
    assert!(
        after < before + GROWTH_LIMIT_KIB,
        "{before} KiB, {after} KiB"
    );
    (all, ratio)
}
