//! Histories that broke an invariant once, as short as they got. They are kept as plans: what a seed leads to changes
//! whenever histories learn something new.

use super::boards::Meddling;
use super::plan::{Act, Plan, Step};

/// Every such history, with what went wrong in it.
pub(crate) fn all() -> Vec<(&'static str, Plan)> {
    vec![
        (
            "a restored board that gave a run's number to a task which was then deleted",
            restored_and_deleted(),
        ),
        (
            "a clock that was set forward between two looks at a board that was gone",
            clock_set_between_two_looks(),
        ),
        (
            "a run that was fenced while it was found to be lost",
            fenced_while_lost(),
        ),
        (
            "a run that was finished by hand while its board was not to be found",
            finished_while_unmounted(),
        ),
        (
            "an older copy of a board that shows the claim of a run which has ended",
            older_copy_with_an_ended_run(),
        ),
    ]
}

const PLAIN_TASK: Meddling = Meddling::AddTask {
    unfit: false,
    limited: false,
};

/// The board proves at once that neither the old run nor its task is there: the pool need not look twice.
fn restored_and_deleted() -> Plan {
    Plan {
        seed: 4_344_586_842_013_926_921,
        slots: 3,
        boards: 2,
        steps: vec![
            Step::Worker(1, Act::GoOn),
            Step::Worker(161, Act::GoOn),
            Step::Deliver(182),
            Step::Meddle(206, PLAIN_TASK),
            Step::Run(10),
            Step::Deliver(179),
            Step::Run(5),
            Step::Meddle(66, Meddling::Restore),
            Step::Meddle(250, PLAIN_TASK),
            Step::Run(11),
            Step::Meddle(158, Meddling::Delete(154)),
        ],
    }
}

/// The pool believes that a board is gone a minute after it first saw that, and not when the clock says so.
fn clock_set_between_two_looks() -> Plan {
    Plan {
        seed: 442,
        slots: 1,
        boards: 1,
        steps: vec![
            Step::Meddle(197, PLAIN_TASK),
            Step::Worker(81, Act::GoOn),
            Step::Run(3),
            Step::Deliver(102),
            Step::Run(9),
            Step::Meddle(165, Meddling::Replace),
            Step::Run(6),
            Step::SetClock(400.0),
        ],
    }
}

/// The end does not fit the new attempt: that must not be taken for the run's end.
fn fenced_while_lost() -> Plan {
    Plan {
        seed: 18,
        slots: 3,
        boards: 3,
        steps: vec![
            Step::Meddle(185, PLAIN_TASK),
            Step::Worker(2, Act::GoOn),
            Step::Run(11),
            Step::Deliver(100),
            Step::Work(82),
            Step::Run(10),
            Step::Meddle(59, Meddling::Steal(60)),
            Step::Pass(91.0),
        ],
    }
}

/// A connection that is opened again tells of no change that was made before it.
fn finished_while_unmounted() -> Plan {
    Plan {
        seed: 128,
        slots: 1,
        boards: 1,
        steps: vec![
            Step::Meddle(11, PLAIN_TASK),
            Step::Worker(0, Act::GoOn),
            Step::Deliver(24),
            Step::Run(10),
            Step::Run(7),
            Step::Meddle(166, Meddling::Unmount),
            Step::Meddle(166, Meddling::Finish(87)),
            Step::Pass(31.0),
            Step::Run(6),
        ],
    }
}

/// Nobody works on that claim and nothing may be done about it: it ends when Hermes takes it back.
fn older_copy_with_an_ended_run() -> Plan {
    Plan {
        seed: 0,
        slots: 1,
        boards: 1,
        steps: vec![
            Step::Meddle(0, PLAIN_TASK),
            Step::Worker(0, Act::GoOn),
            Step::Deliver(0),
            Step::Run(40),
            Step::Meddle(0, Meddling::Copy),
            Step::Deliver(0),
            Step::Worker(0, Act::Submit(0)),
            Step::Deliver(0),
            Step::Run(40),
            Step::Meddle(0, Meddling::Restore),
        ],
    }
}
