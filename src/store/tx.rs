//! The one way to a prepared statement. Statements are cached; their failures carry the path of the file.

use std::path::Path;

use rusqlite::{CachedStatement, Connection, Params, Row};

use super::StoreError;
use crate::domain::IllegalRow;

/// A connection inside a transaction (or one that only reads).
pub struct Tx<'a> {
    connection: &'a Connection,
}

impl<'a> Tx<'a> {
    pub(super) fn on(connection: &'a Connection) -> Self {
        Self { connection }
    }

    fn fail(&self, error: &rusqlite::Error) -> StoreError {
        let path = self.connection.path().unwrap_or_default();
        StoreError::statement(Path::new(path), error)
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>, StoreError> {
        self.connection
            .prepare_cached(sql)
            .map_err(|error| self.fail(&error))
    }

    /// Runs a statement; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        self.prepare(sql)?
            .execute(params)
            .map_err(|error| self.fail(&error))
    }

    /// The first row of a query. A row that cannot be understood is an error.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, IllegalRow>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params).map_err(|error| self.fail(&error))?;
        match rows.next().map_err(|error| self.fail(&error))? {
            Some(row) => Ok(Some(read(row)?)),
            None => Ok(None),
        }
    }

    /// All rows of a query. A row that cannot be understood stands among the others.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T, IllegalRow>,
    ) -> Result<Vec<Result<T, IllegalRow>>, StoreError> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params).map_err(|error| self.fail(&error))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(|error| self.fail(&error))? {
            found.push(read(row));
        }
        Ok(found)
    }
}
