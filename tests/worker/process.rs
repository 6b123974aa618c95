//! The worker under test as a process, and a way to know whether anything of its command is alive.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use hermes_pool::protocol::write_key_file;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use crate::coordinator::{Coordinator, PATIENCE};

/// A folder with all that a worker needs.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(coordinator: &Coordinator) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_key_file(&folder.path().join("worker.key"), &coordinator.key).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder that the command of the tests' run works in.
    pub(crate) fn task_folder(&self) -> PathBuf {
        self.path("workspace/lab/t_1a2b3c4d")
    }

    pub(crate) fn outbox(&self) -> PathBuf {
        self.path("workspace/.hermes-pool/outbox-1.json")
    }

    /// Starts a worker of ordinal 1 whose command is this shell script.
    pub(crate) fn worker(&self, coordinator: &Coordinator, flags: &[&str], script: &str) -> Worker {
        Worker(
            self.command(coordinator, flags, &["/bin/sh", "-c", script])
                .spawn()
                .unwrap(),
        )
    }

    /// The command line of a worker, for tests that change something about it.
    pub(crate) fn command(
        &self,
        coordinator: &Coordinator,
        flags: &[&str],
        command: &[&str],
    ) -> Command {
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.path("log"))
            .unwrap();
        let mut worker = Command::new(env!("CARGO_BIN_EXE_hermes-pool"));
        worker
            .args(["worker", "--ordinal", "1", "--coordinator"])
            .arg(coordinator.url())
            .arg("--key-file")
            .arg(self.path("worker.key"))
            .arg("--workspace")
            .arg(self.path("workspace"))
            .args(flags)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .env("RUST_LOG", "debug");
        worker
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    /// Waits until the worker has logged this.
    pub(crate) fn wait_for_log(&self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(
                Instant::now() < end,
                "{text:?} is not in the log: {}",
                self.log()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A gate that a command waits at until the test opens it.
    pub(crate) fn gate(&self) -> Gate {
        let path = self.path("gate");
        make_fifo(&path);
        Gate(path)
    }

    /// A sign of life for a command; see [`Life`].
    pub(crate) fn life(&self) -> Life {
        Life::new(&self.path("life"))
    }
}

pub(crate) struct Worker(pub(crate) Child);

impl Worker {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The guard of the worker's command, which leads the command's process group.
    pub(crate) fn guard(&self) -> Pid {
        let worker = self.pid().as_raw_pid();
        let children = format!("/proc/{worker}/task/{worker}/children");
        let children = fs::read_to_string(children).unwrap();
        let mut children = children.split_whitespace();
        let guard = children.next().unwrap().parse().unwrap();
        assert_eq!(children.next(), None, "a worker has one child");
        Pid::from_raw(guard).unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for the worker to end by itself; its exit status.
    pub(crate) fn exit_status(&mut self) -> i32 {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                let signal = status.signal();
                return status
                    .code()
                    .unwrap_or_else(|| panic!("ended by {signal:?}"));
            }
            assert!(Instant::now() < end, "the worker does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the worker is stopped by SIGSTOP.
    pub(crate) fn is_frozen(&self) -> bool {
        let stat = format!("/proc/{}/stat", self.pid().as_raw_pid());
        let stat = fs::read_to_string(stat).unwrap();
        stat.rsplit_once(')')
            .unwrap()
            .1
            .trim_start()
            .starts_with('T')
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; the guard does the rest.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn make_fifo(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
}

/// A FIFO that a command reads from.
pub(crate) struct Gate(PathBuf);

impl Gate {
    /// The part of a script that waits.
    pub(crate) fn wait(&self) -> String {
        format!("read line < '{}'", self.0.display())
    }

    /// Lets the command go on.
    pub(crate) fn open(&self) {
        fs::write(&self.0, "go\n").unwrap();
    }
}

/// A FIFO that a command opens and all its descendants inherit. What they write to it arrives here, and it ends when
/// the last of them is dead: the kernel says so, whatever they did to hide.
pub(crate) struct Life {
    path: PathBuf,
    lines: Receiver<String>,
}

impl Life {
    fn new(path: &Path) -> Self {
        make_fifo(path);
        let (sender, lines) = mpsc::channel();
        let fifo = path.to_owned();
        thread::spawn(move || {
            // Opening waits for the first writer, reading ends with the last.
            let mut reader = BufReader::new(File::open(fifo).unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 0 {
                let _ = sender.send(std::mem::take(&mut line).trim_end().to_owned());
            }
        });
        Self {
            path: path.to_owned(),
            lines,
        }
    }

    /// The beginning of a script whose processes show that they are alive on descriptor 9.
    pub(crate) fn script(&self, rest: &str) -> String {
        format!("exec 9>'{}'; {rest}", self.path.display())
    }

    /// Waits until the script has said this.
    pub(crate) fn expect(&self, said: &str) {
        let line = self.lines.recv_timeout(PATIENCE);
        assert_eq!(line.as_deref(), Ok(said), "the command says");
    }

    /// Whether everything has been dead by then.
    pub(crate) fn ends_within(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return true,
                Err(mpsc::RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}
