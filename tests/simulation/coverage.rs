//! What really happened in histories: a fault that was planned and met nobody tells nothing.
//!
//! A history runs on one thread, so it is counted by thread.

use std::cell::RefCell;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Something that histories have to go through.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event { $($(#[$doc])* $name,)* }

        const ALL: &[Event] = &[$(Event::$name),*];
    };
}

events! {
    // Time.
    /// A minute or more passed at once.
    Paused,
    /// The clock was set forward, and no time passed.
    SetForward,
    /// The clock was set back.
    SetBack,
    // Messages.
    MessageLost,
    MessageDuplicated,
    /// It arrived ten seconds or more after it was sent.
    MessageDelayed,
    /// It arrived before one that was sent earlier.
    MessageOvertook,
    /// It was no longer valid when it arrived, or the pool was not there.
    MessageUnserved,
    // Workers.
    WorkerDied,
    /// A worker that is taken for dead works on beside the next one.
    WorkerLivedOn,
    /// A result came for a run that its sender no longer holds.
    LateResult,
    /// A heartbeat did.
    LateHeartbeat,
    StaleAttemptRefused,
    ExpiredLeaseRefused,
    SupersededRunRefused,
    ResultAccepted,
    DuplicateResultAccepted,
    // The process.
    Crashed,
    /// An actor panicked, and was built anew.
    ActorPanicked,
    /// A step of a pass, or a visit, panicked between two durable steps.
    StepPanicked,
    // The store.
    GroupLost,
    MemberLost,
    /// A file took no byte.
    StoreUnwritable,
    /// A file was full in the middle of a commit.
    StoreFull,
    /// Another process held the store.
    StoreLocked,
    CommitUnanswered,
    WriterDown,
    // Boards.
    RootMissing,
    BoardGone,
    BoardReplaced,
    BoardRestored,
    BoardArchived,
    BoardUnreadable,
    /// One call failed, and the next did not.
    CallFailed,
    /// The pool wrote, and was not told that it did.
    BoardAnswerLost,
    TakenAway,
    FinishedByHand,
    Stolen,
    TakenBackByHermes,
    DeletedWhileHeld,
    DeletedWhileFree,
    EditedWhileHeld,
    EditedWhileFree,
    // How runs ended.
    Finalized,
    Stale,
    Exhausted,
    NeverFetched,
    Unsettled,
    Unconfirmed,
    Superseded,
    LimitPassed,
}

/// How often each event happened.
#[derive(Clone)]
pub(crate) struct Counts([u64; ALL.len()]);

impl Counts {
    pub(crate) const NONE: Self = Self([0; ALL.len()]);

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// What never happened.
    pub(crate) fn absent(&self) -> Vec<Event> {
        let counted = ALL.iter().zip(self.0);
        counted
            .filter(|(_, count)| *count == 0)
            .map(|(event, _)| *event)
            .collect()
    }

    /// Every event with its count.
    pub(crate) fn table(&self) -> String {
        let counted = ALL.iter().zip(self.0);
        counted
            .map(|(event, count)| format!("{count:9} {event:?}\n"))
            .collect()
    }
}

thread_local! {
    static SEEN: RefCell<Counts> = const { RefCell::new(Counts::NONE) };
}

/// Counts an event of the history that runs on this thread.
pub(crate) fn saw(event: Event) {
    SEEN.with_borrow_mut(|seen| seen.0[event as usize] += 1);
}

/// Takes what was counted on this thread.
pub(crate) fn take() -> Counts {
    SEEN.replace(Counts::NONE)
}
