//! Where one coordinator runs: its folder, its keys, its address, its store as seen from outside.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use hermes_pool::faults::FAULTS_VARIABLE;
use hermes_pool::protocol::{derive_ordinal_key, generate_key, write_key_file};
use rusqlite::{Connection, OpenFlags};

use super::process::Process;
use super::python;

/// Everything about one pool but its boards.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    name: String,
}

/// An assignment as the store's file shows it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) board: String,
    pub(crate) task: String,
    pub(crate) run: String,
    pub(crate) ordinal: i64,
    pub(crate) attempt: i64,
    pub(crate) state: String,
    pub(crate) created_at: f64,
    pub(crate) updated_at: f64,
}

impl Row {
    /// The run and who had it, as the pool marks a completion.
    pub(crate) fn mark(&self) -> String {
        format!(
            "{}/{}/{}/{}/{}",
            self.board, self.task, self.run, self.ordinal, self.attempt
        )
    }
}

impl Site {
    /// A pool for these boards of a home, which answers workers at `port` (0: at any).
    pub(crate) fn new(name: &str, home: &Path, boards: &[&str], slots: u16, port: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let master = generate_key().unwrap();
        write_key_file(&folder.path().join("pool.key"), &master).unwrap();
        for ordinal in 0..slots {
            let key = derive_ordinal_key(&master, ordinal, slots).unwrap();
            write_key_file(&folder.path().join(format!("worker-{ordinal}.key")), &key).unwrap();
        }
        fs::create_dir(folder.path().join("runs")).unwrap();
        fs::write(folder.path().join("gate"), "").unwrap();
        let config = format!(
            "[pool]\nslots = {slots}\nlease_seconds = 60\nkey_file = \"pool.key\"\n\
             [http]\nbind = \"127.0.0.1:{port}\"\n\
             [operator]\nbind = \"127.0.0.1:0\"\n\
             [boards]\nhermes_home = {home:?}\ninclude = {boards:?}\npoll_millis = 20\n\
             [maintenance]\ninterval_seconds = 1\n"
        );
        fs::write(folder.path().join("pool.toml"), config).unwrap();
        Self {
            folder,
            name: name.to_owned(),
        }
    }

    /// Starts the coordinator; `faults` arms its test door.
    pub(crate) fn serve(&self, faults: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes-pool"));
        command
            .args(["serve", "--config"])
            .arg(self.folder.path().join("pool.toml"))
            .env_clear()
            .env(FAULTS_VARIABLE, faults);
        Process::start(&format!("{}, coordinator", self.name), &mut command)
    }

    /// Starts the worker of an ordinal.
    pub(crate) fn worker(&self, ordinal: u16, address: &str) -> Process {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/whole_run/worker.py");
        let python = python::with_hermes(python::REFERENCE).expect("it was there a moment ago");
        let mut command = Command::new(python);
        command
            .arg("-B")
            .arg(script)
            .arg(format!("http://{address}"))
            .arg(ordinal.to_string())
            .arg(self.folder.path());
        Process::start(&format!("{}, worker {ordinal}", self.name), &mut command)
    }

    /// Keeps workers from finishing a run until the value is dropped.
    pub(crate) fn close_gate(&self) -> File {
        let gate = File::create(self.folder.path().join("gate")).unwrap();
        gate.lock().unwrap();
        gate
    }

    /// The assignments in the store; none while there is no store yet.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let Some(store) = self.store() else {
            return Vec::new();
        };
        let query = "SELECT board,task_id,run_id,worker_ordinal,attempt,state,created_at,updated_at FROM assignments \
             ORDER BY created_at";
        let Ok(mut query) = store.prepare(query) else {
            return Vec::new();
        };
        query
            .query_map([], |row| {
                Ok(Row {
                    board: row.get(0)?,
                    task: row.get(1)?,
                    run: row.get(2)?,
                    ordinal: row.get(3)?,
                    attempt: row.get(4)?,
                    state: row.get(5)?,
                    created_at: row.get(6)?,
                    updated_at: row.get(7)?,
                })
            })
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    /// Whether so many runs were recorded, and all of them as ended.
    pub(crate) fn has_finalized(&self, runs: usize) -> bool {
        let query = "SELECT count(*),coalesce(sum(state='finalized'),0) FROM assignments";
        let counts = self.store().and_then(|store| {
            // There may be no tables yet.
            let count = store.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)));
            count.ok()
        });
        counts == i64::try_from(runs).ok().map(|runs| (runs, runs))
    }

    /// Claims that were about to be made.
    pub(crate) fn intents(&self) -> i64 {
        let store = self.store().expect("there is a store");
        store
            .query_row("SELECT count(*) FROM intents", [], |row| row.get(0))
            .unwrap()
    }

    fn store(&self) -> Option<Connection> {
        let path: PathBuf = self.folder.path().join("state/assignments.db");
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()
    }
}

/// The workers' address, once the coordinator answers.
pub(crate) fn workers_address(coordinator: &mut Process) -> String {
    let line = coordinator.hear("event=serving");
    let mut words = line.split(' ');
    let address = words.find_map(|word| word.strip_prefix("workers="));
    address.expect("it tells its address").to_owned()
}

/// A free port below those that a system gives to connections, so that none of them has it while its coordinator is down.
pub(crate) fn fixed_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() % 10_000;
    loop {
        let number = first + u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(20_000 + number % 10_000).expect("it is below 30000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
