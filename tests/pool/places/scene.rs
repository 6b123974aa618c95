//! A pool at work on two boards: what its workers do in turns, while something is broken or while nothing is.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hermes_pool::domain::{BoardSlug, TaskId};

use super::Story;
use crate::support::{Job, PATIENCE, Running, Stage};

const COMPLETED: &str = r#"{"outcome":"completed"}"#;
const QUOTA: &str = r#"{"outcome":"rate_limited","reason":"quota","retry_after_seconds":30}"#;
/// Slots whose workers take whatever comes.
const BUSY: [u16; 2] = [0, 1];
/// The slot whose worker holds a run of the sound board all along, and is timed.
const WATCHED: u16 = 2;

/// A pool at work, and what its workers have in hand.
pub(super) struct Scene<'a> {
    pub(super) stage: &'a Stage,
    pub(super) pool: Running<'a>,
    pub(super) a: BoardSlug,
    pub(super) b: BoardSlug,
    watched: Job,
    pub(super) held: BTreeMap<u16, Job>,
    pub(super) acknowledged: Vec<Job>,
    /// Whether what takes a while may end.
    pub(super) is_enough: bool,
    /// Time that passes between two turns.
    step: f64,
    pub(super) beats: Vec<Duration>,
    /// A pool with the same work, in which nothing is broken.
    pub(super) twin: Option<Box<Scene<'a>>>,
}

impl<'a> Scene<'a> {
    pub(super) async fn start(stage: &'a Stage, story: Story) -> Self {
        let (a, b) = (stage.board("a"), stage.board("b"));
        stage.task(&b, "watched");
        let mut pool = stage.start().await;
        let step = match story {
            Story::Silent | Story::Locked | Story::Spoilt => 20.0,
            Story::Overtime | Story::Quota => 5.0,
            _ => 1.0,
        };
        Self {
            stage,
            watched: pool.next_job(WATCHED).await,
            pool,
            a,
            b,
            held: BTreeMap::new(),
            acknowledged: Vec::new(),
            is_enough: false,
            step,
            beats: Vec::new(),
            twin: None,
        }
    }

    /// A turn of every worker, here and in the twin.
    pub(super) async fn turn(&mut self) {
        self.turn_here().await;
        if let Some(twin) = &mut self.twin {
            twin.turn_here().await;
        }
    }

    /// The heartbeat of the worker that is watched, if it is answered.
    pub(super) async fn beat(&mut self) {
        let worker = self.pool.worker(WATCHED);
        let began = Instant::now();
        if let Ok(answer) = worker.try_heartbeat(&self.watched).await {
            assert_eq!(answer.code(), "ok", "a lease that is sound goes on");
            self.beats.push(began.elapsed());
        }
    }

    pub(super) async fn turn_here(&mut self) {
        self.beat().await;
        for ordinal in BUSY {
            let worker = self.pool.worker(ordinal);
            match self.held.remove(&ordinal) {
                None => {
                    if let Ok(Some(job)) = worker.try_poll().await {
                        self.held.insert(ordinal, job);
                    }
                }
                Some(job) => {
                    if let Some(kept) = self.work(ordinal, job).await {
                        self.held.insert(ordinal, kept);
                    }
                }
            }
        }
        self.pool.a_moment(self.step).await;
    }

    /// What a worker does with its run; the run, if it still has it.
    pub(super) async fn work(&mut self, ordinal: u16, job: Job) -> Option<Job> {
        let worker = self.pool.worker(ordinal);
        let task = TaskId::parse(&job.binding.task_id).unwrap();
        let is_first = job.binding.board != "a" || self.stage.runs(&self.a, &task).len() == 1;
        let result = match job.payload.task.title.as_str() {
            "silent" => {
                // It comes again when its lease is over.
                let mut left = 91.0;
                while left > 0.0 {
                    self.pool.a_moment(self.step).await;
                    left -= self.step;
                    self.beat().await;
                }
                return None;
            }
            title if (title == "held" && !self.is_enough) || (title == "overtime" && is_first) => {
                let answer = worker.try_heartbeat(&job).await;
                return match answer {
                    Ok(answer) if answer.code() != "ok" => None,
                    _ => Some(job),
                };
            }
            "quota" if is_first => QUOTA,
            _ => COMPLETED,
        };
        match worker.try_submit(&job, result).await {
            Ok(answer) if answer.code() == "ok" => {
                self.acknowledged.push(job);
                None
            }
            // Its attempt was fenced, or its run taken, while a part was down.
            Ok(_) => None,
            Err(_) => Some(job),
        }
    }

    /// Takes turns until something is so.
    pub(super) async fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let patience = Instant::now() + 4 * PATIENCE;
        while !is_so(self) {
            let entries = || self.pool.pool.ledger().entries();
            assert!(Instant::now() < patience, "{what}: {:#?}", entries());
            self.turn().await;
        }
    }

    pub(super) fn done(&self, board: &BoardSlug, tasks: &[TaskId]) -> bool {
        let done = |task| matches!(&*self.stage.status(board, task), "done" | "blocked");
        tasks.iter().all(done)
    }
}
