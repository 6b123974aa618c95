//! The endings of the port, each as the operation that it is to Hermes.

use super::{Completion, HermesBoard, fail};
use crate::board::{BoardError, Ended, Ending};
use crate::domain::Receipt;

impl HermesBoard {
    /// Ends the exact run; `None` if it is not current (any more).
    pub(super) fn end_run(
        &mut self,
        task: &str,
        run: i64,
        lock: &str,
        ending: &Ending,
        now: i64,
    ) -> Result<Option<Ended>, BoardError> {
        let held = fail::Held { task, run, lock };
        Ok(match ending {
            Ending::Complete {
                summary,
                result,
                metadata,
            } => {
                let completion = Completion {
                    summary: summary.as_deref(),
                    result: result.as_deref(),
                    metadata: metadata.as_object(),
                };
                done(
                    self.complete_task(task, Some(run), &completion, &[], now)?,
                    "completed",
                )
            }
            Ending::Block { kind, reason } => self
                .block_task(task, Some(run), Some(*kind), reason.as_deref(), now)?
                .map(|landing| Ended {
                    receipt: Receipt::of_commit("blocked"),
                    landing: Some(landing),
                }),
            Ending::Fail {
                reason,
                failure_limit,
            } => done(
                self.file.write(now, |visit| {
                    fail::crash(visit, held, reason, *failure_limit)
                })?,
                "failed",
            ),
            Ending::RateLimit { reason } => done(
                self.file
                    .write(now, |visit| fail::meet_quota(visit, held, reason))?,
                "rate_limited",
            ),
            Ending::Release { reason } => done(
                self.release_task(task, lock, reason.as_deref(), now)?,
                "released",
            ),
            Ending::TimeOut {
                elapsed_seconds,
                limit_seconds,
                failure_limit,
            } => done(
                self.file.write(now, |visit| {
                    fail::time_out(
                        visit,
                        held,
                        *elapsed_seconds,
                        *limit_seconds,
                        *failure_limit,
                    )
                })?,
                "timed_out",
            ),
        })
    }
}

/// The receipt of an ending that puts the task nowhere in particular, if it took place.
fn done(took_place: bool, what: &'static str) -> Option<Ended> {
    took_place.then(|| Ended {
        receipt: Receipt::of_commit(what),
        landing: None,
    })
}
