//! The guard: a process between a worker and its command that outlives neither the worker nor the lease.
//!
//! The worker starts its own executable again as the guard, as the leader of a new process group, with a socket as
//! standard input and the command's output pipes as standard output and error. The guard starts the command inside its
//! group, lets go of the output pipes, and from then on only waits: when the socket closes (the worker ended, was
//! killed, or wants the group gone) or when the deadline it was last told has come, all is killed with SIGKILL, itself
//! last. The worker may be stopped, starved or dead by then: nothing of this needs it.
//!
//! Invariants:
//! - Deadlines are counted by a clock that no setting moves, so only the worker's word extends them.
//! - One command per slot: a lock on a file, held for the guard's life, makes the guard of a restarted worker wait until
//!   the group before it is gone. The kernel releases it however a guard ends.
//! - A command that ends leaves nothing behind: on Linux the guard adopts what detached itself from the group (it is the
//!   *child subreaper*) and kills that too. Elsewhere a process that leaves its group is out of reach.
//! - Signals that a command sends to its own group (`kill 0`) do not end the guard, SIGKILL aside; and if that comes,
//!   the worker sees the socket close and kills the group itself. Only a command that both detaches a process and kills
//!   its guard can leave something behind; no process can be held that is free to kill its keeper.
//!
//! Deliberately absent: logging. Standard error is the command's.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_current_process_group, wait};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::control::{Order, Report};
use super::moment::Moment;

/// The longest single wait: the timers of the kernel stand still while the host sleeps, leases do not.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What the guard is started with.
#[derive(Debug)]
pub struct GuardSettings {
    /// The file whose lock says that a command of this slot is alive.
    pub lock_file: PathBuf,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// The whole life of a guard. It returns only if there was nothing to guard; else it dies with its group.
#[must_use]
pub fn main(settings: &GuardSettings) -> ExitCode {
    match guard(settings) {
        Ok(()) => end_group(),
        // There is nobody to tell: the worker sees the socket close, and a person runs no guard by hand.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs the command until its group has to end. An error means that there is no command.
fn guard(settings: &GuardSettings) -> io::Result<()> {
    survive_signals_to_the_group()?;
    let lock = File::create(&settings.lock_file)?;
    lock.lock()?;

    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut orders = BufReader::new(control.try_clone()?);
    let (deadline, context) = read_start(&mut orders)?;
    if Moment::now() >= deadline {
        return Err(io::ErrorKind::TimedOut.into());
    }
    adopt_orphans();
    let reports = Reports::new(control);
    match start(&settings.command) {
        Ok((child, stdin)) => {
            release_output()?;
            thread::spawn(move || feed(stdin, &context));
            let reports = reports.clone();
            thread::spawn(move || reports.send_end_of(&child));
        }
        Err(error) => {
            let program = settings.command.first().cloned().unwrap_or_default();
            let why = format!("{}: {error}", program.display());
            reports.send(&Report::Unstartable(why));
        }
    }
    wait_for_the_end(&mut orders, deadline);
    reports.silence();
    Ok(())
    // The lock is held until this process has ended, which is when the group is gone.
}

/// A handler that does nothing keeps the guard alive; the command starts with the default of each signal.
fn survive_signals_to_the_group() -> io::Result<()> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::clone(&ignored))?;
    }
    Ok(())
}

fn read_start(orders: &mut BufReader<UnixStream>) -> io::Result<(Moment, Vec<u8>)> {
    let mut line = String::new();
    orders.read_line(&mut line)?;
    let Some(Order::Start {
        deadline,
        context_bytes,
    }) = Order::parse(line.trim_end())
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut context = vec![0; context_bytes];
    orders.read_exact(&mut context)?;
    Ok((deadline, context))
}

/// Makes the guard the parent of every descendant that loses its own.
fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        // Where it is refused the group is still killed as a whole.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
}

/// Environment and folder are the guard's own, which the worker chose for the command.
fn start(command: &[OsString]) -> io::Result<(Child, Option<ChildStdin>)> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    Ok((child, stdin))
}

/// Lets go of the output pipes, so that their ends tell when the command's output has ended.
fn release_output() -> io::Result<()> {
    let nowhere = File::options().write(true).open("/dev/null")?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(&nowhere)?;
    Ok(())
}

/// Writes the context to the command, which need not read it.
fn feed(stdin: Option<ChildStdin>, context: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(context);
    }
}

/// Returns when the worker is gone, has said what cannot be understood, or its last deadline has come.
fn wait_for_the_end(orders: &mut BufReader<UnixStream>, mut deadline: Moment) {
    let mut line = Vec::new();
    loop {
        let left = Moment::now().until(deadline).min(LONGEST_WAIT);
        if left.is_zero() || orders.get_ref().set_read_timeout(Some(left)).is_err() {
            return;
        }
        match orders.read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => match str::from_utf8(&line)
                .ok()
                .map(str::trim_end)
                .and_then(Order::parse)
            {
                Some(Order::Until(later)) => {
                    deadline = later;
                    line.clear();
                }
                _ => return,
            },
            // What was read of a line stays in the buffer.
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The way back to the worker. It falls silent before the group is killed: how a command died at the hands of its guard
/// is no result.
#[derive(Clone)]
struct Reports(Arc<Mutex<Option<UnixStream>>>);

impl Reports {
    fn new(control: UnixStream) -> Self {
        Self(Arc::new(Mutex::new(Some(control))))
    }

    fn send(&self, report: &Report) {
        let mut control = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(control) = control.as_mut() {
            // A worker that is gone is noticed by the one who reads.
            let _ = control.write_all(report.to_line().as_bytes());
        }
    }

    /// Waits for the command, and for every orphan that was adopted from it, so that none stays as a zombie.
    fn send_end_of(&self, command: &Child) {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == Pid::from_child(command) => {
                    self.send(&Report::Ended(status.into()));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn silence(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Kills every descendant, in the group or not, then the group with the guard in it.
fn end_group() -> ExitCode {
    #[cfg(target_os = "linux")]
    descendants::kill_all();
    let _ = kill_current_process_group(Signal::KILL);
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
mod descendants {
    //! The children of a child subreaper are killed in rounds: those whose parent died in one are its own in the next.

    use std::fs;
    use std::thread;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, getpid, kill_process};

    /// More rounds than any tree of processes has levels. One that still grows is left to the kill of the group.
    const ROUNDS: u32 = 200;

    const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);

    /// Returns when no child is left; the dead ones are waited for by [`Reports::send_end_of`](super::Reports).
    pub(super) fn kill_all() {
        for _ in 0..ROUNDS {
            let children = children_of(getpid());
            if children.is_empty() {
                return;
            }
            for child in children {
                let _ = kill_process(child, Signal::KILL);
            }
            thread::sleep(BETWEEN_ROUNDS);
        }
    }

    fn children_of(parent: Pid) -> Vec<Pid> {
        let Ok(processes) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        processes
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
                let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
                (parent_in(&stat)? == parent).then_some(pid)
            })
            .collect()
    }

    /// The parent in a line of `/proc/<pid>/stat`. The name of the program, in parentheses, may hold anything.
    fn parent_in(stat: &str) -> Option<Pid> {
        let (_, after_name) = stat.rsplit_once(')')?;
        Pid::from_raw(after_name.split_whitespace().nth(1)?.parse().ok()?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_parent_is_found_behind_any_name() {
            for (stat, parent) in [
                ("21126 (cat) R 21123 21123 11320 0 -1", Some(21_123)),
                ("7 (a) S 9 (b) R 5 4 3", Some(5)),
                ("1 (init) S 0 1 1", None),
                ("", None),
            ] {
                let found = parent_in(stat).map(Pid::as_raw_pid);
                assert_eq!(found, parent, "{stat}");
            }
        }
    }
}
