//! What a worker and its guard say to each other, one line each, over the socket between them.
//!
//! | from the worker | |
//! |---|---|
//! | `start <deadline> <bytes>`, then that many bytes | run the command with these bytes on its standard input |
//! | `until <deadline>` | the lease was extended |
//!
//! | from the guard | |
//! |---|---|
//! | `exited <status>` · `signalled <number>` | the command itself ended; what it left running may live on |
//! | `unstartable <why>` | there is no such command, or it may not be run |
//!
//! Deadlines are [`Moment`]s. The end of the stream is a message too: to the guard it means that the worker is gone or
//! wants the group gone, to the worker that the guard is.

use std::fmt;

use rustix::process::WaitStatus;

use super::moment::Moment;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(number) => write!(f, "killed by signal {number}"),
        }
    }
}

impl From<WaitStatus> for Exit {
    fn from(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Self::Status(status),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

/// What the guard tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The command ended.
    Ended(Exit),
    /// The command could not be started.
    Unstartable(String),
}

impl Report {
    /// The line that says this.
    pub(super) fn to_line(&self) -> String {
        match self {
            Self::Ended(Exit::Status(status)) => format!("exited {status}\n"),
            Self::Ended(Exit::Signal(number)) => format!("signalled {number}\n"),
            Self::Unstartable(why) => format!("unstartable {}\n", why.replace('\n', " ")),
        }
    }

    /// Reads a line without its end; `None` if it is not one of these.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "exited" => Some(Self::Ended(Exit::Status(rest.parse().ok()?))),
            "signalled" => Some(Self::Ended(Exit::Signal(rest.parse().ok()?))),
            "unstartable" => Some(Self::Unstartable(rest.to_owned())),
            _ => None,
        }
    }
}

/// What the worker orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Run the command until `deadline`; `context_bytes` bytes for its standard input follow.
    Start {
        /// When the group has to be gone.
        deadline: Moment,
        /// How many bytes follow the line.
        context_bytes: usize,
    },
    /// The group may live on until then.
    Until(Moment),
}

impl Order {
    /// The line that says this.
    pub(super) fn to_line(self) -> String {
        match self {
            Self::Start {
                deadline,
                context_bytes,
            } => format!("start {deadline} {context_bytes}\n"),
            Self::Until(deadline) => format!("until {deadline}\n"),
        }
    }

    /// Reads a line without its end; `None` if it is not one of these.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "start" => {
                let (deadline, bytes) = rest.split_once(' ')?;
                Some(Self::Start {
                    deadline: deadline.parse().ok()?,
                    context_bytes: bytes.parse().ok()?,
                })
            }
            "until" => Some(Self::Until(rest.parse().ok()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_read_as_it_was_written() {
        for report in [
            Report::Ended(Exit::Status(75)),
            Report::Ended(Exit::Signal(9)),
            Report::Unstartable("no such file".to_owned()),
        ] {
            let line = report.to_line();
            assert_eq!(Report::parse(line.trim_end()), Some(report), "{line}");
        }
        for order in [
            Order::Start {
                deadline: Moment(1_234),
                context_bytes: 32_768,
            },
            Order::Until(Moment(u64::MAX)),
        ] {
            let line = order.to_line();
            assert_eq!(Order::parse(line.trim_end()), Some(order), "{line}");
        }
    }

    #[test]
    fn anything_else_is_no_message() {
        for line in [
            "",
            "until",
            "until soon",
            "until -5",
            "start 5",
            "exited",
            "ended 5",
        ] {
            assert_eq!(Order::parse(line), None, "{line}");
            assert_eq!(Report::parse(line), None, "{line}");
        }
    }
}
