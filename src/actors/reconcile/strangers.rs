//! Step *strangers*: claims that carry the pool's id and that this store knows nothing of.
//!
//! They come from another store under the same id, or from this one before it was lost or put back from an older copy. They
//! may be somebody's work, so they are reported and left alone: nothing is taken because of its prefix. Hermes takes back
//! what expires.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::Pass;
use crate::actors::board_thread::VisitError;
use crate::actors::scope::Scope;
use crate::board::PoolClaim;
use crate::faults::Work;

/// What the ledger calls such a claim.
const UNKNOWN: &str = "unknown claim";
/// What the ledger calls the look for them.
const LOOK: &str = "look for unknown claims";

impl Pass<'_> {
    /// The step, alone: whatever happens in it ends here.
    pub(super) async fn guarded_strangers(&mut self) {
        let (faults, slug) = (self.parts.faults.clone(), self.parts.slug.clone());
        let work = async {
            faults.begin(Work::Step, "strangers", &slug);
            self.strangers().await;
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        self.note_panic(&Scope::from(&slug), outcome);
    }

    async fn strangers(&mut self) {
        if self.board_is_down || self.board_is_missing || self.memory.claims_looked_at {
            return;
        }
        let (pool, slug) = (self.parts.endings.pool.clone(), self.parts.slug.clone());
        let (faults, of) = (self.parts.faults.clone(), slug.clone());
        let visit = self.parts.thread.visit(move |board| {
            faults.begin(Work::Visit, LOOK, &of);
            board.pool_claims(&pool)
        });
        let claims = match visit.await {
            Ok(claims) => claims,
            Err(VisitError::Panicked(why)) => return self.put_off(&slug, LOOK, why),
            // A board that does not answer is told of by those who need it; this look can wait for the next pass.
            Err(_) => return,
        };
        self.parts.ledger.clear(&slug, LOOK);
        // Read after the board: whatever this pool claims is in the store before it is on the board.
        let known = match self
            .parts
            .readers
            .read(move |reader| reader.locks(&slug))
            .await
        {
            Ok(known) => known,
            Err(error) => {
                let scope = &self.parts.slug;
                return self.put_off(scope, "read the store", error.to_string());
            }
        };
        self.memory.claims_looked_at = true;
        let slug = &self.parts.slug;
        let unknown: Vec<PoolClaim> = claims
            .into_iter()
            .filter(|claim| !known.contains(&claim.lock))
            .collect();
        let scopes: Vec<Scope> = unknown
            .iter()
            .map(|claim| self.parts.scope(&claim.task))
            .collect();
        self.parts.ledger.retain(slug, UNKNOWN, &scopes);
        for (claim, scope) in unknown.iter().zip(&scopes) {
            let whose = if claim.lock.is_of(&self.parts.endings.fence) {
                "this store"
            } else {
                "another store"
            };
            let why = format!(
                "claimed as {} by {whose} of this pool's id, and no assignment is known; left alone",
                claim.lock
            );
            self.put_off(scope, UNKNOWN, why);
        }
    }
}
