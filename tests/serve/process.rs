//! A home with a board and a configuration, and the program's processes in it, none of which outlives its test.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::lchown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use hermes_pool::board::hermes::{
    BoardDetails, EventLine, HermesBoard, HermesBoards, NewTask, RunLine, Settings, TaskLine,
};
use hermes_pool::clock::{Clock, SystemClock};
use hermes_pool::domain::{BoardSlug, TaskId};
use hermes_pool::protocol::{Key, derive_ordinal_key, generate_key, write_key_file};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest time that a test waits for something to happen, on a machine that has much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The lane of every task.
pub(crate) const LANE: &str = "codex-cli";

/// The user without rights, where the tests are root's.
pub(crate) const NOBODY: u32 = 65_534;

/// Asks until there is an answer.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn now() -> i64 {
    SystemClock::new().now().whole_seconds()
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Everything that is on a board.
pub(crate) type Content = Vec<(TaskLine, Vec<RunLine>, Vec<EventLine>)>;

/// A folder with a pool key, a configuration with free ports, and one board.
pub(crate) struct Home {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) boards: HermesBoards,
    pub(crate) board: BoardSlug,
    pub(crate) master: Key,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let master = generate_key().unwrap();
        write_key_file(&folder.path().join("pool.key"), &master).unwrap();
        let boards = HermesBoards::new(folder.path().join("hermes"), Settings::default());
        let board = BoardSlug::parse("lab").unwrap();
        boards
            .create(&board, &BoardDetails::default(), now())
            .unwrap();
        std::fs::write(
            folder.path().join("pool.toml"),
            "[pool]\nkey_file = \"pool.key\"\nlease_seconds = 60\n\
             [http]\nbind = \"127.0.0.1:0\"\n[operator]\nbind = \"127.0.0.1:0\"\n\
             [boards]\nhermes_home = \"hermes\"\npoll_millis = 50\n[maintenance]\ninterval_seconds = 1\n",
        )
        .unwrap();
        Self {
            folder,
            boards,
            board,
            master,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn open_board(&self) -> HermesBoard {
        self.boards.open(&self.board).unwrap()
    }

    /// Adds a task for the pool's lane.
    pub(crate) fn task(&self, title: &str, parents: &[&TaskId]) -> TaskId {
        let task = NewTask {
            title: title.to_owned(),
            assignee: Some(LANE.to_owned()),
            parents: parents.iter().map(ToString::to_string).collect(),
            ..NewTask::default()
        };
        TaskId::parse(&self.open_board().create_task(&task, now()).unwrap()).unwrap()
    }

    pub(crate) fn status(&self, task: &TaskId) -> String {
        let tasks = self.open_board().tasks().unwrap();
        let mut tasks = tasks.into_iter();
        tasks.find(|line| line.id == task.as_str()).unwrap().status
    }

    pub(crate) fn runs(&self, task: &TaskId) -> Vec<RunLine> {
        self.open_board().runs(task.as_str()).unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_for_status(&self, task: &TaskId, status: &str) {
        until(&format!("{task} is {status}"), || {
            (self.status(task) == status).then_some(())
        });
    }

    pub(crate) fn content(&self) -> Content {
        let mut board = self.open_board();
        let tasks = board.tasks().unwrap().into_iter();
        tasks
            .map(|task| {
                let runs = board.runs(&task.id).unwrap();
                let events = board.events(&task.id).unwrap();
                (task, runs, events)
            })
            .collect()
    }

    /// A command in this home, with none of our variables in its environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_hermes-pool")), arguments)
    }

    /// A command of another program in this home.
    pub(crate) fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        command
    }

    /// A command of somebody to whom permissions matter, which they do to everybody but root. The home and all that is in
    /// it by now belongs to them.
    pub(crate) fn command_without_rights(&self, arguments: &[&str]) -> Command {
        if !rustix::process::geteuid().is_root() {
            return self.command(arguments);
        }
        give(self.folder.path());
        // The program itself may lie where nobody else gets to.
        let program = self.path("hermes-pool");
        if !program.exists() {
            std::fs::copy(env!("CARGO_BIN_EXE_hermes-pool"), &program).unwrap();
        }
        let mut command = self.command_of(&program, arguments);
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    /// Starts a coordinator and waits until it serves.
    pub(crate) fn serve(&self) -> Coordinator {
        Coordinator::start(&mut self.command(&["serve", "--config", "pool.toml"]))
    }

    /// Starts the worker of a slot, which runs a line of shell for each assignment.
    pub(crate) fn worker(&self, ordinal: u16, coordinator: &Coordinator, line: &str) -> Process {
        let key_file = self.path(&format!("worker-{ordinal}.key"));
        if !key_file.exists() {
            let key = derive_ordinal_key(&self.master, ordinal, 3).unwrap();
            write_key_file(&key_file, &key).unwrap();
        }
        let (number, url) = (
            ordinal.to_string(),
            format!("http://{}", coordinator.workers),
        );
        let mut command = self.command(&["worker", "--ordinal", &number, "--coordinator", &url]);
        command.arg("--key-file").arg(key_file);
        command.args(["--", "sh", "-c", line]);
        Process::start(&mut command)
    }
}

/// Makes a file, or a folder with all that is in it, nobody's.
pub(crate) fn give(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

pub(crate) fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A process whose log is read as it comes, and that ends with this value.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) lines: Receiver<String>,
    pub(crate) said: Vec<String>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// The next line of the log that holds this text.
    #[track_caller]
    pub(crate) fn hear(&mut self, text: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => panic!("{text:?} was not said, but:\n{}", self.said.join("\n")),
            }
        }
    }

    /// How many lines of the log so far hold this text.
    pub(crate) fn count(&mut self, text: &str) -> usize {
        self.said.extend(self.lines.try_iter());
        let told = self.said.iter();
        told.filter(|line| line.contains(text)).count()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the process has ended by itself.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the process ends", || self.child.try_wait().unwrap())
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A coordinator that serves.
pub(crate) struct Coordinator {
    pub(crate) process: Process,
    pub(crate) workers: String,
    pub(crate) operators: String,
}

impl Coordinator {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = Process::start(command);
        let line = process.hear("event=serving");
        let field = |name: &str| {
            let mut words = line.split_whitespace();
            let word = words.find_map(|word| word.strip_prefix(name));
            word.unwrap().to_owned()
        };
        Self {
            workers: field("workers="),
            operators: field("operators="),
            process,
        }
    }

    /// Status and document of a path of the operators' server.
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        let mut response = agent
            .get(format!("http://{}{path}", self.operators))
            .call()
            .unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (
            response.status().as_u16(),
            serde_json::from_str(&text).unwrap(),
        )
    }

    pub(crate) fn wait_until_ready(&self) {
        until("the pool is ready", || {
            (self.get("/readyz").0 == 200).then_some(())
        });
    }

    /// The number of assignments in a state.
    pub(crate) fn count(&self, state: &str) -> i64 {
        let (status, snapshot) = self.get("/api/v1/pool");
        assert_eq!(status, 200, "{snapshot}");
        snapshot["counts"][state].as_i64().unwrap()
    }
}

/// Every process whose arguments or environment name this folder.
#[cfg(target_os = "linux")]
pub(crate) fn processes_of(folder: &std::path::Path) -> Vec<String> {
    let name = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let process = entry.ok()?.path();
        let read = |file| {
            let bytes = std::fs::read(process.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let arguments = read("cmdline");
        let names_it = arguments.contains(name) || read("environ").contains(name);
        names_it.then(|| format!("{}: {arguments}", process.display()))
    });
    processes.collect()
}
