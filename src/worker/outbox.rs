//! A result that the coordinator has not acknowledged yet, on disk.
//!
//! It is written before it is first sent and removed when the coordinator has acknowledged or refused it. A worker that
//! is killed in between finds it when it starts again and delivers it before it asks for work. Delivering twice does no
//! harm: the second time is acknowledged as a repeat.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::protocol::{Binding, Json, ProtocolError, parse_json, write_document};

/// The shape of the document.
const SCHEMA: i64 = 1;

/// A result, and the attempt it is the result of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Undelivered {
    pub(super) binding: Binding,
    pub(super) payload: Json,
}

/// The place of one result.
#[derive(Debug)]
pub(super) struct Outbox {
    path: PathBuf,
}

/// The outbox holds something that is no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutboxError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// The file is no result; it was set aside.
    #[error("{} held no result; it was moved to {}", path.display(), aside.display())]
    SetAside { path: PathBuf, aside: PathBuf },
}

impl Outbox {
    /// The outbox at this path, which need not exist.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Keeps a result; when this returns it survives a crash.
    ///
    /// # Errors
    /// Those of [`write_document`].
    pub(super) fn keep(&self, undelivered: &Undelivered) -> Result<(), ProtocolError> {
        write_document(&self.path, &undelivered.to_json(), 0o600)
    }

    /// The result that was kept, if there is one.
    ///
    /// # Errors
    /// [`OutboxError`]. A file without a result is set aside, so that it is in nobody's way afterwards.
    pub(super) fn load(&self) -> Result<Option<Undelivered>, OutboxError> {
        let unreadable = |error| OutboxError::Unreadable {
            path: self.path.clone(),
            error,
        };
        let content = match fs::read(&self.path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let document = parse_json(&content).ok();
        if let Some(undelivered) = document.as_ref().and_then(Undelivered::parse) {
            return Ok(Some(undelivered));
        }
        let aside = self.path.with_extension("unreadable");
        fs::rename(&self.path, &aside).map_err(unreadable)?;
        Err(OutboxError::SetAside {
            path: self.path.clone(),
            aside,
        })
    }

    /// Forgets the result. Should a crash bring it back, it is delivered once more.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Where the result is kept.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Undelivered {
    fn to_json(&self) -> Json {
        Json::object([
            ("schema", Json::from(SCHEMA)),
            ("board", Json::from(self.binding.board.as_str())),
            ("task_id", Json::from(self.binding.task_id.as_str())),
            ("run_id", Json::from(self.binding.run_id.as_str())),
            ("worker_ordinal", Json::from(self.binding.worker_ordinal)),
            ("attempt", Json::Int(self.binding.attempt.clone())),
            ("payload", self.payload.clone()),
        ])
    }

    fn parse(document: &Json) -> Option<Self> {
        let text = |name: &str| document.get(name)?.as_str().map(str::to_owned);
        if document.get("schema")?.as_i64()? != SCHEMA {
            return None;
        }
        let Json::Int(attempt) = document.get("attempt")? else {
            return None;
        };
        Some(Self {
            binding: Binding {
                board: text("board")?,
                task_id: text("task_id")?,
                run_id: text("run_id")?,
                worker_ordinal: document.get("worker_ordinal")?.as_i64()?,
                attempt: attempt.clone(),
            },
            payload: document.get("payload")?.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Integer;

    fn undelivered() -> Undelivered {
        Undelivered {
            binding: Binding {
                board: "lab".to_owned(),
                task_id: "t_1".to_owned(),
                run_id: "7".to_owned(),
                worker_ordinal: 2,
                attempt: Integer::from(3_i64),
            },
            payload: Json::object([("outcome", Json::from("completed"))]),
        }
    }

    #[test]
    fn a_kept_result_is_found_until_it_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox::at(folder.path().join("state/outbox-2.json"));
        assert!(outbox.load().unwrap().is_none());
        outbox.keep(&undelivered()).unwrap();
        assert_eq!(outbox.load().unwrap(), Some(undelivered()));
        outbox.clear().unwrap();
        assert!(outbox.load().unwrap().is_none());
        outbox.clear().unwrap();
    }

    #[test]
    fn what_is_no_result_is_set_aside_once() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox::at(folder.path().join("outbox-2.json"));
        for content in ["", "{}", r#"{"schema":2}"#, "[1"] {
            fs::write(outbox.path(), content).unwrap();
            let error = outbox.load().unwrap_err();
            assert!(matches!(error, OutboxError::SetAside { .. }), "{error}");
            assert!(outbox.load().unwrap().is_none());
        }
        let aside = folder.path().join("outbox-2.unreadable");
        assert_eq!(fs::read_to_string(aside).unwrap(), "[1");
    }
}
