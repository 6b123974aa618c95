//! Every place that the door knows ([`Work::all`]) breaks once and always, on a board or slot beside sound ones.
//!
//! Each test goes through a whole kind of work, so that what was added since is broken too. Meanwhile the sound board's
//! tasks are done, and its worker's heartbeats are answered as fast as those of another pool in which nothing is broken;
//! nothing that was acknowledged is lost; and whatever was broken ends as it should once it is mended.

mod scene;

use std::collections::BTreeMap;

use hermes_pool::board::hermes::NewTask;
use hermes_pool::domain::{BoardSlug, TaskId};
use hermes_pool::faults::{Fault, FaultPoint, Work};

use crate::support::{Job, Stage};
use scene::Scene;

/// Tasks of the sound board that are done while the other is broken.
const SOUND: usize = 3;
/// Heartbeats that are timed beside what always breaks, so many that chance does not decide.
const TIMED: usize = 30;
/// What is tried more often than this in a second, by all that try it, is tried in a hot loop.
const OFTEN: u64 = 10;
/// How often what always breaks is reached.
const REACHED: u64 = 2;

/// What makes board `a` come to a place.
#[derive(Clone, Copy, PartialEq)]
enum Story {
    /// A task is done.
    Ordinary,
    /// A task takes a while.
    Held,
    /// A claim is cut off before its assignment came to be.
    LeftBehind,
    /// A task cannot be offered.
    TooLarge,
    /// So, and parking it was cut off.
    TooLargeLeft,
    /// A worker falls silent on each attempt.
    Silent,
    /// A worker meets a quota first.
    Quota,
    /// A run takes longer than its task may.
    Overtime,
    /// The board cannot be written to for longer than its claims live.
    Locked,
    /// The row of a run that is held cannot be understood for longer than its lease.
    Spoilt,
    /// The store's file is taken away for a while.
    StoreGone,
    /// The StoreActor goes down.
    StoreDown,
}

/// How each place is reached. A place that is not named here is broken by no test, which is a failure.
fn story_of(work: Work, what: &str) -> Story {
    match (work, what) {
        (Work::Round, "upkeep-store" | "upkeep-boards") => Story::StoreDown,
        (Work::Step | Work::Visit, "watch") => Story::Held,
        (Work::Step, "drain") | (Work::Operation, "Expire") => Story::Silent,
        (Work::Step, "intents")
        | (Work::Visit, "resolve the claim")
        | (Work::Operation, "IsIntended") => Story::LeftBehind,
        (Work::Visit, "park") | (Work::Operation, "DropIntent") => Story::TooLarge,
        (Work::Visit, "give the claim back") => Story::TooLargeLeft,
        (Work::Operation, "SetNotBefore") => Story::Quota,
        (Work::Operation, "PastLimit") => Story::Overtime,
        (Work::Operation, "Unconfirmed") => Story::Locked,
        (Work::Operation, "LetGo") => Story::Spoilt,
        (Work::Operation, "Probe") => Story::StoreGone,
        (Work::Message, "ordinal" | "roster" | "boards" | "reconciler" | "dispatcher")
        | (Work::Round, "upkeep-key")
        | (Work::Step, "settle" | "strangers")
        | (
            Work::Visit,
            "look for work"
            | "make the claim"
            | "read the task"
            | "settle"
            | "look for unknown claims",
        )
        | (
            Work::Operation,
            "RecordIntent" | "AddAssignment" | "Offer" | "Heartbeat" | "SubmitResult" | "LiveOf"
            | "NoteConfirmed" | "NoteBoardHeartbeat" | "End" | "CollectEnded" | "CollectDeliveries",
        )
        | (Work::Group, "store") => Story::Ordinary,
        unknown => panic!("{unknown:?} is broken by no test"),
    }
}

/// One place, as board `a` and slot 0 come to it.
struct Place {
    work: Work,
    what: &'static str,
    name: String,
    fault: Fault,
}

impl Place {
    fn all(work: Work, fault: Fault) -> impl Iterator<Item = Self> {
        work.all().iter().map(move |what| {
            let name = match (work, *what) {
                (Work::Step | Work::Visit, what) => format!("a/{what}"),
                (Work::Message, "ordinal") => "ordinal-0".to_owned(),
                (Work::Message, "reconciler" | "dispatcher") => format!("{what}-a"),
                (_, what) => what.to_owned(),
            };
            Self {
                work,
                what,
                name,
                fault,
            }
        })
    }

    fn story(&self) -> Story {
        story_of(self.work, self.what)
    }

    /// Whether the actor or task goes down with it, rather than the one piece of work.
    fn is_a_part(&self) -> bool {
        matches!(self.work, Work::Message | Work::Round | Work::Group)
    }

    /// Whether the sound board needs it too: then nothing is done there as long as it always breaks.
    fn is_everybodys(&self) -> bool {
        self.fault == Fault::PanicAlways
            && (matches!(self.work, Work::Operation | Work::Group)
                || matches!(self.what, "roster" | "upkeep-store" | "upkeep-boards"))
    }

    /// Whether there is no store as long as it is broken.
    fn keeps_the_store_down(&self) -> bool {
        self.work == Work::Group || self.what == "upkeep-store"
    }

    /// How often it is reached before it is mended.
    fn times(&self) -> u64 {
        let comes_but_once = self.what == "park";
        if self.fault == Fault::PanicOnce || comes_but_once {
            1
        } else {
            REACHED
        }
    }

    /// Whether heartbeats need it.
    fn is_the_stores(&self) -> bool {
        self.work == Work::Group
            || self.what == "Heartbeat"
            || matches!(self.story(), Story::StoreGone | Story::StoreDown)
    }
}

/// The task of board `a` that makes it come to the place, and how it ends.
fn tell(stage: &Stage, story: Story, a: &BoardSlug) -> (TaskId, &'static str) {
    let mut task = NewTask::default();
    let (title, end) = match story {
        Story::TooLarge | Story::TooLargeLeft => ("ü".repeat(30_000), "blocked"),
        Story::Silent => ("silent".to_owned(), "blocked"),
        Story::Quota => ("quota".to_owned(), "done"),
        Story::Held | Story::Locked | Story::Spoilt => ("held".to_owned(), "done"),
        Story::Overtime => {
            task.max_runtime_seconds = Some(30);
            ("overtime".to_owned(), "done")
        }
        _ => ("a task".to_owned(), "done"),
    };
    task.title = title;
    match story {
        Story::LeftBehind => stage.faults.arm(FaultPoint::RunClaimed, Fault::PanicOnce),
        Story::TooLargeLeft => stage
            .faults
            .arm_work(Work::Visit, "a/park", Fault::PanicOnce),
        Story::StoreDown => stage
            .faults
            .arm_work(Work::Group, "store", Fault::PanicOnce),
        _ => {}
    }
    (stage.add(a, task), end)
}

/// How often everything but the one part was built anew; and the part.
async fn restarts(scene: &Scene<'_>) -> BTreeMap<String, u64> {
    let snapshot = scene.pool.snapshot().await;
    let slots = snapshot.slots.iter();
    let slots = slots.map(|slot| (format!("ordinal-{}", slot.ordinal), slot.restarts));
    let boards = snapshot.boards.iter();
    let boards = boards.map(|board| (format!("board {}", board.slug), board.restarts));
    let pool = [("pool".to_owned(), snapshot.pool.restarts)];
    slots.chain(boards).chain(pool).collect()
}

/// Where the restarts of a part are shown.
fn shown_at(name: &str) -> String {
    match name.split_once('-') {
        Some(("ordinal", _)) => name.to_owned(),
        Some(("reconciler" | "dispatcher", board)) => format!("board {board}"),
        _ => "pool".to_owned(),
    }
}

/// Breaks a place beside a sound board, and sees all of it through.
async fn break_and_mend(place: &Place) {
    let (stage, other) = (Stage::impatient(3), Stage::impatient(3));
    let (story, name) = (place.story(), &place.name);
    let mut scene = Scene::start(&stage, story).await;
    let mut twin = Scene::start(&other, story).await;
    twin.is_enough = true;
    other.task(&twin.a, "a task");
    for n in 0..SOUND {
        other.task(&twin.b, &format!("t{n}"));
    }
    stage.faults.arm_work(place.work, name, place.fault);
    let (a, b) = (scene.a.clone(), scene.b.clone());
    let (task, end) = tell(&stage, story, &a);
    scene.twin = Some(Box::new(twin));
    let helpers = u64::from(matches!(
        story,
        Story::LeftBehind | Story::TooLargeLeft | Story::StoreDown
    ));
    let helped = |scene: &mut Scene<'_>| scene.stage.faults.stopped() >= helpers;
    scene.until("the way there is prepared", helped).await;
    let sound: Vec<_> = (0..SOUND)
        .map(|n| stage.task(&b, &format!("t{n}")))
        .collect();
    let store = stage.settings.state_dir.join("assignments.db");
    let aside = stage.settings.state_dir.join("aside");
    let lock = stage.sql(&a);
    let rows = rusqlite::Connection::open(&store).unwrap();
    if matches!(story, Story::Locked | Story::Spoilt) {
        let of_a = |job: &Job| job.binding.board == "a";
        let is_held = |scene: &mut Scene<'_>| scene.held.values().any(of_a);
        scene.until("it is held", is_held).await;
    }
    match story {
        Story::Locked => lock.execute_batch("BEGIN EXCLUSIVE").unwrap(),
        Story::Spoilt => set_lease(&rows, "'spoilt'"),
        Story::StoreGone => std::fs::rename(&store, &aside).unwrap(),
        _ => {}
    }
    let wanted = helpers + place.times();
    let reached = |scene: &mut Scene<'_>| scene.stage.faults.stopped() >= wanted;
    scene.until(&format!("{name} is reached"), reached).await;
    scene.is_enough = true;
    match story {
        Story::Locked => lock.execute_batch("ROLLBACK").unwrap(),
        Story::Spoilt => set_lease(&rows, "0"),
        Story::StoreGone => std::fs::rename(&aside, &store).unwrap(),
        _ => {}
    }
    if !place.is_everybodys() {
        let what = format!("{name}: the sound board goes on");
        scene.until(&what, |scene| scene.done(&b, &sound)).await;
    }
    if place.fault == Fault::PanicAlways {
        judge_latency(place, &mut scene).await;
        // Operators are answered, whatever is broken.
        scene.pool.snapshot().await;
        let is_down = place.keeps_the_store_down();
        let as_expected = |scene: &mut Scene<'_>| scene.pool.pool.reasons().is_empty() != is_down;
        let what = format!("{name}: the pool is ready unless its store is down");
        scene.until(&what, as_expected).await;
        stage.faults.disarm();
    }
    let ended = |scene: &mut Scene<'_>| {
        scene.done(&b, &sound) && scene.done(&a, std::slice::from_ref(&task))
    };
    scene.until(&format!("{name}: all of it ends"), ended).await;
    assert_eq!(stage.status(&a, &task), end, "{name}");
    judge_restarts(place, &scene, helpers).await;
    // A claim whose assignment broke may be given back, where no slot is free.
    if place.work != Work::Operation && !place.is_everybodys() {
        let runs = sound.iter().map(|task| stage.runs(&b, task).len());
        assert!(
            runs.into_iter().all(|count| count == 1),
            "{name}: no run is lost"
        );
    }
    for job in &scene.acknowledged {
        let task = TaskId::parse(&job.binding.task_id).unwrap();
        let board = BoardSlug::parse(&job.binding.board).unwrap();
        let runs = stage.runs(&board, &task);
        let run = runs
            .iter()
            .find(|run| run.id.to_string() == job.binding.run_id);
        let outcome = run.map(|run| run.outcome.as_str());
        let expected = [Some("completed"), Some("rate_limited")];
        assert!(
            expected.contains(&outcome),
            "{name}: acknowledged, {runs:?}"
        );
    }
}

/// Writes into the rows of board `a` when their lease ends.
fn set_lease(rows: &rusqlite::Connection, value: &str) {
    rows.execute_batch(&format!(
        "UPDATE assignments SET lease_until={value} WHERE board='a'"
    ))
    .unwrap();
}

/// The heartbeats of the pool in which something is broken are within the noise of its twin's.
async fn judge_latency(place: &Place, scene: &mut Scene<'_>) {
    if place.is_the_stores() {
        return;
    }
    let (before, mut turns) = (scene.stage.faults.stopped(), 0);
    while scene.beats.len() < TIMED {
        scene.turn().await;
        turns += 1;
    }
    let (name, stopped) = (&place.name, scene.stage.faults.stopped() - before);
    assert!(
        stopped <= OFTEN * turns,
        "{name}: {stopped} times in {turns} s"
    );
    let mut noise = std::mem::take(&mut scene.twin.as_mut().unwrap().beats);
    scene.beats.sort_unstable();
    noise.sort_unstable();
    let (median, slowest) = (scene.beats[scene.beats.len() / 2], noise[noise.len() - 1]);
    assert!(
        median <= slowest,
        "{name}: the median {median:?} is beyond the noise up to {slowest:?}"
    );
}

/// Only the part that broke was built anew, and that is counted.
async fn judge_restarts(place: &Place, scene: &Scene<'_>, helpers: u64) {
    let mut all = restarts(scene).await;
    let name = &place.name;
    // The claim is cut off by a Dispatcher that goes down, and the StoreActor goes down for the sake of the tasks that
    // look after it.
    let helped = match place.story() {
        Story::LeftBehind => Some("board a"),
        Story::StoreDown => Some("pool"),
        _ => None,
    };
    if let Some(helped) = helped {
        *all.get_mut(helped).unwrap() -= helpers;
    }
    if place.is_a_part() {
        let own = all.remove(&shown_at(name)).unwrap();
        let is_right = match place.fault {
            Fault::PanicOnce => own == 1,
            _ => own >= REACHED,
        };
        assert!(is_right, "{name}: {own} restarts");
        let gauges = scene.pool.pool.gauges().await;
        let metrics = scene.pool.pool.metrics().render(&gauges).unwrap();
        let kind = name.split('-').next().unwrap();
        let counted = format!("hermes_pool_actor_restarts_total{{actor=\"{kind}\"}} {own}\n");
        assert!(metrics.contains(&counted), "{name}: {own}, {metrics}");
    }
    assert!(all.values().all(|count| *count == 0), "{name}: {all:?}");
}

macro_rules! kinds {
    ($($name:ident: $work:expr, $fault:expr;)*) => {$(
        #[actix::test]
        async fn $name() {
            for place in Place::all($work, $fault) {
                break_and_mend(&place).await;
            }
        }
    )*};
}

kinds! {
    an_actor_that_breaks_once_is_built_anew_and_stops_nobody_else: Work::Message, Fault::PanicOnce;
    an_actor_that_always_breaks_stops_nobody_else_and_goes_on_when_mended: Work::Message, Fault::PanicAlways;
    a_task_of_the_upkeep_that_breaks_once_is_begun_again: Work::Round, Fault::PanicOnce;
    a_task_of_the_upkeep_that_always_breaks_goes_on_when_mended: Work::Round, Fault::PanicAlways;
    a_step_that_breaks_once_puts_off_its_own_row: Work::Step, Fault::PanicOnce;
    a_step_that_always_breaks_puts_off_its_own_rows_and_nothing_else: Work::Step, Fault::PanicAlways;
    a_visit_that_breaks_once_puts_off_what_it_was_for: Work::Visit, Fault::PanicOnce;
    a_visit_that_always_breaks_puts_off_what_it_was_for_and_nothing_else: Work::Visit, Fault::PanicAlways;
    a_store_operation_that_breaks_once_fails_alone: Work::Operation, Fault::PanicOnce;
    a_store_operation_that_always_breaks_fails_alone_and_is_never_acknowledged: Work::Operation, Fault::PanicAlways;
    the_store_actor_that_breaks_once_is_built_anew: Work::Group, Fault::PanicOnce;
    the_store_actor_that_always_breaks_goes_on_when_mended: Work::Group, Fault::PanicAlways;
}

#[test]
fn every_kind_of_work_is_broken_once_and_always() {
    let source = include_str!("mod.rs");
    for kind in Work::KINDS {
        for fault in ["PanicOnce", "PanicAlways"] {
            let line = format!("Work::{kind:?}, Fault::{fault};");
            assert!(source.contains(&line), "{line}");
        }
        for what in kind.all() {
            story_of(*kind, what);
        }
    }
}
