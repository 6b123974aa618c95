//! The real program: a home of boards, a configuration, and `serve` as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hermes_pool::board::hermes::{BoardDetails, HermesBoards, NewTask, Settings};
use hermes_pool::clock::{Clock, SystemClock};
use hermes_pool::domain::BoardSlug;
use hermes_pool::protocol::{Key, generate_key, write_key_file};

use super::pool::{BOARD, LANE};
use super::{Outcome, scratch};

/// Everything that `serve` needs, in a folder that is thrown away.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    /// The pool's key.
    pub(crate) master: Key,
    /// Slots of the pool.
    pub(crate) slots: u16,
}

impl Home {
    /// A home with one board, on which this many tasks are ready.
    pub(crate) fn new(slots: u16, tasks: u16) -> Outcome<Self> {
        let folder = scratch()?;
        let master = generate_key()?;
        write_key_file(&folder.path().join("pool.key"), &master)?;
        let config = format!(
            "[pool]\nslots = {slots}\nstate_dir = \"state\"\nkey_file = \"pool.key\"\n\
             [http]\nbind = \"127.0.0.1:0\"\n[operator]\nbind = \"127.0.0.1:0\"\n\
             [boards]\nhermes_home = \"home\"\nlanes = [\"{LANE}\"]\n"
        );
        std::fs::write(folder.path().join("pool.toml"), config)?;
        add_tasks(&folder.path().join("home"), tasks)?;
        Ok(Self {
            folder,
            master,
            slots,
        })
    }

    /// Everything, the store and the boards among it.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The home of the boards.
    pub(crate) fn boards(&self) -> std::path::PathBuf {
        self.folder.path().join("home")
    }

    /// The folder of the store.
    pub(crate) fn state_dir(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    /// Starts the program; returns once its ports answer.
    pub(crate) fn serve(&self) -> Outcome<Served> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_hermes-pool"))
            .args(["serve", "--config", "pool.toml"])
            .current_dir(self.folder.path())
            .env("RUST_LOG", "error,hermes_pool::cli=info")
            .stderr(Stdio::piped())
            .spawn()?;
        let log = process.stderr.take().ok_or("the log is not piped")?;
        let mut lines = BufReader::new(log).lines();
        let mut addresses = None;
        for line in lines.by_ref() {
            let line = line?;
            addresses = address(&line, "workers").zip(address(&line, "operators"));
            if addresses.is_some() {
                break;
            }
            eprintln!("{line}");
        }
        // What it says later is shown as well, and never fills the pipe.
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .for_each(|line| eprintln!("{line}"))
        });
        let Some((address, operators)) = addresses else {
            return Err("the program did not start".into());
        };
        Ok(Served {
            process,
            address,
            operators,
        })
    }
}

/// The address that a line of the log gives for this name.
fn address(line: &str, name: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    rest.split(' ').next()?.trim().parse().ok()
}

fn add_tasks(home: &Path, count: u16) -> Outcome<()> {
    let slug = BoardSlug::parse(BOARD)?;
    let boards = HermesBoards::new(home.to_owned(), Settings::default());
    let now = SystemClock::new().now().whole_seconds();
    boards.create(&slug, &BoardDetails::default(), now)?;
    let mut board = boards.open(&slug)?;
    for number in 0..count {
        let task = NewTask {
            title: format!("task {number}"),
            assignee: Some(LANE.to_owned()),
            ..NewTask::default()
        };
        board.create_task(&task, now)?;
    }
    Ok(())
}

/// The running program; it ends with this value.
pub(crate) struct Served {
    process: Child,
    /// Where workers are served.
    pub(crate) address: SocketAddr,
    /// Where operators are served.
    pub(crate) operators: SocketAddr,
}

impl Served {
    /// Its id.
    pub(crate) fn process(&self) -> String {
        self.process.id().to_string()
    }

    /// Resident memory in megabytes of 1,000,000 bytes.
    pub(crate) fn resident_megabytes(&self) -> Outcome<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let kibibytes: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .ok_or("the system does not tell the resident memory")?
            .parse()?;
        Ok(kibibytes * 1024.0 / 1e6)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already is just as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
