//! What one board holds, and what it answers about its runs.

use std::collections::BTreeMap;

use hermes_pool::domain::{Anchor, ClaimLock, EndedRun, Fate, Outcome, RunId, RunRef, TaskId};

use super::{Deed, What};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ready,
    Running,
    Done,
    Blocked,
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) status: Status,
    pub(super) lock: Option<ClaimLock>,
    pub(super) run: Option<i64>,
    pub(super) expires_at: i64,
    pub(super) limit_seconds: Option<i64>,
    /// It can never be offered.
    pub(super) unfit: bool,
    pub(super) failures: i64,
    /// What follows a completion was done too.
    pub(super) finished: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) task: String,
    pub(super) lock: ClaimLock,
    pub(super) started_at: i64,
    pub(super) ended: Option<EndedRun>,
}

/// What a board holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    pub(super) tasks: BTreeMap<String, Task>,
    pub(super) runs: BTreeMap<i64, Run>,
    pub(super) run_sequence: i64,
    pub(super) event_sequence: i64,
    oldest: (String, i64),
}

impl Contents {
    pub(super) fn new(file: u64, now: i64) -> Self {
        Self {
            oldest: (format!("t_first_{file}"), now),
            ..Self::default()
        }
    }

    pub(super) fn anchor(&self) -> Anchor {
        Anchor {
            run_sequence: self.run_sequence,
            event_sequence: self.event_sequence,
            oldest_task: Some(self.oldest.clone()),
        }
    }

    /// Whether this is the board that was recorded, later.
    fn continues(&self, anchor: &Anchor) -> bool {
        self.run_sequence >= anchor.run_sequence
            && self.event_sequence >= anchor.event_sequence
            && anchor.oldest_task.as_ref() == Some(&self.oldest)
    }

    /// Adds a task that waits for its first run.
    pub(super) fn add_task(&mut self, id: String, unfit: bool, limit_seconds: Option<i64>) {
        self.event_sequence += 1;
        let task = Task {
            status: Status::Ready,
            lock: None,
            run: None,
            expires_at: 0,
            limit_seconds,
            unfit,
            failures: 0,
            finished: true,
        };
        self.tasks.insert(id, task);
    }

    /// A ready task becomes a run under `lock`.
    pub(super) fn claim(
        &mut self,
        task: &str,
        lock: &ClaimLock,
        expires_at: i64,
        now: i64,
    ) -> Option<i64> {
        let row = self.tasks.get_mut(task)?;
        if row.status != Status::Ready {
            return None;
        }
        self.run_sequence += 1;
        self.event_sequence += 1;
        let run = self.run_sequence;
        (row.status, row.run, row.lock) = (Status::Running, Some(run), Some(lock.clone()));
        row.expires_at = expires_at;
        let made = Run {
            task: task.to_owned(),
            lock: lock.clone(),
            started_at: now,
            ended: None,
        };
        self.runs.insert(run, made);
        Some(run)
    }

    /// Runs that tasks are held by, in order of their tasks.
    pub(super) fn held(&self) -> Vec<i64> {
        self.tasks.values().filter_map(|task| task.run).collect()
    }

    pub(super) fn close(&mut self, run: i64, ended: EndedRun, status: Status) {
        self.event_sequence += 1;
        let Some(row) = self.runs.get_mut(&run) else {
            return;
        };
        row.ended = Some(ended);
        if let Some(task) = self.tasks.get_mut(&row.task) {
            (task.status, task.lock, task.run) = (status, None, None);
        }
    }

    /// Deletes a task with all that belongs to it.
    pub(super) fn delete(&mut self, task: &str) {
        self.tasks.remove(task);
        self.runs.retain(|_, run| run.task != task);
    }

    pub(super) fn deed(&self, run: i64, what: What, now: i64) -> Option<Deed> {
        let run = self.runs.get(&run)?;
        let task = self.tasks.get(&run.task)?;
        Some(Deed {
            at: now,
            lock: run.lock.clone(),
            what,
            started_at: run.started_at,
            limit_seconds: task.limit_seconds,
            unfit: task.unfit,
        })
    }

    pub(super) fn is_current(&self, run: i64, lock: &ClaimLock) -> bool {
        let Some(row) = self.runs.get(&run) else {
            return false;
        };
        let Some(task) = self.tasks.get(&row.task) else {
            return false;
        };
        row.ended.is_none() && task.run == Some(run) && task.lock.as_ref() == Some(lock)
    }

    /// Whether neither the run nor its task is here, on what is the board that was recorded, later. That is certain
    /// (KANBAN.md, 12.1, row 9), also where the board was put back from an older copy and has come as far again.
    pub(super) fn has_lost(&self, run: &RunRef, anchor: &Anchor) -> bool {
        let number = number(&run.run);
        self.run_sequence >= number
            && !self.runs.contains_key(&number)
            && !self.tasks.contains_key(run.task.as_str())
            && self.continues(anchor)
    }

    pub(super) fn fate(
        &self,
        run: &RunRef,
        lock: Option<&ClaimLock>,
        anchor: Option<&Anchor>,
        now: i64,
    ) -> Fate {
        let replaced = |why: &str| Fate::BoardReplaced {
            why: why.to_owned(),
        };
        let number = number(&run.run);
        if self.run_sequence < number {
            return replaced("it never issued this run");
        }
        let task = self.tasks.get(run.task.as_str());
        let Some(row) = self.runs.get(&number) else {
            return match task {
                Some(_) => Fate::RunGone,
                None if anchor.is_some_and(|anchor| self.continues(anchor)) => Fate::TaskGone,
                None => replaced("neither task nor run is there"),
            };
        };
        if row.task != run.task.as_str() {
            return replaced("the run belongs to another task");
        }
        if lock.is_some_and(|lock| row.lock != *lock) {
            return replaced("the run was claimed under another lock");
        }
        if let Some(ended) = &row.ended {
            return Fate::Ended(ended.clone());
        }
        match task.filter(|_| self.is_current(number, &row.lock)) {
            Some(task) => Fate::Current {
                expired: task.expires_at < now,
                started_at: row.started_at,
                max_runtime_seconds: task.limit_seconds,
            },
            None => Fate::Superseded {
                why: "not current".to_owned(),
            },
        }
    }
}

/// A run that ended like this, and nothing more is known of it.
pub(super) fn ended(outcome: Outcome) -> EndedRun {
    EndedRun {
        outcome,
        summary: None,
        error: None,
        mark: None,
        by_lock: None,
        claimed_by_us: Some(true),
        landing: None,
        task_status: None,
    }
}

pub(super) fn run_id(number: i64) -> RunId {
    RunId::parse(&number.to_string()).unwrap()
}

pub(super) fn number(run: &RunId) -> i64 {
    run.row_id().unwrap_or(-1)
}

pub(super) fn task_id(id: &str) -> TaskId {
    TaskId::parse(id).unwrap()
}
