//! Whether the StoreActor stays awake after a commit, since the next operation is about to come.
//!
//! To wake a thread that sleeps takes longer than all that a heartbeat asks of the store before its commit, and a disk that
//! had to wait meanwhile answers more slowly. A caller who is alone and sends his next operation as soon as he was answered
//! is therefore awaited for some microseconds, after enough operations in a row that came alone and at once. With more
//! callers, whose operations queue up during a commit, or slower ones, such as all that come over a network, the actor
//! sleeps at once.
//!
//! These are the processor's microseconds, whatever time the pool's clock shows; nothing is decided by them but that.

use std::time::{Duration, Instant};

/// How soon the next operation has to come to count as sent at once. A caller in this process takes half of it.
const AT_ONCE: Duration = Duration::from_micros(80);
/// How long the next one is awaited.
const PATIENCE: Duration = Duration::from_micros(60);
/// As many as came at once in a row before the next one is awaited.
const CONVINCING: u32 = 8;

/// How the last operations came.
pub(super) struct Linger {
    /// When the last group was answered.
    answered: Instant,
    /// Operations that came alone and at once, in a row.
    in_a_row: u32,
}

impl Linger {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            answered: now,
            in_a_row: 0,
        }
    }

    /// A group of so many operations began then, and is answered now. Returns how long the next one is awaited, if it is.
    pub(super) fn served(
        &mut self,
        operations: usize,
        began: Instant,
        answered: Instant,
    ) -> Option<Duration> {
        let at_once = began.saturating_duration_since(self.answered) <= AT_ONCE;
        self.in_a_row = match operations == 1 && at_once {
            true => self.in_a_row.saturating_add(1),
            false => 0,
        };
        self.answered = answered;
        (self.in_a_row >= CONVINCING).then_some(PATIENCE)
    }

    /// The next operation had come before the last one was answered: its caller is not alone.
    pub(super) fn crowded(&mut self) {
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: Duration = Duration::from_micros(100);

    /// A store that serves operations.
    struct Served {
        linger: Linger,
        now: Instant,
    }

    impl Served {
        fn new() -> Self {
            let now = Instant::now();
            Self {
                linger: Linger::new(now),
                now,
            }
        }

        /// Serves a group so long after the last one; returns whether the next one is awaited.
        fn serve(&mut self, operations: usize, after: Duration) -> bool {
            let began = self.now + after;
            self.now = began + COMMIT;
            self.linger.served(operations, began, self.now).is_some()
        }

        fn serve_convincingly(&mut self) {
            let awaited: Vec<_> = (0..CONVINCING).map(|_| self.serve(1, AT_ONCE)).collect();
            let (last, before) = awaited.split_last().unwrap();
            assert!(*last && !before.contains(&true), "{awaited:?}");
        }
    }

    #[test]
    fn the_next_one_is_awaited_once_enough_came_alone_and_at_once() {
        let mut served = Served::new();
        served.serve_convincingly();
        assert!(served.serve(1, Duration::ZERO));
    }

    #[test]
    fn a_late_one_a_group_and_a_crowd_have_to_be_followed_by_as_many_again() {
        let breaks: [fn(&mut Served); 3] = [
            |served| assert!(!served.serve(1, AT_ONCE + Duration::from_micros(1))),
            |served| assert!(!served.serve(2, Duration::ZERO)),
            |served| served.linger.crowded(),
        ];
        for break_off in breaks {
            let mut served = Served::new();
            served.serve_convincingly();
            break_off(&mut served);
            served.serve_convincingly();
        }
    }
}
