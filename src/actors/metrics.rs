//! Counters for operators, in the Prometheus text format.
//!
//! Labels are bounded by construction: enumerations only, never a run, a task or a text from outside.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::events::PoolEvent;
use crate::domain::Terminal;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActorLabel {
    actor: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MessageLabel {
    kind: &'static str,
    outcome: &'static str,
}

/// What is true at the moment of a scrape; counted from the store and the actors, not kept.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// Assignments in each state.
    pub assignments: Vec<(&'static str, u64)>,
    /// Slots in each state.
    pub slots: Vec<(&'static str, u64)>,
    /// Boards in each state.
    pub boards: Vec<(&'static str, u64)>,
    /// Pieces of work that are put off.
    pub deferrals: u64,
    /// Whether the pool is ready.
    pub ready: bool,
}

/// The counters of one pool.
pub struct Metrics {
    registry: Registry,
    added: Counter,
    offers: Counter,
    results: Counter,
    fenced: Counter,
    lease_failed: Family<CauseLabel, Counter>,
    ended: Family<StateLabel, Counter>,
    landed: Family<StateLabel, Counter>,
    intents_resolved: Counter,
    passes: Counter,
    restarts: Family<ActorLabel, Counter>,
    messages: Family<MessageLabel, Counter>,
    assignments: Family<StateLabel, Gauge>,
    slots: Family<StateLabel, Gauge>,
    boards: Family<StateLabel, Gauge>,
    deferrals: Gauge,
    ready: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Counters that stand at 0.
    #[must_use]
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("hermes_pool"),
            added: Counter::default(),
            offers: Counter::default(),
            results: Counter::default(),
            fenced: Counter::default(),
            lease_failed: Family::default(),
            ended: Family::default(),
            landed: Family::default(),
            intents_resolved: Counter::default(),
            passes: Counter::default(),
            restarts: Family::default(),
            messages: Family::default(),
            assignments: Family::default(),
            slots: Family::default(),
            boards: Family::default(),
            deferrals: Gauge::default(),
            ready: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "assignments_added",
            "Claimed runs bound to a slot",
            self.added.clone(),
        );
        registry.register(
            "offers",
            "Runs handed to a worker, repeats included",
            self.offers.clone(),
        );
        registry.register("results", "Results made durable", self.results.clone());
        registry.register(
            "attempts_fenced",
            "Attempts ended by time or by too many offers",
            self.fenced.clone(),
        );
        registry.register(
            "leases_failed",
            "Slots released before the outcome was confirmed",
            self.lease_failed.clone(),
        );
        registry.register(
            "assignments_ended",
            "Runs over, on evidence",
            self.ended.clone(),
        );
        registry.register(
            "blocks_landed",
            "Blocked runs by where the board put their task",
            self.landed.clone(),
        );
        registry.register(
            "intents_resolved",
            "Claims without an assignment that were resolved",
            self.intents_resolved.clone(),
        );
        registry.register(
            "reconcile_passes",
            "Passes over a board",
            self.passes.clone(),
        );
        registry.register(
            "actor_restarts",
            "Actors that went down and were built anew",
            self.restarts.clone(),
        );
        registry.register(
            "messages",
            "Authenticated messages of workers",
            self.messages.clone(),
        );
        registry.register(
            "assignments",
            "Assignments by state",
            self.assignments.clone(),
        );
        registry.register("slots", "Slots by state", self.slots.clone());
        registry.register("boards", "Boards by state", self.boards.clone());
        registry.register(
            "deferrals",
            "Pieces of work that are put off",
            self.deferrals.clone(),
        );
        registry.register("ready", "1 when the pool is ready", self.ready.clone());
    }

    /// Counts an event.
    pub(super) fn count(&self, event: &PoolEvent) {
        match event {
            PoolEvent::Added(_) => self.added.inc(),
            PoolEvent::Offered(_) => self.offers.inc(),
            PoolEvent::Submitted(_) => self.results.inc(),
            PoolEvent::Fenced(_) => self.fenced.inc(),
            PoolEvent::LeaseFailed(_, cause) => self
                .lease_failed
                .get_or_create(&CauseLabel {
                    cause: cause.as_str(),
                })
                .inc(),
            PoolEvent::Ended { terminal, .. } => {
                let state = match terminal {
                    Terminal::Finalized => "finalized",
                    Terminal::Stale => "stale",
                };
                self.ended.get_or_create(&StateLabel { state }).inc()
            }
            PoolEvent::Landed(_, landing) => self
                .landed
                .get_or_create(&StateLabel {
                    state: landing.as_str(),
                })
                .inc(),
            PoolEvent::IntentResolved(_) => self.intents_resolved.inc(),
            PoolEvent::Reconciled { .. } => self.passes.inc(),
            PoolEvent::Restarted(name) => self
                .restarts
                .get_or_create(&ActorLabel {
                    actor: kind_of(name),
                })
                .inc(),
            PoolEvent::Listed { .. } | PoolEvent::Waiting(_) => 0,
        };
    }

    /// Counts one answered message of a worker.
    pub(super) fn count_message(&self, kind: &'static str, outcome: &'static str) {
        self.messages
            .get_or_create(&MessageLabel { kind, outcome })
            .inc();
    }

    /// Runs over, on evidence, since the pool was started.
    pub(super) fn ended(&self) -> usize {
        let of = |state| self.ended.get_or_create(&StateLabel { state }).get();
        usize::try_from(of("finalized") + of("stale")).unwrap_or(usize::MAX)
    }

    /// Claims without an assignment that were resolved since the pool was started.
    pub(super) fn intents_resolved(&self) -> usize {
        usize::try_from(self.intents_resolved.get()).unwrap_or(usize::MAX)
    }

    /// Everything, as text.
    ///
    /// # Errors
    /// [`std::fmt::Error`] if the text could not be written.
    pub fn render(&self, gauges: &Gauges) -> Result<String, std::fmt::Error> {
        for (family, values) in [
            (&self.assignments, &gauges.assignments),
            (&self.slots, &gauges.slots),
            (&self.boards, &gauges.boards),
        ] {
            family.clear();
            for (state, count) in values {
                family
                    .get_or_create(&StateLabel { state })
                    .set(i64::try_from(*count).unwrap_or(i64::MAX));
            }
        }
        self.deferrals
            .set(i64::try_from(gauges.deferrals).unwrap_or(i64::MAX));
        self.ready.set(i64::from(gauges.ready));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The kind of an actor from its name (`ordinal-7`, `reconciler-lab`): names are unbounded, kinds are not.
fn kind_of(name: &str) -> &'static str {
    [
        "store",
        "ordinal",
        "roster",
        "reconciler",
        "dispatcher",
        "boards",
        "upkeep",
    ]
    .into_iter()
    .find(|kind| name.starts_with(kind))
    .unwrap_or("other")
}
