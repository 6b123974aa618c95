//! Histories of pool, boards and workers, each from a seed, in which everything that can go wrong does.
//!
//! The coordinator is the real one: every actor, the store on a real file, the protocol. It runs on one thread with an
//! engine that is moved by hand (`Engine::by_hand`), so that the plan decides which commit, visit, message or death comes
//! next, and a plan leads to the same history every time. Boards are models behind the port; so are the workers. After
//! every piece of work the invariants are judged ([`invariants`]); a plan that breaks one is shrunk and printed.
//!
//! | variable | meaning |
//! |---|---|
//! | `POOL_SIMULATION_SEED` | tells this one history in full |
//! | `POOL_SIMULATION_SECONDS` | how long the ignored test goes on (600) |

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod boards;
mod history;
mod invariants;
mod plan;
mod shrink;
mod workers;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use history::{Template, run, template};
use plan::Plan;

/// The lane of every simulated task.
const LANE: &str = "codex-cli";
/// How many seeds the ordinary run goes through, from 0: always the same, so that it says of a change whether it broke
/// something, and not whether luck did. Fresh seeds are for the run that looks for what nobody knows yet.
const FIXED: u64 = 400;

/// A full disk is the whole process' matter, so there is one history at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn chosen(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}

/// Goes through seeds for as long as there is time, or all of them.
fn go_through(seeds: impl Iterator<Item = u64>, time: Duration) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let template = template();
    let began = Instant::now();
    if let Some(seed) = chosen("POOL_SIMULATION_SEED") {
        return tell(&Plan::of(seed), &template);
    }
    let mut count = 0;
    for seed in seeds {
        if began.elapsed() >= time {
            break;
        }
        count += 1;
        let plan = Plan::of(seed);
        if let Some(violation) = run(&plan, &template).violation {
            report(&plan, &violation, count, &template);
        }
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!(
        "{count} histories, {:.0} a minute",
        f64::from(count) / minutes
    );
}

/// One history in full.
fn tell(plan: &Plan, template: &Template) {
    let outcome = run(plan, template);
    println!("{}", outcome.trace);
    if let Some(violation) = outcome.violation {
        report(plan, &violation, 1, template);
    }
}

fn report(plan: &Plan, violation: &str, count: u32, template: &Template) -> ! {
    let least = shrink::shrink(plan, |shorter| run(shorter, template).violation.is_some());
    let outcome = run(&least, template);
    panic!(
        "seed {} (history {count}) breaks an invariant:\n{violation}\n\nthe shortest history that does:\n{:?}\n\n{}\n{}\n\
         again: POOL_SIMULATION_SEED={} cargo test --test simulation",
        plan.seed,
        least,
        outcome.trace,
        outcome.violation.unwrap_or_default(),
        plan.seed,
    );
}

#[test]
fn no_history_of_the_fixed_seeds_breaks_an_invariant() {
    go_through(0..FIXED, Duration::MAX);
}

#[test]
#[ignore = "goes on for as long as POOL_SIMULATION_SECONDS says"]
fn no_history_breaks_an_invariant() {
    let seconds = chosen("POOL_SIMULATION_SECONDS").unwrap_or(600);
    let fresh = fastrand::Rng::new().u64(FIXED..u64::MAX / 2);
    println!("seeds from {fresh}");
    go_through(fresh.., Duration::from_secs(seconds));
}

#[test]
fn a_seed_tells_the_same_history_every_time() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let template = template();
    for seed in 0..20 {
        let plan = Plan::of(seed);
        let (first, second) = (run(&plan, &template), run(&plan, &template));
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}
