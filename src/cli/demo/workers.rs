//! The demo's workers: separate `hermes-pool worker` processes, none of which outlives the demo.
//!
//! Each ends with its standard input, which the system closes however the demo ends.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::stage::{SLOTS, Stage};

/// How long workers may take to end when they are asked to.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// The processes, by ordinal.
pub(super) struct Workers<'a> {
    stage: &'a Stage,
    program: PathBuf,
    coordinator: SocketAddr,
    processes: Vec<Child>,
}

impl<'a> Workers<'a> {
    /// Starts one worker for each slot.
    ///
    /// # Errors
    /// What the system says to a new process.
    pub(super) fn start(stage: &'a Stage, coordinator: SocketAddr) -> io::Result<Self> {
        let mut workers = Self {
            stage,
            program: std::env::current_exe()?,
            coordinator,
            processes: Vec::new(),
        };
        for ordinal in 0..SLOTS {
            let process = workers.launch(ordinal)?;
            workers.processes.push(process);
        }
        Ok(workers)
    }

    fn launch(&self, ordinal: u16) -> io::Result<Child> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.stage.worker_log(ordinal))?;
        Command::new(&self.program)
            .args(["worker", "--end-with-stdin", "--ordinal"])
            .arg(ordinal.to_string())
            .arg("--coordinator")
            .arg(format!("http://{}", self.coordinator))
            .arg("--key-file")
            .arg(self.stage.worker_key(ordinal))
            .arg("--workspace")
            .arg(self.stage.workspace())
            .arg("--")
            .arg(&self.program)
            .arg("demo-task")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
    }

    /// The process of a worker.
    pub(super) fn pid(&self, ordinal: u16) -> Option<u32> {
        self.processes.get(usize::from(ordinal)).map(Child::id)
    }

    /// Kills a worker with SIGKILL.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn kill(&mut self, ordinal: u16) -> io::Result<()> {
        let process = self.process(ordinal)?;
        process.kill()?;
        process.wait().map(|_| ())
    }

    /// Starts a worker again that was killed.
    ///
    /// # Errors
    /// What the system says to a new process.
    pub(super) fn restart(&mut self, ordinal: u16) -> io::Result<()> {
        let process = self.launch(ordinal)?;
        *self.process(ordinal)? = process;
        Ok(())
    }

    fn process(&mut self, ordinal: u16) -> io::Result<&mut Child> {
        let process = self.processes.get_mut(usize::from(ordinal));
        process.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn are_gone(&mut self) -> bool {
        self.processes
            .iter_mut()
            .all(|process| !matches!(process.try_wait(), Ok(None)))
    }
}

impl Drop for Workers<'_> {
    /// Asks all of them to end, and waits until they have; one that does not is killed.
    fn drop(&mut self) {
        for process in &mut self.processes {
            // One that was waited for has no process any more that a signal could reach.
            if matches!(process.try_wait(), Ok(None)) {
                let _ = kill_process(Pid::from_child(process), Signal::TERM);
            }
        }
        let mut waited = Duration::ZERO;
        while !self.are_gone() && waited < PATIENCE {
            thread::sleep(LOOK);
            waited += LOOK;
        }
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Whether a process holds the lock of this file.
///
/// # Errors
/// What the system says; a file that is not there is locked by nobody.
pub(super) fn is_locked(file: &Path) -> io::Result<bool> {
    match File::open(file) {
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
