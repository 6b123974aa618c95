//! A process whose lines on stderr the test reads, waits for and judges.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longest time that a test waits for something to happen; shorter than a lease, whose end would hide what was lost.
const PATIENCE: Duration = Duration::from_secs(50);
/// How often a test looks for what no line announces.
const LOOK: Duration = Duration::from_millis(50);

/// A running process; it is killed with the value.
pub(crate) struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

enum Heard {
    Line(String),
    Nothing,
    End,
}

impl Process {
    pub(crate) fn start(name: &str, command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the process starts");
        let stderr = BufReader::new(child.stderr.take().expect("its stderr is piped"));
        let (sender, lines) = channel();
        // Ends with the process, whose end of the pipe is closed then.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            name: name.to_owned(),
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// Waits for a line with this text.
    pub(crate) fn hear(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.next_line(until, PATIENCE) {
                Heard::Line(line) if line.contains(text) => return line,
                Heard::Line(_) | Heard::Nothing => {}
                Heard::End => self.fail(&format!("it ended before it said {text:?}")),
            }
        }
    }

    /// Waits until something holds, which is looked at after each line and now and then.
    pub(crate) fn until(&mut self, mut holds: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds() {
            if let Heard::End = self.next_line(until, LOOK) {
                self.fail("it ended too early");
            }
        }
    }

    /// Waits for the next line, not for longer than `wait`.
    fn next_line(&mut self, until: Instant, wait: Duration) -> Heard {
        let left = until.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(wait.min(left)) {
            Ok(line) => {
                self.said.push(line.clone());
                Heard::Line(line)
            }
            Err(RecvTimeoutError::Disconnected) => Heard::End,
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => Heard::Nothing,
            Err(RecvTimeoutError::Timeout) => self.fail("it took too long"),
        }
    }

    /// Waits for the end.
    pub(crate) fn ended(mut self) -> (ExitStatus, Vec<String>) {
        let until = Instant::now() + PATIENCE;
        while !matches!(self.next_line(until, PATIENCE), Heard::End) {}
        let status = self.child.wait().expect("it can be waited for");
        (status, std::mem::take(&mut self.said))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        if let Err(error) = kill_process(pid, signal) {
            self.fail(&format!("it could not be signalled: {error}"));
        }
    }

    /// Asks it to end, which it must do in good order; returns what it said.
    pub(crate) fn stop(self) -> Vec<String> {
        self.signal(Signal::TERM);
        let (status, said) = self.ended();
        assert!(status.success(), "{status}: {said:#?}");
        said
    }

    /// Kills it as it stands; returns what it said. It must have been alive.
    pub(crate) fn kill(mut self) -> Vec<String> {
        let ended = self.child.try_wait().expect("it can be waited for");
        if let Some(status) = ended {
            self.fail(&format!("it had ended: {status}"));
        }
        self.signal(Signal::KILL);
        self.ended().1
    }

    fn fail(&self, why: &str) -> ! {
        panic!("{}: {why}\n{}", self.name, self.said.join("\n"));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
