//! A test door: named points of a run's life at which a test lets the process die, or one visitor panic.
//!
//! The points stand between two durable steps (see the table in `actors::reconcile`), since only there does it matter
//! whether what came before is found again. A door that nobody armed costs one relaxed load.
//!
//! Beside the points it has [`Work`]: what any actor, step, visit or store message begins with, by name, so that a test can
//! break each of them alone. [`Work::all`] lists them; in debug builds whatever begins without standing there is a bug, so
//! that no test which goes through the list can miss what was added since.
//!
//! The coordinator arms it from `HERMES_POOL_TEST_FAULTS`, a list such as `run_claimed=kill,ending_written=panic`;
//! tests that drive actors arm the door of their own pool. It can do nothing but stop what passes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The variable that arms the coordinator's door.
pub const FAULTS_VARIABLE: &str = "HERMES_POOL_TEST_FAULTS";

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A point between two durable steps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultPoint { $($(#[$doc])* $name,)* }

        impl FaultPoint {
            /// Every point, in the order of a run's life.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name under which it is armed.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

points! {
    /// The store holds the intent, the board nothing yet.
    IntentNoted = "intent_noted",
    /// The board holds the claim, the store only the intent.
    RunClaimed = "run_claimed",
    /// The payload is built, the store holds only the intent.
    PayloadBuilt = "payload_built",
    /// The store holds the assignment; nobody was told.
    AssignmentAdded = "assignment_added",
    /// The offer is durable, the worker has no answer yet.
    OfferCommitted = "offer_committed",
    /// A heartbeat is durable, the worker has no answer yet.
    HeartbeatCommitted = "heartbeat_committed",
    /// The board has extended the claim, the store does not know.
    ClaimExtended = "claim_extended",
    /// The result is durable, the worker has no answer yet.
    ResultCommitted = "result_committed",
    /// The board shows the completion; its counters and children are as before.
    CompletionWritten = "completion_written",
    /// The board's counters are cleared; its children are as before.
    CountersCleared = "counters_cleared",
    /// The board shows the whole ending, the store does not know.
    EndingWritten = "ending_written",
    /// The store holds the end.
    EndRecorded = "end_recorded",
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A kind of work, each piece of which has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// An actor takes up a message; the actor's name, such as `ordinal-0` or `reconciler-lab`.
    Message,
    /// A task that keeps the pool up goes round once; its name, such as `upkeep-key`.
    Round,
    /// A step of a pass; the board and the step, such as `lab/settle`.
    Step,
    /// A visit to a board; the board and what it is for, such as `lab/claim`.
    Visit,
    /// A store operation inside its transaction; its type, such as `SubmitResult`.
    Operation,
    /// The store's actor begins a group; always `store`.
    Group,
}

impl Work {
    /// Every kind.
    pub const KINDS: &[Self] = &[
        Self::Message,
        Self::Round,
        Self::Step,
        Self::Visit,
        Self::Operation,
        Self::Group,
    ];

    /// All pieces of work of this kind, without the slot or the board that they belong to.
    #[must_use]
    pub fn all(self) -> &'static [&'static str] {
        match self {
            Self::Message => &["ordinal", "roster", "boards", "reconciler", "dispatcher"],
            Self::Round => &["upkeep-store", "upkeep-key", "upkeep-boards"],
            Self::Step => &["settle", "drain", "watch", "intents", "strangers"],
            Self::Visit => &[
                "look for work",
                "make the claim",
                "read the task",
                "park",
                "settle",
                "watch",
                "resolve the claim",
                "give the claim back",
                "look for unknown claims",
            ],
            Self::Operation => &[
                "RecordIntent",
                "IsIntended",
                "DropIntent",
                "AddAssignment",
                "Offer",
                "Heartbeat",
                "SubmitResult",
                "LiveOf",
                "Expire",
                "NoteConfirmed",
                "NoteBoardHeartbeat",
                "SetNotBefore",
                "Unconfirmed",
                "LetGo",
                "PastLimit",
                "End",
                "Probe",
                "CollectEnded",
                "CollectDeliveries",
            ],
            Self::Group => &["store"],
        }
    }

    /// The name of one piece: of this slot or board, where there are several.
    fn name(self, what: &str, of: &str) -> String {
        match self {
            _ if of.is_empty() => what.to_owned(),
            Self::Step | Self::Visit => format!("{of}/{what}"),
            Self::Message | Self::Round | Self::Operation | Self::Group => format!("{what}-{of}"),
        }
    }
}

/// What happens to whoever passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed, as by SIGKILL.
    Kill,
    /// The next one to pass panics; those after it pass.
    PanicOnce,
    /// Whoever passes panics.
    PanicAlways,
}

/// The list of faults is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{FAULTS_VARIABLE}: {0:?} is no POINT=kill, POINT=panic or POINT=panic_once")]
pub struct UnknownFault(String);

/// The door of one pool; clones lead to the same one.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    armed: AtomicBool,
    stopped: AtomicU64,
    faults: Mutex<BTreeMap<Place, Fault>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Point(FaultPoint),
    Work(Work, String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point(point) => point.fmt(f),
            Self::Work(work, name) => write!(f, "{work:?} of {name}"),
        }
    }
}

impl Faults {
    /// A door as a list describes it.
    ///
    /// # Errors
    /// [`UnknownFault`] names the part that is none.
    pub fn parse(list: &str) -> Result<Self, UnknownFault> {
        let faults = Self::default();
        for part in list
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let unknown = || UnknownFault(part.to_owned());
            let (name, fault) = part.split_once('=').ok_or_else(unknown)?;
            let point = FaultPoint::ALL
                .iter()
                .find(|point| point.as_str() == name)
                .ok_or_else(unknown)?;
            let fault = match fault {
                "kill" => Fault::Kill,
                "panic" => Fault::PanicAlways,
                "panic_once" => Fault::PanicOnce,
                _ => return Err(unknown()),
            };
            faults.arm(*point, fault);
        }
        Ok(faults)
    }

    /// Arms a point.
    pub fn arm(&self, point: FaultPoint, fault: Fault) {
        self.arm_place(Place::Point(point), fault);
    }

    /// Arms a piece of work.
    pub fn arm_work(&self, work: Work, name: &str, fault: Fault) {
        self.arm_place(Place::Work(work, name.to_owned()), fault);
    }

    fn arm_place(&self, place: Place, fault: Fault) {
        self.faults().insert(place, fault);
        self.shared.armed.store(true, Ordering::Relaxed);
    }

    /// Lets everybody pass again.
    pub fn disarm(&self) {
        self.faults().clear();
        self.shared.armed.store(false, Ordering::Relaxed);
    }

    /// How many have been stopped so far.
    #[must_use]
    pub fn stopped(&self) -> u64 {
        self.shared.stopped.load(Ordering::Relaxed)
    }

    /// Passes a point.
    ///
    /// # Panics
    /// Where a test armed it so.
    #[inline]
    pub fn pass(&self, point: FaultPoint) {
        if self.shared.armed.load(Ordering::Relaxed) {
            self.pass_armed(Place::Point(point));
        }
    }

    /// Begins a piece of work, `what` of [`Work::all`]; `of` is the slot or board that it belongs to, empty where there is
    /// but one.
    ///
    /// # Panics
    /// Where a test armed it so.
    #[inline]
    pub fn begin(&self, work: Work, what: &str, of: impl fmt::Display) {
        debug_assert!(
            work.all().contains(&what),
            "{what} is missing in Work::all, so no test breaks it"
        );
        if self.shared.armed.load(Ordering::Relaxed) {
            self.pass_armed(Place::Work(work, work.name(what, &of.to_string())));
        }
    }

    #[cold]
    fn pass_armed(&self, place: Place) {
        let fault = {
            let mut faults = self.faults();
            let fault = faults.get(&place).copied();
            if fault == Some(Fault::PanicOnce) {
                faults.remove(&place);
            }
            fault
        };
        if fault.is_some() {
            self.shared.stopped.fetch_add(1, Ordering::Relaxed);
        }
        match fault {
            None => {}
            Some(Fault::Kill) => kill_this_process(),
            Some(Fault::PanicOnce | Fault::PanicAlways) => panic!("test door at {place}"),
        }
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, BTreeMap<Place, Fault>> {
        self.shared
            .faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// As an operator's `kill -9` would: nothing is unwound, flushed or closed.
fn kill_this_process() {
    let killed =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    // A process may always signal itself; if it could not, the test must not go on as if it were dead.
    log::error!("test door: the process could not kill itself: {killed:?}");
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_work_is_stopped_by_its_name() {
        let faults = Faults::default();
        faults.arm_work(Work::Visit, "lab/settle", Fault::PanicAlways);
        faults.begin(Work::Visit, "watch", "lab");
        faults.begin(Work::Visit, "settle", "lab2");
        faults.begin(Work::Step, "settle", "lab");
        for _ in 0..2 {
            let begun = || faults.begin(Work::Visit, "settle", "lab");
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(begun)).is_err());
        }
    }

    #[test]
    fn work_that_is_not_listed_is_noticed_whether_or_not_a_door_is_armed() {
        let unlisted = || Faults::default().begin(Work::Visit, "wander about", "lab");
        assert!(std::panic::catch_unwind(unlisted).is_err());
    }

    #[test]
    fn a_door_stops_only_where_it_is_armed() {
        let faults = Faults::parse("run_claimed=panic_once").unwrap();
        faults.pass(FaultPoint::IntentNoted);
        let stopped = std::panic::catch_unwind(|| faults.pass(FaultPoint::RunClaimed));
        assert!(stopped.is_err());
        faults.pass(FaultPoint::RunClaimed);
        assert_eq!(faults.stopped(), 1);
        assert_eq!(
            Faults::parse("nowhere=kill").unwrap_err(),
            UnknownFault("nowhere=kill".into())
        );
    }
}
