//! One Hermes, in a process and a home of its own, answering one request after the other.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::python;

/// Where the oracle and what it needs are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle")
}

/// A running oracle.
pub(crate) struct Oracle {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    home: PathBuf,
}

impl Oracle {
    /// Starts the reference release on a home.
    pub(crate) fn start(home: &Path) -> Option<Self> {
        Self::start_release(home, python::REFERENCE)
    }

    /// Starts a release on a home; `None` where it is not to be had.
    pub(crate) fn start_release(home: &Path, release: &str) -> Option<Self> {
        // Hermes' check after each commit fails spuriously while somebody else writes, and somebody else is us.
        Self::start_with(home, release, &["--skip-length-check"])
    }

    /// Starts a release on a home with options of the oracle's own; `None` where it is not to be had.
    pub(crate) fn start_with(home: &Path, release: &str, options: &[&str]) -> Option<Self> {
        let python = python::with_hermes(release)?;
        let home = home.canonicalize().expect("the home exists");
        let mut process = Command::new(python)
            .arg(folder().join("hermes_oracle.py"))
            .arg("--home")
            .arg(&home)
            .args(options)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the oracle starts");
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("its output is piped"));
        Some(Self {
            process,
            requests,
            answers,
            home,
        })
    }

    /// The home's path, as it occurs in answers.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        let requests = self.requests.as_mut().expect("the oracle was not stopped");
        writeln!(requests, "{request}").expect("the oracle reads");
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .expect("the oracle answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{request}: {line:?}: {error}"))
    }

    /// Asks for something that must succeed.
    pub(crate) fn get(&mut self, op: &str, arguments: Value) -> Value {
        let mut request = arguments;
        request["op"] = json!(op);
        let mut answer = self.ask(&request);
        assert_eq!(answer["ok"], true, "{request}: {answer}");
        answer["result"].take()
    }

    /// Every board of the home, row by row, with the home's path made neutral.
    pub(crate) fn dump(&mut self) -> Value {
        let mut dumps = json!({});
        let boards = self.get("board_list", json!({"include_archived": true}));
        for board in boards.as_array().expect("a list of boards") {
            let slug = board["slug"].as_str().expect("a board has a slug");
            let database = board["db_path"].as_str().expect("a board has a path");
            if Path::new(database).exists() {
                dumps[slug] = self.get("dump", json!({"board": slug}));
            }
        }
        dumps
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It ends by itself when there is nothing more to read.
        drop(self.requests.take());
        let _ = self.process.wait();
    }
}
