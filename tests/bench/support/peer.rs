//! Programs in Python that we are compared with, each in a process of its own.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::Outcome;
use crate::python;

/// Names the folder of the Python reference.
const REFERENCE: &str = "POOL_REFERENCE";
/// What a row says that has no reference to be compared with.
pub(crate) const NO_REFERENCE: &str =
    "not compared: POOL_REFERENCE=DIR names the folder of the Python reference";
/// What a row says that has no Hermes.
pub(crate) const NO_HERMES: &str = "not measured: Hermes cannot be installed here";

/// The folder of the reference, if there is one.
pub(crate) fn reference() -> Option<PathBuf> {
    std::env::var_os(REFERENCE).map(PathBuf::from)
}

/// A running peer; it ends with this value.
pub(crate) struct Peer {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// The reference on a folder that holds `pool.key`.
    pub(crate) fn reference(modules: &Path, folder: &Path, arguments: &[&str]) -> Outcome<Self> {
        let first = [modules.as_os_str(), folder.as_os_str()];
        Self::start(Path::new("python3"), "reference.py", &first, arguments)
    }

    /// Hermes on a home; `None` where it is not to be had.
    pub(crate) fn hermes(home: &Path, arguments: &[&str]) -> Outcome<Option<Self>> {
        python::with_hermes(python::REFERENCE)
            .map(|python| Self::start(&python, "hermes.py", &[home.as_os_str()], arguments))
            .transpose()
    }

    fn start(python: &Path, script: &str, first: &[&OsStr], arguments: &[&str]) -> Outcome<Self> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/peers");
        let mut process = Command::new(python)
            .arg(scripts.join(script))
            .args(first)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().ok_or("its output is not piped")?);
        Ok(Self {
            process,
            requests,
            answers,
        })
    }

    /// Sends an empty line.
    pub(crate) fn ask(&mut self) -> Outcome<()> {
        let requests = self.requests.as_mut().ok_or("its input is not piped")?;
        Ok(writeln!(requests)?)
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a peer ended early".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself when there is nothing more to read.
        drop(self.requests.take());
        let _ = self.process.wait();
    }
}
