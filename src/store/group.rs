//! Many operations, one commit.
//!
//! Each operation of a group stands behind its own savepoint: one that fails or panics is rolled back to it and fails
//! alone. Some failures (a full disk, an I/O error) make SQLite end the whole transaction; a savepoint set after that
//! would begin a transaction of its own. So after every failure it is checked whether the transaction is still there, and
//! if it is not, nothing else of the group runs and all of it is answered [`StoreError::Unknown`]. One that is alone in
//! its group needs no savepoint: it is taken back with the transaction.
//!
//! A damaged page fails whoever meets it, alone; that the file is damaged is said of the group all the same.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::{FileProblem, Operation, Store, StoreError, Tx, sql};
use crate::domain::Timestamp;

/// An operation that waits for its commit, with whoever is to be answered.
pub struct Job(Box<dyn Member>);

impl Job {
    /// Wraps an operation; `answer` is called once, after the commit.
    pub fn new<O: Operation>(
        operation: O,
        answer: impl FnOnce(Result<O::Reply, StoreError>) + Send + 'static,
    ) -> Self {
        Self(Box::new(Pending {
            operation: Some(operation),
            outcome: Err(StoreError::Unknown),
            answer,
        }))
    }

    fn is_ok(&self) -> bool {
        self.0.is_ok()
    }

    fn damage(&self) -> Option<StoreError> {
        self.0.error().filter(|error| error.is_damage()).cloned()
    }
}

/// What a group needs of an operation, whatever its type.
trait Member: Send {
    fn apply(&mut self, tx: &Tx<'_>, now: Timestamp);
    fn is_ok(&self) -> bool;
    fn error(&self) -> Option<&StoreError>;
    fn fail(&mut self, error: StoreError);
    fn answer(self: Box<Self>);
}

struct Pending<O: Operation, F> {
    operation: Option<O>,
    outcome: Result<O::Reply, StoreError>,
    answer: F,
}

impl<O, F> Member for Pending<O, F>
where
    O: Operation,
    F: FnOnce(Result<O::Reply, StoreError>) + Send,
{
    fn apply(&mut self, tx: &Tx<'_>, now: Timestamp) {
        if let Some(operation) = self.operation.take() {
            self.outcome = operation.apply(tx, now);
        }
    }

    fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }

    fn error(&self) -> Option<&StoreError> {
        self.outcome.as_ref().err()
    }

    fn fail(&mut self, error: StoreError) {
        self.outcome = Err(error);
    }

    fn answer(self: Box<Self>) {
        (self.answer)(self.outcome);
    }
}

/// Why a group was not committed.
enum Broken {
    /// It never began, or was taken back: nothing of it is stored.
    NotStored(StoreError),
    /// It ended in the middle or at its commit.
    Lost(StoreError),
}

/// The answers of a group whose commit is over. They leave when whoever committed has noted how it went, so that nobody who
/// was answered finds what was known before.
#[must_use = "nobody is answered before they leave"]
pub struct Answers(Vec<Job>);

impl Answers {
    /// Answers every member.
    pub fn leave(self) {
        self.0.into_iter().for_each(|job| job.0.answer());
    }
}

impl Store {
    /// Runs a group in one transaction. Returns what kept the group as a whole from being committed, or the damage that a
    /// member met, for the log and operators; and what the members are told.
    pub fn commit_group(
        &mut self,
        mut group: Vec<Job>,
        now: Timestamp,
    ) -> (Result<(), StoreError>, Answers) {
        let verdict = match self.commit(&mut group, now) {
            Ok(()) => group.iter().find_map(Job::damage).map_or(Ok(()), Err),
            Err(Broken::NotStored(error)) => {
                group.iter_mut().for_each(|job| job.0.fail(error.clone()));
                Err(error)
            }
            Err(Broken::Lost(error)) => {
                group
                    .iter_mut()
                    .for_each(|job| job.0.fail(StoreError::Unknown));
                Err(error)
            }
        };
        (verdict, Answers(group))
    }

    /// Runs one operation in a transaction of its own.
    ///
    /// # Errors
    /// Those of the operation, and [`StoreError::Unknown`] if its commit failed.
    pub fn run<O: Operation>(
        &mut self,
        operation: O,
        now: Timestamp,
    ) -> Result<O::Reply, StoreError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let job = Job::new(operation, move |outcome| {
            // The receiver below outlives the group.
            let _ = sender.send(outcome);
        });
        let (group, answers) = self.commit_group(vec![job], now);
        answers.leave();
        receiver
            .recv()
            .unwrap_or_else(|_| group.and(Err(StoreError::Unknown)))
    }

    /// Learns whether a file that was found damaged is whole again: its pages, and its tables.
    ///
    /// # Errors
    /// [`StoreError`] where it is not.
    pub fn look_at_all_pages(&self) -> Result<(), StoreError> {
        let failed = |error| self.fail(&error);
        // Pages that were read from the damaged file are not those that stand there once it is mended.
        self.connection
            .execute_batch("PRAGMA shrink_memory")
            .map_err(failed)?;
        let found: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(failed)?;
        if found != "ok" {
            // In SQLite's words for whoever meets the damage, so that it is told once.
            let damaged = FileProblem::Malformed("database disk image is malformed".to_owned());
            return Err(StoreError::file(&self.path, damaged));
        }
        for (_, statement) in sql::ALL {
            self.connection
                .prepare(statement)
                .map_err(|error| StoreError::statement(&self.path, &error))?;
        }
        Ok(())
    }

    /// Puts the log back, which was taken away under the open connection. After that the store has to be closed and opened
    /// anew.
    ///
    /// # Errors
    /// What keeps it from that: the file is not there any more, the log of somebody else stands there, it cannot be written.
    pub fn save_log(&self) -> Result<(), StoreError> {
        match self.place.still_at(&self.path) {
            Err(error) if error.is_log_gone() => {}
            is_there => return is_there,
        }
        self.place
            .put_log_back()
            .map_err(|error| StoreError::file(&self.path, FileProblem::Io(error.to_string())))?;
        // Otherwise the last one to close the file would remove the log.
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map(drop)
            .map_err(|error| StoreError::sqlite(&self.path, &error))
    }

    fn commit(&mut self, group: &mut [Job], now: Timestamp) -> Result<(), Broken> {
        let connection = &self.connection;
        let begun = run(connection, "BEGIN IMMEDIATE");
        begun.map_err(|error| Broken::NotStored(self.fail(&error)))?;
        let lost = |error| {
            // After a failed COMMIT the transaction may still stand. If this fails too, there is none.
            let _ = run(connection, "ROLLBACK");
            Broken::Lost(error)
        };
        let end = match group {
            [alone] => {
                apply(connection, alone, now);
                if alone.is_ok() { "COMMIT" } else { "ROLLBACK" }
            }
            members => {
                for job in members {
                    apply_alone(connection, job, now).map_err(|error| lost(self.fail(&error)))?;
                }
                "COMMIT"
            }
        };
        if let Err(error) = self.place.still_at(&self.path) {
            // Rolled back, so that nothing of it is stored, wherever the file is now.
            let _ = run(connection, "ROLLBACK");
            return Err(Broken::NotStored(error));
        }
        run(connection, end).map_err(|error| lost(self.fail(&error)))
    }

    /// What an error means. A file that was taken away explains whatever SQLite finds in its place.
    fn fail(&self, error: &rusqlite::Error) -> StoreError {
        let taken_away = self.place.still_at(&self.path).err();
        taken_away.unwrap_or_else(|| StoreError::sqlite(&self.path, error))
    }
}

/// Runs one member behind its savepoint. An error here means that the transaction is lost.
fn apply_alone(
    connection: &Connection,
    job: &mut Job,
    now: Timestamp,
) -> Result<(), rusqlite::Error> {
    run(connection, "SAVEPOINT member")?;
    apply(connection, job, now);
    if !job.is_ok() {
        // Without a transaction this answers "no such savepoint".
        run(connection, "ROLLBACK TO member")?;
    }
    run(connection, "RELEASE member")
}

/// Runs one member. What a failed one has written is still to be rolled back.
fn apply(connection: &Connection, job: &mut Job, now: Timestamp) {
    let tx = Tx::on(connection);
    // The job's state is replaced below, and SQLite's is rolled back: nothing half changed is looked at afterwards.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job.0.apply(&tx, now))) {
        job.0.fail(StoreError::Panicked(message_of(&*panic)));
    }
}

fn run(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// What a panic said.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
