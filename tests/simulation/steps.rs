//! What each step of a plan does.

use std::rc::Rc;
use std::time::Duration;

use hermes_pool::clock::Clock;
use hermes_pool::domain::{BoardSlug, Ordinal};
use hermes_pool::faults::{Fault, FaultPoint, Work};
use hermes_pool::protocol::parse_wire;

use super::coverage::{Event, saw};
use super::history::{History, Life};
use super::invariants::Violation;
use super::plan::Step;
use super::workers::Packet;

impl History<'_> {
    pub(super) async fn step(&mut self, life: &Life, step: Step) -> Result<(), Violation> {
        match step {
            Step::Work(nth) => return self.work(life, usize::from(nth)).await.map(drop),
            Step::Run(pieces) => return self.run(life, usize::from(pieces)).await.map(drop),
            Step::Deliver(nth) => {
                if let Some(nth) = self.pick(nth) {
                    if nth > 0 {
                        saw(Event::MessageOvertook);
                    }
                    let packet = self.workers.packets.remove(nth);
                    self.deliver(life, packet);
                }
            }
            Step::Duplicate(nth) => {
                if let Some(packet) = self.pick(nth).map(|nth| self.workers.packets[nth].clone()) {
                    self.workers.packets.push(packet);
                    saw(Event::MessageDuplicated);
                }
            }
            Step::Lose(nth) => {
                if let Some(nth) = self.pick(nth) {
                    self.workers.packets.remove(nth);
                    saw(Event::MessageLost);
                }
            }
            Step::Worker(nth, act) => self.workers.act(nth, act),
            Step::Pass(seconds) => {
                self.clock.advance(Duration::from_secs_f64(seconds));
                if seconds >= 60.0 {
                    saw(Event::Paused);
                }
            }
            Step::SetClock(seconds) => {
                self.clock.set_by(seconds);
                saw(if seconds < 0.0 {
                    Event::SetBack
                } else {
                    Event::SetForward
                });
            }
            Step::Crash => {}
            Step::Panic(nth) => {
                let point = FaultPoint::ALL[usize::from(nth) % FaultPoint::ALL.len()];
                self.faults.arm(point, Fault::PanicOnce);
            }
            Step::PanicIn(nth) => {
                let actor = self.actor(usize::from(nth));
                self.faults
                    .arm_work(Work::Message, &actor, Fault::PanicOnce);
            }
            Step::Store(fault) => self.store_fault = Some(fault),
            Step::Board(nth, trouble) => self.boards.trouble(self.slug(nth), trouble),
            Step::Meddle(nth, meddling) => self.boards.meddle(self.slug(nth), meddling),
            Step::Hermes(nth) => {
                self.boards.take_back_expired(self.slug(nth));
            }
            Step::Look(nth) => life.hand.look(self.slug(nth)),
        }
        self.note(&format!("{step:?}"));
        self.settle(life).await
    }

    fn slug(&self, nth: u8) -> &BoardSlug {
        &self.slugs[usize::from(nth) % self.slugs.len()]
    }

    /// One of the actors, by name.
    fn actor(&self, nth: usize) -> String {
        let mut names = vec!["roster".to_owned(), "boards".to_owned()];
        names.extend((0..self.plan.slots).map(|ordinal| format!("ordinal-{ordinal}")));
        for slug in &self.slugs {
            names.push(format!("dispatcher-{slug}"));
            names.push(format!("reconciler-{slug}"));
        }
        names.swap_remove(nth % names.len())
    }

    fn pick(&self, nth: u8) -> Option<usize> {
        let packets = self.workers.packets.len();
        (packets > 0).then(|| usize::from(nth) % packets)
    }

    pub(super) fn deliver(&mut self, life: &Life, packet: Packet) {
        match packet {
            Packet::ToWorker { asked, reply } => self.workers.hear(&asked, &reply),
            Packet::ToPool(message) => {
                if self.clock.elapsed() - message.sent_at >= Duration::from_secs(10) {
                    saw(Event::MessageDelayed);
                }
                let slot = life.pool.ordinal(Ordinal(message.ordinal));
                let slot = slot.expect("every configured slot has its actor");
                let wire = parse_wire(&message.bytes).unwrap();
                let answers = Rc::clone(&life.answers);
                actix::spawn(async move {
                    let answer = slot.deliver(wire, message.kind).await;
                    answers.borrow_mut().push((message, answer));
                });
            }
        }
    }
}
