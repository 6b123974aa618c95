//! One command and all that it starts: a process group led by a [guard](super::guard).
//!
//! The guard gets the command's environment and folder and passes them on. The environment is the worker's own without
//! every variable whose name begins with `HERMES_POOL_` (the configuration of a pool, secrets included), plus five of
//! that prefix that tell the command what it works on. Whatever else the operator gave the worker, such as the
//! credentials of a model, was given for the command.
//!
//! Dropping a [`Group`] kills it.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::control::{Order, Report};
use super::moment::Moment;
use crate::protocol::Binding;

/// Variables of this prefix belong to the pool.
const OWN_PREFIX: &str = "HERMES_POOL_";

/// How long a guard may take to end its group before the worker does it.
const GUARD_PATIENCE: Duration = Duration::from_secs(2);

/// How long a guard may be too busy to take an order.
const ORDER_PATIENCE: Duration = Duration::from_secs(2);

/// What to start, and where.
pub(super) struct Launch<'a> {
    /// The executable that is a guard when called with `guard`.
    pub(super) guard_executable: &'a Path,
    /// The file whose lock keeps two commands of one slot apart.
    pub(super) group_lock: &'a Path,
    /// The command and its arguments.
    pub(super) command: &'a [OsString],
    /// The folder to start it in.
    pub(super) folder: &'a Path,
    /// The attempt it works on.
    pub(super) binding: &'a Binding,
    /// What it finds on its standard input.
    pub(super) context: &'a str,
    /// When it has to be gone, unless told otherwise.
    pub(super) deadline: Moment,
}

/// A group that was started.
pub(super) struct Group {
    guard: Child,
    control: UnixStream,
    /// Closed when the guard has closed its end, which it does only by ending.
    guard_ended: Receiver<()>,
}

/// The two output streams of a command.
pub(super) struct Streams {
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
}

impl Group {
    /// Starts the guard and orders it to run the command.
    ///
    /// `reports` is called with each report of the guard, and with `None` when there will be no more.
    ///
    /// # Errors
    /// What the system says if the guard cannot be started.
    pub(super) fn launch(
        launch: &Launch<'_>,
        reports: impl Fn(Option<Report>) + Send + 'static,
    ) -> io::Result<(Self, Streams)> {
        let (control, theirs) = UnixStream::pair()?;
        control.set_write_timeout(Some(ORDER_PATIENCE))?;
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        let guard = guard_command(launch)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(stdout_end)
            .stderr(stderr_end)
            .spawn()?;
        let (ended, guard_ended) = mpsc::channel();
        let reader = control.try_clone()?;
        thread::spawn(move || {
            read_reports(reader, reports);
            drop(ended);
        });
        let mut group = Self {
            guard,
            control,
            guard_ended,
        };
        group.start(launch)?;
        Ok((group, Streams { stdout, stderr }))
    }

    fn start(&mut self, launch: &Launch<'_>) -> io::Result<()> {
        let order = Order::Start {
            deadline: launch.deadline,
            context_bytes: launch.context.len(),
        };
        self.control.write_all(order.to_line().as_bytes())?;
        self.control.write_all(launch.context.as_bytes())
    }

    /// Lets the group live until a later moment.
    ///
    /// # Errors
    /// What the system says if the guard does not listen any more; it ends its group then.
    pub(super) fn extend(&mut self, deadline: Moment) -> io::Result<()> {
        let order = Order::Until(deadline).to_line();
        self.control.write_all(order.as_bytes())
    }

    /// Ends the group; when this returns all of it was killed.
    fn end(&mut self) {
        let _ = self.control.shutdown(Shutdown::Write);
        // The guard kills what left the group too, so it goes first.
        let _ = self.guard_ended.recv_timeout(GUARD_PATIENCE);
        // The guard was not waited for yet, so this is still the number of its group and of nothing else.
        let _ = kill_process_group(Pid::from_child(&self.guard), Signal::KILL);
        let _ = self.guard.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

fn guard_command(launch: &Launch<'_>) -> Command {
    let mut guard = Command::new(launch.guard_executable);
    guard
        .arg("guard")
        .arg("--lock-file")
        .arg(launch.group_lock)
        .arg("--")
        .args(launch.command)
        .current_dir(launch.folder)
        .process_group(0);
    for (name, _) in std::env::vars_os() {
        if is_own(&name) {
            guard.env_remove(name);
        }
    }
    let binding = launch.binding;
    guard
        .env("HERMES_POOL_BOARD", &binding.board)
        .env("HERMES_POOL_TASK", &binding.task_id)
        .env("HERMES_POOL_RUN", &binding.run_id)
        .env("HERMES_POOL_ATTEMPT", binding.attempt.to_string())
        .env("HERMES_POOL_WORKSPACE", launch.folder);
    guard
}

fn is_own(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes())
}

fn read_reports(control: UnixStream, reports: impl Fn(Option<Report>)) {
    for line in BufReader::new(control).lines() {
        match line.ok().as_deref().and_then(Report::parse) {
            Some(report) => reports(Some(report)),
            None => break,
        }
    }
    reports(None);
}
