//! A store that finds no room, by two means: a limit on the length of files, which needs no rights, and a real disk that is
//! full, where the system lets somebody without rights mount one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::process::{Coordinator, Home, until};

/// What takes the room away, and gives it back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Means {
    Limit,
    Disk,
}

/// Makes a disk of a megabyte of the state folder, as only this process sees it.
const ON_A_DISK: &str =
    "mount -t tmpfs -o size=1m none state && cp -p saved/* state/ && rm -f state/*-shm";

impl Means {
    /// Those that this system has.
    fn all() -> Vec<Self> {
        let mut unshare = Command::new("unshare");
        let mount = "mkdir -p /tmp && mount -t tmpfs none /tmp";
        unshare
            .args(["-rm", "sh", "-c", mount])
            .stderr(Stdio::null());
        let has_disks = unshare.status().is_ok_and(|status| status.success());
        if has_disks {
            vec![Self::Limit, Self::Disk]
        } else {
            eprintln!("no disk can be mounted here: the limit on files stands for it");
            vec![Self::Limit]
        }
    }

    /// What operators are told in mid-run.
    fn reason(self) -> &'static str {
        match self {
            Self::Limit => "cannot be read or written",
            Self::Disk => "cannot grow: the disk is full",
        }
    }

    /// Starts a coordinator that can be left without room, with room or without.
    fn start(self, home: &Home, has_room: bool) -> Coordinator {
        let program = env!("CARGO_BIN_EXE_hermes-pool");
        let no_room = match self {
            _ if has_room => "true",
            Self::Limit => "ulimit -S -f 0",
            Self::Disk => "! head -c 2000000 /dev/zero > state/filler 2>&-",
        };
        let (runner, place) = match self {
            // Whoever writes beyond the limit is killed unless the signal is ignored.
            Self::Limit => (&["sh"][..], "trap '' XFSZ"),
            Self::Disk => (&["unshare", "-rm", "sh"][..], ON_A_DISK),
        };
        let line = format!("{place} && {no_room} && exec {program} serve --config pool.toml");
        let mut command = home.command_of(Path::new(runner[0]), &runner[1..]);
        Coordinator::start(command.args(["-c", &line]))
    }

    fn take_room(self, home: &Home, coordinator: &Coordinator) {
        match self {
            Self::Limit => limit(coordinator, Some(0)),
            Self::Disk => {
                let filler = std::fs::write(filler(home, coordinator), vec![0; 2_000_000]);
                assert!(filler.is_err(), "there is room for it");
            }
        }
    }

    fn give_room(self, home: &Home, coordinator: &Coordinator) {
        match self {
            Self::Limit => limit(coordinator, None),
            Self::Disk => std::fs::remove_file(filler(home, coordinator)).unwrap(),
        }
    }
}

fn limit(coordinator: &Coordinator, bytes: Option<u64>) {
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    let pid = Pid::from_child(&coordinator.process.child);
    prlimit(Some(pid), Resource::Fsize, limit).unwrap();
}

/// The file that takes all room, as the coordinator's own system of files has it.
fn filler(home: &Home, coordinator: &Coordinator) -> PathBuf {
    let root = format!("/proc/{}/root", coordinator.process.child.id());
    let file = home.path("state/filler");
    Path::new(&root).join(file.strip_prefix("/").unwrap())
}

/// A home with a store that is in use for longer than today.
fn home() -> Home {
    let home = Home::new();
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    coordinator.process.kill();
    std::fs::create_dir(home.path("saved")).unwrap();
    for file in ["assignments.db", "assignments.db-wal", "operator.token"] {
        std::fs::copy(home.path("state").join(file), home.path("saved").join(file)).unwrap();
    }
    home
}

#[track_caller]
fn wait_until_told(reason: &str, coordinator: &Coordinator) {
    until(reason, || {
        let (status, told) = coordinator.get("/readyz");
        (status == 503 && told.to_string().contains(reason)).then_some(())
    });
    assert_eq!(coordinator.get("/healthz").0, 200);
}

#[test]
fn a_store_that_finds_no_room_in_mid_run_acknowledges_nothing_until_there_is_room_again() {
    for means in Means::all() {
        let home = home();
        let task = home.task("t", &[]);
        let mut coordinator = means.start(&home, true);
        coordinator.wait_until_ready();
        let gate = home.path("gate");
        let line = format!(
            "until [ -e '{}' ]; do sleep 0.05; done; echo done",
            gate.display()
        );
        let _worker = home.worker(0, &coordinator, &line);
        until("the run is offered", || {
            (coordinator.count("running") == 1).then_some(())
        });
        means.take_room(&home, &coordinator);
        std::fs::write(gate, "").unwrap();
        wait_until_told(means.reason(), &coordinator);
        assert_eq!(home.status(&task), "running", "{means:?}");

        means.give_room(&home, &coordinator);
        coordinator.wait_until_ready();
        home.wait_for_status(&task, "done");
        assert_eq!(home.runs(&task).len(), 1, "{means:?}");
        let told = coordinator.process.count("the store fails");
        assert_eq!(told, 1, "{means:?}");
    }
}

#[test]
fn a_store_that_finds_no_room_at_the_start_goes_on_by_itself_once_there_is_room() {
    for means in Means::all() {
        let home = home();
        let task = home.task("t", &[]);
        let coordinator = means.start(&home, false);
        let _worker = home.worker(0, &coordinator, "echo done");
        wait_until_told("cannot grow: the disk is full", &coordinator);
        assert_eq!(home.status(&task), "ready", "{means:?}");
        means.give_room(&home, &coordinator);
        coordinator.wait_until_ready();
        home.wait_for_status(&task, "done");
        assert_eq!(home.runs(&task).len(), 1, "{means:?}");
    }
}
