//! The demo's folder: a board with the sample tasks, the pool's key and a key for each worker.
//!
//! ```text
//! hermes/          home of the board
//! state/           of the coordinator
//! pool.key         the master key
//! operator.token   of the operators' server
//! worker-<n>.key   the key of each worker
//! worker-<n>.log   what each worker logged
//! workspace/       where the workers' commands run
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::actors::PoolSettings;
use crate::board::BoardError;
use crate::board::hermes::{BoardDetails, HermesBoard, HermesBoards, NewTask, Settings};
use crate::clock::{Clock, SystemClock};
use crate::domain::{BoardSlug, Lane, LeasePolicy, PoolId, TaskId};
use crate::faults::Faults;
use crate::protocol::{derive_ordinal_key, generate_key, write_key_file};

use super::sample::{SAMPLES, Sample};
use super::task::ALIVE_FILE;
use crate::cli::failure::Failure;

/// Workers, and slots of the pool.
pub(super) const SLOTS: u16 = 3;

/// A sample with the id that it has on the board.
pub(super) struct Task {
    pub(super) id: TaskId,
    pub(super) sample: &'static Sample,
}

/// Everything that is there before the coordinator starts.
pub(super) struct Stage {
    folder: PathBuf,
    lane: Lane,
    pub(super) board: BoardSlug,
    pub(super) boards: HermesBoards,
    /// In the order of [`SAMPLES`].
    pub(super) tasks: Vec<Task>,
}

impl Stage {
    /// Sets it up in an empty folder.
    ///
    /// # Errors
    /// What the system, or the board, says.
    pub(super) fn set(folder: &Path) -> Result<Self, Failure> {
        let mut stage = Self {
            folder: folder.to_owned(),
            lane: Lane::parse("demo").map_err(Failure::failed)?,
            board: BoardSlug::parse("demo").map_err(Failure::failed)?,
            boards: HermesBoards::new(folder.join("hermes"), Settings::default()),
            tasks: Vec::new(),
        };
        stage.make_keys()?;
        stage.make_board().map_err(Failure::failed)?;
        Ok(stage)
    }

    fn make_keys(&self) -> Result<(), Failure> {
        let master = generate_key().map_err(Failure::failed)?;
        write_key_file(&self.pool_key(), &master).map_err(Failure::failed)?;
        for ordinal in 0..SLOTS {
            derive_ordinal_key(&master, ordinal, SLOTS)
                .and_then(|key| write_key_file(&self.worker_key(ordinal), &key))
                .map_err(Failure::failed)?;
        }
        Ok(())
    }

    fn make_board(&mut self) -> Result<(), BoardError> {
        let now = SystemClock::new().now().whole_seconds();
        let details = BoardDetails::default();
        self.boards.create(&self.board, &details, now)?;
        let mut board = self.open_board()?;
        let mut ids: Vec<String> = Vec::new();
        for sample in &SAMPLES {
            let parents = sample.parents.iter().filter_map(|index| ids.get(*index));
            let task = NewTask {
                title: sample.title.to_owned(),
                body: Some(sample.body()),
                assignee: Some(self.lane.to_string()),
                created_by: Some("hermes-pool".to_owned()),
                priority: sample.priority,
                parents: parents.cloned().collect(),
                ..NewTask::default()
            };
            let id = board.create_task(&task, now)?;
            ids.push(id.clone());
            let id = TaskId::parse(&id).map_err(|error| BoardError::Refused(error.to_string()))?;
            self.tasks.push(Task { id, sample });
        }
        Ok(())
    }

    /// The board, to look at.
    ///
    /// # Errors
    /// What the board says.
    pub(super) fn open_board(&self) -> Result<HermesBoard, BoardError> {
        self.boards.open(&self.board)
    }

    /// The task of this id.
    pub(super) fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id.as_str() == id)
    }

    /// What the pool is started with: the shortest lease, and eyes that are quick.
    pub(super) fn pool_settings(&self) -> Result<PoolSettings, Failure> {
        Ok(PoolSettings {
            id: PoolId::parse("demo").map_err(Failure::failed)?,
            slots: SLOTS,
            policy: LeasePolicy::clamped(60, 3, 300),
            state_dir: self.folder.join("state"),
            key_file: self.pool_key(),
            lanes: vec![self.lane.clone()],
            include: Vec::new(),
            poll: Duration::from_millis(100),
            failure_limit: 2,
            interval_seconds: 1.0,
            retention_seconds: 3600,
            faults: Faults::default(),
        })
    }

    fn pool_key(&self) -> PathBuf {
        self.folder.join("pool.key")
    }

    /// File of the operators' token.
    pub(super) fn operator_token(&self) -> PathBuf {
        self.folder.join("operator.token")
    }

    /// File of a worker's key.
    pub(super) fn worker_key(&self, ordinal: u16) -> PathBuf {
        self.folder.join(format!("worker-{ordinal}.key"))
    }

    /// Where a worker logs.
    pub(super) fn worker_log(&self, ordinal: u16) -> PathBuf {
        self.folder.join(format!("worker-{ordinal}.log"))
    }

    /// Where the workers work.
    pub(super) fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// The file that the command of a task holds locked while it lives.
    pub(super) fn alive_file(&self, task: &TaskId) -> PathBuf {
        let folder = self.workspace().join(self.board.as_str());
        folder.join(task.as_str()).join(ALIVE_FILE)
    }
}
