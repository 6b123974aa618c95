//! What permissions forbid: files of somebody else, files that may only be read. To root they would mean nothing, so the
//! coordinator runs as somebody without rights.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use hermes_pool::board::hermes::{BoardDetails, NewTask};
use hermes_pool::domain::{BoardSlug, TaskId};

use super::process::{Coordinator, Home, LANE, Process, ended, give, now, until};

const SERVE: [&str; 3] = ["serve", "--config", "pool.toml"];

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes it somebody else's, with nothing left for others.
fn take_away(path: &Path) {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(0), Some(0)).unwrap();
        allow(path, 0o700);
    } else {
        // Whoever has no rights on what is their own meets the same refusal.
        allow(path, 0);
    }
}

fn give_back(path: &Path) {
    if rustix::process::geteuid().is_root() {
        give(path);
    }
    allow(path, 0o700);
}

/// A second board beside the home's own, on which there is a task for a coordinator without rights.
struct Sick {
    home: Home,
    slug: BoardSlug,
    task: TaskId,
}

impl Sick {
    fn new() -> Self {
        let home = Home::new();
        let slug = BoardSlug::parse("sick").unwrap();
        home.boards
            .create(&slug, &BoardDetails::default(), now())
            .unwrap();
        let task = NewTask {
            title: "kept".to_owned(),
            assignee: Some(LANE.to_owned()),
            ..NewTask::default()
        };
        let made = home.boards.open(&slug).unwrap().create_task(&task, now());
        let task = TaskId::parse(&made.unwrap()).unwrap();
        Self { home, slug, task }
    }

    fn database(&self) -> std::path::PathBuf {
        self.home.path("hermes/kanban/boards/sick/kanban.db")
    }

    fn folder(&self) -> std::path::PathBuf {
        self.home.path("hermes/kanban/boards/sick")
    }

    /// Waits until its task is done, by the one run it ever had.
    #[track_caller]
    fn wait_until_done(&self) {
        until("the task on the sick board is done", || {
            let tasks = self.home.boards.open(&self.slug).ok()?.tasks().ok()?;
            let is_done = |line: &&_| {
                let line: &hermes_pool::board::hermes::TaskLine = line;
                line.id == self.task.as_str() && line.status == "done"
            };
            tasks.iter().find(is_done).map(|_| ())
        });
        let mut board = self.home.boards.open(&self.slug).unwrap();
        assert_eq!(board.runs(self.task.as_str()).unwrap().len(), 1);
    }
}

/// State and reason of the sick board.
fn state(coordinator: &Coordinator) -> (String, String) {
    let (_, snapshot) = coordinator.get("/api/v1/pool");
    let boards = snapshot["boards"].as_array().cloned().unwrap_or_default();
    let board = boards.iter().find(|board| board["slug"] == "sick");
    let text = |name: &str| {
        let value = board.and_then(|board| board[name].as_str());
        value.unwrap_or_default().to_owned()
    };
    (text("state"), text("reason"))
}

#[track_caller]
fn wait_for_state(coordinator: &Coordinator, wanted: &str, reason: &str) {
    until(&format!("the board is {wanted}: {reason}"), || {
        let (state, why) = state(coordinator);
        (state == wanted && why.contains(reason)).then_some(())
    });
    assert_eq!(coordinator.get("/readyz").0, 200);
}

/// What is forbidden, and the board's state and its reason then.
type Forbid = fn(&Sick);
const BOARDS: [(&str, Forbid, &str, &str); 3] = [
    (
        "a file of somebody else",
        |sick| take_away(&sick.database()),
        "unreadable",
        "unable to open",
    ),
    (
        "a file that may only be read",
        |sick| allow(&sick.database(), 0o444),
        "read_only",
        "read-only for this user",
    ),
    (
        "a folder of somebody else",
        |sick| take_away(&sick.folder()),
        "unreadable",
        "Permission denied",
    ),
];

#[test]
fn a_board_that_is_not_ours_at_the_start_is_told_once_and_served_once_it_is() {
    for (name, forbid, wanted, reason) in BOARDS {
        let sick = Sick::new();
        let other = sick.home.task("t", &[]);
        let mut command = sick.home.command_without_rights(&SERVE);
        let mut check = sick
            .home
            .command_without_rights(&["check", "--config", "pool.toml"]);
        forbid(&sick);
        let checked = ended(&mut check);
        assert_eq!(checked.code, Some(1), "{name}: {checked:?}");
        assert!(
            checked.err.starts_with("board sick: "),
            "{name}: {checked:?}"
        );
        assert!(checked.err.contains(reason), "{name}: {checked:?}");

        let mut coordinator = Coordinator::start(&mut command);
        wait_for_state(&coordinator, wanted, reason);
        let _worker = sick.home.worker(0, &coordinator, "echo done");
        sick.home.wait_for_status(&other, "done");
        assert_eq!(
            coordinator.process.count("deferred scope=sick"),
            1,
            "{name}"
        );

        give_back(&sick.folder());
        give_back(&sick.database());
        sick.wait_until_done();
        coordinator.process.hear("resolved scope=sick");
        wait_for_state(&coordinator, "ok", "");
    }
}

/// A worker that holds the sick board's run until the gate is open.
fn hold(sick: &Sick, coordinator: &Coordinator) -> Process {
    coordinator.wait_until_ready();
    let gate = sick.home.path("gate");
    let line = format!(
        "until [ -e '{}' ]; do sleep 0.05; done; echo done",
        gate.display()
    );
    let worker = sick.home.worker(0, coordinator, &line);
    until("the run is offered", || {
        (coordinator.count("running") == 1).then_some(())
    });
    worker
}

#[test]
fn a_board_whose_file_is_forbidden_in_mid_run_is_served_on_the_one_that_was_opened() {
    for (name, forbid, _, _) in &BOARDS[..2] {
        let sick = Sick::new();
        let coordinator = Coordinator::start(&mut sick.home.command_without_rights(&SERVE));
        let _worker = hold(&sick, &coordinator);
        forbid(&sick);
        std::fs::write(sick.home.path("gate"), "").unwrap();
        until("the store knows the end", || {
            (coordinator.count("finalized") == 1).then_some(())
        });
        assert_eq!(state(&coordinator).0, "ok", "{name}");
        give_back(&sick.database());
        sick.wait_until_done();
    }
}

#[test]
fn a_board_whose_folder_is_forbidden_in_mid_run_gets_its_result_when_it_may_be_entered_again() {
    let sick = Sick::new();
    let mut coordinator = Coordinator::start(&mut sick.home.command_without_rights(&SERVE));
    let _worker = hold(&sick, &coordinator);
    take_away(&sick.folder());
    wait_for_state(&coordinator, "unreadable", "Permission denied");
    std::fs::write(sick.home.path("gate"), "").unwrap();
    until("the result is durable", || {
        (coordinator.count("result") + coordinator.count("lease_failed") == 1).then_some(())
    });
    let other = sick.home.task("t", &[]);
    let _second = sick.home.worker(1, &coordinator, "echo done");
    sick.home.wait_for_status(&other, "done");
    assert_eq!(coordinator.process.count("deferred scope=sick "), 1);
    give_back(&sick.folder());
    sick.wait_until_done();
    coordinator.process.hear("resolved scope=sick");
}

#[test]
fn boards_that_cannot_be_listed_in_mid_run_are_told_and_seen_through_when_they_can() {
    let sick = Sick::new();
    let mut coordinator = Coordinator::start(&mut sick.home.command_without_rights(&SERVE));
    let _worker = hold(&sick, &coordinator);
    let boards = sick.home.path("hermes/kanban/boards");
    take_away(&boards);
    coordinator.process.hear("what=list the boards");
    wait_for_state(&coordinator, "unreadable", "Permission denied");
    std::fs::write(sick.home.path("gate"), "").unwrap();
    give_back(&boards);
    sick.wait_until_done();
    coordinator.process.hear("resolved scope=pool:boards");
}

/// What is forbidden of one file.
type ForbidFile = fn(&Path);

/// A home that a coordinator has served before.
fn served_before() -> Home {
    let home = Home::new();
    let mut coordinator = Coordinator::start(&mut home.command_without_rights(&SERVE));
    coordinator.wait_until_ready();
    coordinator.process.kill();
    home
}

#[test]
fn a_store_or_key_that_is_not_ours_at_the_start_is_told_and_used_once_it_is() {
    let cases: [(&str, ForbidFile, &str); 3] = [
        (
            "state/assignments.db",
            |path| allow(path, 0o444),
            "is read-only",
        ),
        ("state/assignments.db", take_away, "cannot be opened"),
        ("pool.key", take_away, "Permission denied"),
    ];
    for (file, forbid, reason) in cases {
        let home = served_before();
        let task = home.task("t", &[]);
        let mut command = home.command_without_rights(&SERVE);
        let mut check = home.command_without_rights(&["check", "--config", "pool.toml"]);
        forbid(&home.path(file));
        let checked = ended(&mut check);
        assert_eq!(checked.code, Some(1), "{file}: {checked:?}");
        assert!(checked.err.contains(reason), "{file}: {checked:?}");

        let coordinator = Coordinator::start(&mut command);
        until(reason, || {
            let (status, told) = coordinator.get("/readyz");
            (status == 503 && told.to_string().contains(reason)).then_some(())
        });
        assert_eq!(coordinator.get("/healthz").0, 200);
        give_back(&home.path(file));
        allow(&home.path(file), 0o600);
        coordinator.wait_until_ready();
        let _worker = home.worker(0, &coordinator, "echo done");
        home.wait_for_status(&task, "done");
    }
}

#[test]
fn a_state_folder_that_is_forbidden_in_mid_run_stops_every_acknowledgement_until_it_is_given_back()
{
    let sick = Sick::new();
    let mut coordinator = Coordinator::start(&mut sick.home.command_without_rights(&SERVE));
    let _worker = hold(&sick, &coordinator);
    let folder = sick.home.path("state");
    take_away(&folder);
    std::fs::write(sick.home.path("gate"), "").unwrap();
    let told = until("the pool is not ready", || {
        let (status, told) = coordinator.get("/readyz");
        (status == 503).then(|| told.to_string())
    });
    assert!(
        told.contains("cannot be opened: Permission denied"),
        "{told}"
    );
    let mut board = sick.home.boards.open(&sick.slug).unwrap();
    assert_eq!(
        board.runs(sick.task.as_str()).unwrap()[0].outcome,
        "running"
    );
    drop(board);
    give_back(&folder);
    coordinator.wait_until_ready();
    sick.wait_until_done();
    assert_eq!(coordinator.process.count("the store fails"), 1);
}

#[test]
fn a_state_folder_or_token_that_is_not_ours_ends_the_start_with_1() {
    let cases: [(&str, &str); 2] = [
        ("state/coordinator.lock", "make it writable for this user"),
        (
            "state/operator.token",
            "operator.token_file: the token cannot be read from",
        ),
    ];
    for (file, reason) in cases {
        let home = served_before();
        let mut command = home.command_without_rights(&SERVE);
        take_away(&home.path(file));
        let told = ended(command.env("RUST_LOG", "off"));
        assert_eq!(
            (told.code, told.err.lines().count()),
            (Some(1), 1),
            "{told:?}"
        );
        assert!(
            told.err.contains(reason) && told.err.contains(file),
            "{told:?}"
        );
    }
}
