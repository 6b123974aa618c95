//! Histories of pool, boards and workers, each from a seed, in which everything that can go wrong does.
//!
//! The coordinator is the real one: every actor, the store on a real file, the protocol. It runs on one thread with an
//! engine that is moved by hand (`Engine::by_hand`), so that the plan decides which commit, visit, message or death comes
//! next, and a plan leads to the same history every time. Boards are models behind the port; so are the workers. After
//! every piece of work the invariants are judged ([`invariants`]); a plan that breaks one is shrunk and printed.
//!
//! | where | what |
//! |---|---|
//! | [`plan`] | histories as lists of steps, made from seeds |
//! | [`history`], [`steps`] | tell one |
//! | [`boards`], [`workers`], [`storage`] | what the coordinator meets in it |
//! | [`invariants`] | what must hold after every piece of work |
//! | [`coverage`] | what really happened |
//! | [`shrink`], [`regressions`] | histories that broke an invariant: while they do, and once they no longer do |
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
mod coverage;
mod history;
mod invariants;
mod plan;
mod regressions;
mod shrink;
mod steps;
mod storage;
mod workers;

use std::panic::PanicHookInfo;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coverage::{Counts, Event, saw};
use history::run;
use plan::Plan;
use storage::Template;

/// The lane of every simulated task.
const LANE: &str = "codex-cli";
/// How many seeds the ordinary run goes through, from 0: always the same, so that it says of a change whether it broke
/// something, and not whether luck did. Fresh seeds are for the run that looks for what nobody knows yet.
const FIXED: u64 = 2500;

/// What all histories share. The limit on files is the whole process' matter, so there is one history at a time.
static STAGE: LazyLock<Mutex<Template>> = LazyLock::new(|| {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_planned(panic) {
            others(panic);
        }
    }));
    Mutex::new(Template::new())
});

/// Whether a plan asked for this panic, which then is no news, but counts.
fn is_planned(panic: &PanicHookInfo<'_>) -> bool {
    let text = panic.payload_as_str().unwrap_or_default();
    if text.starts_with("test door at Message") {
        saw(Event::ActorPanicked);
    } else if text.starts_with("test door") {
        saw(Event::StepPanicked);
    }
    text.starts_with("test door")
}

/// Tells histories one after the other, on a stage of their own.
fn on_stage<R>(tell: impl FnOnce(&Template) -> R) -> R {
    tell(&STAGE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn chosen(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}

/// What became of many histories.
struct Told {
    counts: Counts,
    /// What was found, for people; the first history that breaks an invariant is the last one told.
    broken: Option<String>,
}

/// Goes through seeds for as long as there is time, or all of them.
fn go_through(seeds: impl Iterator<Item = u64>, time: Duration) -> Told {
    on_stage(|template| {
        let began = Instant::now();
        let mut told = Told {
            counts: Counts::NONE,
            broken: None,
        };
        let mut histories = 0_u32;
        for seed in seeds.take_while(|_| began.elapsed() < time) {
            let plan = Plan::of(seed);
            let outcome = run(&plan, template);
            histories += 1;
            told.counts.add(&outcome.counts);
            if let Some(violation) = outcome.violation {
                told.broken = Some(report(&plan, &violation, histories, template));
                break;
            }
        }
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        println!(
            "{histories} histories, {:.0} a minute\n{}",
            f64::from(histories) / minutes,
            told.counts.table()
        );
        told
    })
}

fn report(plan: &Plan, violation: &str, histories: u32, template: &Template) -> String {
    let least = shrink::shrink(plan, |shorter| run(shorter, template).violation.is_some());
    let outcome = run(&least, template);
    format!(
        "seed {seed} (history {histories}) breaks an invariant:\n{violation}\n\n\
         the shortest history that does has {steps} of {all} steps:\n{least:?}\n\n{trace}\n{end}\n\
         again: POOL_SIMULATION_SEED={seed} cargo test --test simulation",
        seed = plan.seed,
        steps = least.steps.len(),
        all = plan.steps.len(),
        trace = outcome.trace,
        end = outcome.violation.unwrap_or_default(),
    )
}

/// The histories of the fixed seeds, told once for all tests that ask about them.
static FIXED_SEEDS: LazyLock<Told> = LazyLock::new(|| go_through(0..FIXED, Duration::MAX));

#[test]
fn no_history_of_the_fixed_seeds_breaks_an_invariant() {
    if let Some(seed) = chosen("POOL_SIMULATION_SEED") {
        return tell_in_full(seed);
    }
    if let Some(broken) = &FIXED_SEEDS.broken {
        panic!("{broken}");
    }
}

#[test]
fn everything_that_can_go_wrong_does_so_in_the_histories_of_the_fixed_seeds() {
    if chosen("POOL_SIMULATION_SEED").is_some() {
        return;
    }
    let absent = FIXED_SEEDS.counts.absent();
    assert!(absent.is_empty(), "never happened: {absent:?}");
}

#[test]
fn no_history_that_once_broke_an_invariant_does_so_again() {
    on_stage(|template| {
        for (name, plan) in regressions::all() {
            if let Some(violation) = run(&plan, template).violation {
                panic!("{name}: {}", report(&plan, &violation, 1, template));
            }
        }
    });
}

#[test]
#[ignore = "goes on for as long as POOL_SIMULATION_SECONDS says"]
fn no_history_breaks_an_invariant() {
    let seconds = chosen("POOL_SIMULATION_SECONDS").unwrap_or(600);
    let fresh = fastrand::Rng::new().u64(FIXED..u64::MAX / 2);
    println!("seeds from {fresh}");
    if let Some(broken) = go_through(fresh.., Duration::from_secs(seconds)).broken {
        panic!("{broken}");
    }
}

#[test]
fn a_seed_tells_the_same_history_every_time() {
    on_stage(|template| {
        for seed in 0..20 {
            let plan = Plan::of(seed);
            let (first, second) = (run(&plan, template), run(&plan, template));
            assert_eq!(first.trace, second.trace, "seed {seed}");
        }
    });
}

/// One history in full.
fn tell_in_full(seed: u64) {
    on_stage(|template| {
        let plan = Plan::of(seed);
        let outcome = run(&plan, template);
        println!("{}", outcome.trace);
        if let Some(violation) = outcome.violation {
            panic!("{}", report(&plan, &violation, 1, template));
        }
    });
}
