//! What goes on for as long as a pool lives: its store is reopened, its key is looked for, its boards are served.
//!
//! Each is a task under supervision ([`Keeper::keep_going`]): one that panics is begun again and finds out anew how things
//! stand. Nothing that it must not repeat is kept in the task itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering as Atomic;
use std::time::Duration;

use tokio::sync::watch;

use super::Pool;
use crate::actors::boards::Boards;
use crate::actors::events::PoolEvent;
use crate::actors::ordinal::Looked;
use crate::actors::scope::Scope;
use crate::actors::settle::EndingPolicy;
use crate::actors::store::StoreStatus;
use crate::actors::supervise::{Backoff, Keeper};
use crate::board::BoardHost;
use crate::domain::Fence;
use crate::faults::Work;
use crate::store::StoreError;
use crate::store::operations::Live;

/// How often the key's file is looked at.
const KEY_INTERVAL: Duration = Duration::from_secs(1);
/// Longest pause between two tries to open a store whose file is at fault.
const OPEN_AGAIN_SECONDS: f64 = 5.0;

/// Begins each task, and begins it again if it panics.
pub(super) fn begin(
    pool: &Pool,
    keeper: &Keeper,
    host: Arc<dyn BoardHost>,
    looked: watch::Sender<Looked>,
) {
    let restarts = &pool.shared.restarts;
    let for_store = pool.clone();
    keeper.keep_going("upkeep-store", Arc::clone(restarts), move || {
        keep_store(for_store.clone())
    });
    let for_key = pool.clone();
    keeper.keep_going("upkeep-key", Arc::clone(restarts), move || {
        look_at_key(for_key.clone())
    });
    let (for_boards, for_pairs) = (pool.clone(), keeper.clone());
    keeper.keep_going("upkeep-boards", Arc::clone(restarts), move || {
        let (pool, keeper) = (for_boards.clone(), for_pairs.clone());
        serve_boards(pool, keeper, Arc::clone(&host), looked.clone())
    });
}

/// Builds the StoreActor anew whenever it is down. One that panicked is counted, and quarantined like any other actor.
async fn keep_store(pool: Pool) {
    let shared = &pool.shared;
    let mut status = shared.store.watch();
    let mut backoff = Backoff::default();
    loop {
        pool.begin_round("upkeep-store");
        let began = shared.clock.elapsed();
        shared.readers.forget();
        shared.engine.open_store(&shared.store);
        let down = status.wait_for(|status| matches!(status, StoreStatus::Down(_)));
        let error = match down.await.as_deref() {
            Ok(StoreStatus::Down(error)) => error.clone(),
            Ok(_) => continue,
            Err(_) => return,
        };
        let lived = shared.clock.elapsed().saturating_sub(began);
        let mut pause = backoff.next(lived, fastrand::f64());
        if matches!(error, StoreError::File { .. }) {
            pause = pause.min(Duration::from_secs_f64(OPEN_AGAIN_SECONDS));
        } else {
            shared.restarts.fetch_add(1, Atomic::Relaxed);
            shared.events.emit(PoolEvent::Restarted("store".to_owned()));
        }
        let now = shared.clock.now();
        let next_try = Some(now + pause.as_secs_f64());
        shared
            .ledger
            .defer(Scope::Store, "open", error.to_string(), now, next_try);
        shared.clock.wait_for(pause).await;
    }
}

/// Waits for a status; `None` when the store is gone for good.
async fn follow(
    status: &mut watch::Receiver<StoreStatus>,
    wanted: impl FnMut(&StoreStatus) -> bool,
) -> Option<()> {
    status.wait_for(wanted).await.ok().map(|_| ())
}

/// Looks at the key's file for as long as the pool lives.
async fn look_at_key(pool: Pool) {
    loop {
        pool.begin_round("upkeep-key");
        pool.shared.clock.wait_for(KEY_INTERVAL).await;
        let keys = pool.shared.keys.clone();
        // A panic while looking leaves what was known, and the next look comes.
        let _ = pool.shared.engine.aside(move || keys.look()).await;
    }
}

/// Serves the boards once the store is open: only then is the fence known that every claim carries. The slots are told
/// what they hold.
async fn serve_boards(
    pool: Pool,
    keeper: Keeper,
    host: Arc<dyn BoardHost>,
    looked: watch::Sender<Looked>,
) {
    let mut status = pool.shared.store.watch();
    if pool.boards().is_none() {
        pool.begin_round("upkeep-boards");
        let Some(fence) = first_look(&pool, &mut status, looked).await else {
            return;
        };
        keep_boards(&pool, &keeper, host, fence);
    } else {
        // Begun again: the store may have been down in between.
        pool.shared.ordinals.refresh_all();
    }
    loop {
        pool.begin_round("upkeep-boards");
        pool.shared.ledger.clear(Scope::Store, "open");
        if follow(&mut status, |status| *status != StoreStatus::Ready)
            .await
            .is_none()
            || follow(&mut status, |status| *status == StoreStatus::Ready)
                .await
                .is_none()
        {
            return;
        }
        // What a slot asked while the store was down went unanswered.
        pool.shared.ordinals.refresh_all();
    }
}

/// Builds the lister of boards, which outlives the task.
fn keep_boards(pool: &Pool, keeper: &Keeper, host: Arc<dyn BoardHost>, fence: Fence) {
    let settings = &pool.shared.settings;
    let endings = EndingPolicy {
        pool: settings.id.clone(),
        fence,
        failure_limit: settings.failure_limit,
    };
    let template = pool.template(host, endings);
    let (directory, for_boards) = (pool.shared.directory.clone(), keeper.clone());
    let boards = keeper.keep("boards", move |guard| {
        Boards::new(
            template.clone(),
            directory.clone(),
            for_boards.clone(),
            guard,
        )
    });
    pool.shared.boards.send_replace(Some(boards));
}

impl Pool {
    fn begin_round(&self, task: &'static str) {
        self.shared.settings.faults.begin(Work::Round, task, "");
    }
}

/// Reads the store for the first time, again until it can be read: its fence, and what the slots hold, which they are told
/// through `looked`. `None` when the store is gone for good.
async fn first_look(
    pool: &Pool,
    status: &mut watch::Receiver<StoreStatus>,
    looked: watch::Sender<Looked>,
) -> Option<Fence> {
    let shared = &pool.shared;
    loop {
        follow(status, |status| *status == StoreStatus::Ready).await?;
        shared.ledger.clear(Scope::Store, "open");
        let read = shared
            .readers
            .read(|reader| Ok((reader.fence()?, reader.live()?)));
        match read.await {
            Ok((fence, live)) => {
                shared.ledger.clear(Scope::Store, "read");
                let all_understood = live.iter().all(Result::is_ok);
                let slots: BTreeMap<_, _> = live
                    .into_iter()
                    .flatten()
                    .map(|record| Live::of(&record.assignment, &shared.settings.policy))
                    .map(|live| (live.binding.ordinal, live))
                    .collect();
                // A slot that was taken out of the pool still has its timer while a row refers to it.
                slots.keys().for_each(|ordinal| pool.serve_slot(*ordinal));
                looked.send_replace(if all_understood {
                    Looked::Slots(Arc::new(slots))
                } else {
                    Looked::AskYourself
                });
                return Some(fence);
            }
            Err(error) => {
                let now = shared.clock.now();
                shared
                    .ledger
                    .defer(Scope::Store, "read", error.to_string(), now, None);
                shared.clock.wait_for(Duration::from_secs(1)).await;
            }
        }
    }
}
