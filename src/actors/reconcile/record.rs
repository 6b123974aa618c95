//! Recording what a board has shown: ends in the store, said once.

use std::sync::Arc;

use super::Pass;
use crate::actors::events::PoolEvent;
use crate::actors::scope::Scope;
use crate::domain::{Evidence, FailCause, GONE_LOOKS_APART_SECONDS, Sighting, believable_root};
use crate::faults::FaultPoint;
use crate::store::Record;
use crate::store::operations::End;

impl Pass<'_> {
    /// A run is over, on evidence.
    pub(super) async fn end(
        &mut self,
        record: &Record,
        evidence: Evidence,
        cause: Option<FailCause>,
    ) {
        let binding = record.assignment.binding().clone();
        let scope = Scope::from(&binding.key);
        let (terminal, reason) = (evidence.terminal(), evidence.reason().to_owned());
        self.parts.faults.pass(FaultPoint::EndingWritten);
        match self
            .parts
            .store
            .call(End {
                binding: binding.clone(),
                evidence,
                cause,
            })
            .await
        {
            Ok(true) => {
                self.memory.of(record).ended = true;
                self.parts.ledger.clear_all(&scope);
                self.parts.faults.pass(FaultPoint::EndRecorded);
                self.report.ended += 1;
                self.parts.ordinals.refresh(binding.ordinal);
                self.parts.events.emit(PoolEvent::Ended {
                    binding,
                    terminal,
                    reason,
                });
            }
            // Its attempt was fenced meanwhile: the run goes on to be looked after, and the next pass ends it as it is by
            // then.
            Ok(false) => self.due(self.parts.clock.now()),
            Err(error) => self.put_off(&scope, "record the end", error.to_string()),
        }
    }

    /// The board is gone, or another one than the run was claimed on: believed at the second look.
    pub(super) async fn sighted(&mut self, record: &Record, why: String) {
        let scope = Scope::from(&record.assignment.binding().key);
        let known = self.memory.of(record).root;
        let Some(second) = self.look_at_root(&scope, known, why).await else {
            return;
        };
        let first = self
            .memory
            .of(record)
            .sighting
            .get_or_insert_with(|| second.clone())
            .clone();
        if let Some(evidence) = Evidence::seen_twice(&first, &second) {
            return self
                .end(record, evidence, Some(FailCause::Superseded))
                .await;
        }
        self.wait_for_second_look(&scope, &first, &second);
        if first.root != second.root {
            self.memory.of(record).sighting = Some(second);
        }
    }

    /// A look, under the root as it is now; `None` where that is no place to look in ([`believable_root`]).
    pub(super) async fn look_at_root(
        &mut self,
        scope: &Scope,
        known: Option<(u64, u64)>,
        why: String,
    ) -> Option<Sighting> {
        self.board_is_missing = true;
        let (host, slug) = (Arc::clone(&self.parts.host), self.parts.slug.clone());
        let look = move || (host.root_identity(&slug), host.holds_boards(&slug));
        let (found, holds_boards) = self.parts.engine.aside(look).await.unwrap_or_default();
        match believable_root(known, found, holds_boards) {
            Ok(root) => Some(Sighting {
                at: self.parts.clock.elapsed(),
                root,
                why,
            }),
            Err(no_place) => {
                self.put_off(scope, "find its board", no_place.to_owned());
                None
            }
        }
    }

    pub(super) fn wait_for_second_look(
        &mut self,
        scope: &Scope,
        first: &Sighting,
        second: &Sighting,
    ) {
        let apart = second.at.saturating_sub(first.at).as_secs_f64();
        let again = self.parts.clock.now() + (GONE_LOOKS_APART_SECONDS - apart).max(0.0);
        self.put_off(
            scope,
            "find its board",
            format!("{}; to be seen once more", second.why),
        );
        self.due(again);
    }
}
