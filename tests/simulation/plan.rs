//! Histories as plain lists of steps. A step means something in every situation, so that any of them can be left out.

use fastrand::Rng;

use super::boards::{Meddling, Trouble};

/// What goes wrong with the store's next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFault {
    /// The whole group is lost before it is begun, with its answers.
    GroupLost,
    /// One member of it is.
    MemberLost,
    /// No file takes a single byte: the group is lost at its first write.
    Unwritable,
    /// Files take a little more, and then nothing: the group is lost somewhere in its commit.
    Full(u8),
    /// Another process holds the file.
    Locked,
    /// It is committed, and the writer goes down before anybody is answered.
    Unanswered,
    /// The writer goes down before the commit.
    Down,
}

/// What the worker of a slot does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Polls, or beats.
    GoOn,
    /// Sends its last message once more.
    Repeat,
    /// Submits, in one of several ways.
    Submit(u8),
    /// Dies. A process that was thought dead may live on beside the next one.
    Die { lives_on: bool },
    /// Submits for a run that it, or the process before it, has held.
    SubmitLate(u8),
    /// Beats for such a run.
    BeatLate(u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// One piece of the coordinator's waiting work, whichever this number hits.
    Work(u8),
    /// So many pieces, one after the other.
    Run(u8),
    /// Of the packets under way, this one arrives.
    Deliver(u8),
    Duplicate(u8),
    Lose(u8),
    Worker(u8, Act),
    Pass(f64),
    /// The clock is set by so many seconds, and no time passes.
    SetClock(f64),
    /// The coordinator dies.
    Crash,
    /// Whoever passes this point of a run's life next panics.
    Panic(u8),
    /// This actor panics at its next message.
    PanicIn(u8),
    Store(StoreFault),
    Board(u8, Trouble),
    Meddle(u8, Meddling),
    /// Hermes looks after its board.
    Hermes(u8),
    /// The coordinator looks whether a board has changed.
    Look(u8),
}

/// One history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) slots: u16,
    pub(crate) boards: u8,
    pub(crate) steps: Vec<Step>,
}

/// How likely it is that something goes wrong; one history in four is peaceful.
struct Mood {
    faults: u32,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mood = Mood {
            faults: [0, 6, 14, 30][rng.usize(..4)],
        };
        let slots = rng.u16(1..=3);
        let boards = rng.u8(1..=3);
        let length = rng.usize(30..160);
        let mut steps = Vec::with_capacity(length + 6);
        for _ in 0..rng.u8(1..=5) {
            steps.push(Step::Meddle(rng.u8(..), add_task(&mut rng)));
        }
        for slot in 0..slots {
            steps.push(Step::Worker(slot as u8, Act::GoOn));
        }
        steps.extend((0..length).map(|_| step(&mut rng, &mood)));
        Self {
            seed,
            slots,
            boards,
            steps,
        }
    }
}

fn add_task(rng: &mut Rng) -> Meddling {
    Meddling::AddTask {
        unfit: rng.u8(..12) == 0,
        limited: rng.u8(..5) == 0,
    }
}

fn step(rng: &mut Rng, mood: &Mood) -> Step {
    if rng.u32(..100) < mood.faults {
        return fault(rng);
    }
    match rng.u8(..100) {
        0..=29 => Step::Run(rng.u8(1..12)),
        30..=44 => Step::Work(rng.u8(..)),
        45..=64 => Step::Deliver(rng.u8(..)),
        65..=84 => Step::Worker(rng.u8(..), act(rng)),
        85..=92 => Step::Pass(pause(rng)),
        93..=95 => Step::Look(rng.u8(..)),
        96..=97 => Step::Hermes(rng.u8(..)),
        _ => Step::Meddle(rng.u8(..), add_task(rng)),
    }
}

fn act(rng: &mut Rng) -> Act {
    match rng.u8(..20) {
        0..=9 => Act::GoOn,
        10..=11 => Act::Repeat,
        12..=16 => Act::Submit(rng.u8(..)),
        17 => Act::Die {
            lives_on: rng.bool(),
        },
        18 => Act::SubmitLate(rng.u8(..)),
        _ => Act::BeatLate(rng.u8(..)),
    }
}

fn pause(rng: &mut Rng) -> f64 {
    let seconds = [0.2, 1.0, 5.0, 11.0, 31.0, 61.0, 91.0, 130.0, 301.0, 800.0];
    let nth = rng.usize(..seconds.len()).min(rng.usize(..seconds.len()));
    seconds[nth]
}

fn fault(rng: &mut Rng) -> Step {
    let board = rng.u8(..);
    match rng.u8(..20) {
        0..=1 => Step::Crash,
        2 => Step::Panic(rng.u8(..)),
        3 => Step::PanicIn(rng.u8(..)),
        4..=6 => Step::Store(store_fault(rng)),
        7 => Step::SetClock([-20.0, -4.0, 4.0, 61.0, 400.0, 1000.0][rng.usize(..6)]),
        8..=11 => Step::Board(
            board,
            match rng.u8(..7) {
                0 => Trouble::Unreadable,
                1..=2 => Trouble::FailsIn(rng.u8(..6)),
                3..=4 => Trouble::AnswerLost,
                _ => Trouble::Mended,
            },
        ),
        12..=13 => Step::Duplicate(rng.u8(..)),
        14..=15 => Step::Lose(rng.u8(..)),
        _ => Step::Meddle(board, meddling(rng)),
    }
}

fn store_fault(rng: &mut Rng) -> StoreFault {
    match rng.u8(..7) {
        0 => StoreFault::GroupLost,
        1 => StoreFault::MemberLost,
        2 => StoreFault::Unwritable,
        3 => StoreFault::Full(rng.u8(..4)),
        4 => StoreFault::Locked,
        5 => StoreFault::Unanswered,
        _ => StoreFault::Down,
    }
}

fn meddling(rng: &mut Rng) -> Meddling {
    match rng.u8(..20) {
        0..=2 => Meddling::TakeAway(rng.u8(..)),
        3 => Meddling::Steal(rng.u8(..)),
        4 => Meddling::Edit(rng.u8(..)),
        5..=7 => Meddling::Finish(rng.u8(..)),
        8..=9 => Meddling::Delete(rng.u8(..)),
        10 => Meddling::Archive,
        11 => Meddling::Unarchive,
        12 => Meddling::Remove,
        13 => Meddling::Replace,
        14 => Meddling::Copy,
        15 => Meddling::Restore,
        16 => Meddling::Unmount,
        _ => Meddling::Mount,
    }
}
