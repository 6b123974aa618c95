//! The program as a person calls it: arguments in, exit code and words out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hermes_pool::protocol::{derive_ordinal_key, read_key, write_key_file};

/// What a call said and how it ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    /// Fails with this exit code and exactly one line on stderr, which holds every one of these texts.
    #[track_caller]
    fn assert_fails(&self, code: i32, texts: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        for text in texts {
            assert!(self.err.contains(text), "{text} is missing: {self:?}");
        }
    }

    #[track_caller]
    fn assert_done(&self) {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
    }
}

/// Calls the program in a folder, with none of our variables in its environment but these.
fn call_with(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_hermes-pool"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn call(folder: &Path, arguments: &[&str]) -> Ended {
    call_with(folder, arguments, &[])
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn assert_is_key_file(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let digits = text.strip_suffix('\n').unwrap();
    assert_eq!(digits.len(), 64);
    assert!(
        digits
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    );
    assert_eq!(mode(path), 0o600);
}

#[test]
fn a_pool_key_is_generated_private_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["key", "generate", "--out", "state/pool.key"];
    call(folder.path(), &arguments).assert_done();
    let path = folder.path().join("state/pool.key");
    assert_is_key_file(&path);
    assert_eq!(mode(&folder.path().join("state")), 0o700);

    let before = std::fs::read(&path).unwrap();
    let again = call(folder.path(), &arguments);
    again.assert_fails(1, &["state/pool.key exists and is never overwritten"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    call(
        folder.path(),
        &["key", "generate", "--out", "no/such/pool.key"],
    )
    .assert_fails(1, &["folder no/such cannot be made"]);
}

#[test]
fn the_key_of_an_ordinal_is_the_one_that_the_coordinator_derives() {
    let folder = tempfile::tempdir().unwrap();
    call(folder.path(), &["key", "generate", "--out", "pool.key"]).assert_done();
    let master = read_key(&folder.path().join("pool.key")).unwrap();
    for ordinal in [0, 7, 9_999] {
        let (number, out) = (ordinal.to_string(), format!("{ordinal}.key"));
        let arguments = [
            "key",
            "derive",
            "--master",
            "pool.key",
            "--ordinal",
            &number,
            "--out",
            &out,
        ];
        call(folder.path(), &arguments).assert_done();
        assert_is_key_file(&folder.path().join(&out));

        let expected = derive_ordinal_key(&master, ordinal, 10_000).unwrap();
        write_key_file(&folder.path().join("expected"), &expected).unwrap();
        let [got, expected] =
            [&out, "expected"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
        assert_eq!(got, expected);
        std::fs::remove_file(folder.path().join("expected")).unwrap();
        call(folder.path(), &arguments).assert_fails(1, &["never overwritten"]);
    }
}

#[test]
fn a_key_is_not_derived_from_what_is_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let derive = |master: &str, ordinal: &str| {
        call(
            folder.path(),
            &[
                "key",
                "derive",
                "--master",
                master,
                "--ordinal",
                ordinal,
                "--out",
                "out.key",
            ],
        )
    };
    derive("absent", "0").assert_fails(1, &["absent", "hermes-pool key generate"]);
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write("short.key", "abc", 0o600);
    derive("short.key", "0").assert_fails(1, &["short.key must hold 32 to 4096 bytes"]);
    write("open.key", &"a".repeat(64), 0o644);
    derive("open.key", "0").assert_fails(1, &["chmod 600 open.key"]);
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    derive("folder", "0").assert_fails(1, &["regular file: folder is a directory"]);
    let (fifo, mode) = (folder.path().join("fifo"), rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    derive("fifo", "0").assert_fails(1, &["regular file: fifo is no regular file"]);
    std::os::unix::fs::symlink("open.key", folder.path().join("link")).unwrap();
    derive("link", "0").assert_fails(1, &["link is a symbolic link: name the file itself"]);
    write("pool.key", &"a".repeat(64), 0o600);
    derive("pool.key", "10000").assert_fails(2, &["10000 is not in 0..=9999", "--help"]);
    assert!(!folder.path().join("out.key").exists());
}

#[test]
fn every_command_explains_itself_and_the_program_its_version() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        &[][..],
        &["key"],
        &["key", "generate"],
        &["key", "derive"],
        &["status"],
        &["check"],
        &["worker"],
        &["serve"],
        &["demo"],
        &["board"],
        &["board", "create"],
        &["board", "add"],
        &["board", "list"],
        &["board", "show"],
    ] {
        let help = call(folder.path(), &[command, &["--help"]].concat());
        help.assert_done();
        assert!(help.out.contains("Usage: hermes-pool"), "{help:?}");
    }
    let version = call(folder.path(), &["--version"]);
    version.assert_done();
    assert_eq!(
        version.out,
        format!("hermes-pool {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_usage_ends_with_2_and_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, texts) in [
        (&[][..], &["needs a command: serve, key"][..]),
        (
            &["key"],
            &[
                "needs a command: generate, derive",
                "see hermes-pool key --help",
            ],
        ),
        (&["stats"], &["'stats'", "'status'"]),
        (
            &["key", "generate"],
            &["--out <FILE>", "see hermes-pool key generate --help"],
        ),
        (&["status", "--jsn"], &["'--jsn'", "--help"]),
        (&["check", "x"], &["'x'", "--help"]),
        (
            &[
                "worker",
                "--ordinal",
                "0",
                "--coordinator",
                "http://h:1",
                "--key-file",
                "k",
            ],
            &["<CMD>", "see hermes-pool worker --help"],
        ),
    ] {
        call(folder.path(), arguments).assert_fails(2, texts);
    }
}

#[test]
fn a_wrong_configuration_ends_with_2_and_a_line_for_each_problem() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("pool.toml"),
        "[pool]\nslots = 0\nslot = 1\n",
    )
    .unwrap();
    let arguments = ["status", "--config", "pool.toml"];
    let ended = call_with(folder.path(), &arguments, &[("HERMES_POOL_HTTP_BIND", "x")]);
    assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    let keys: Vec<&str> = ended
        .err
        .lines()
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    assert_eq!(keys, ["pool.slot", "pool.slots", "http.bind"]);

    call(folder.path(), &["status", "--config", "absent.toml"])
        .assert_fails(2, &["absent.toml", "No such file"]);
    std::fs::write(folder.path().join("pool.toml"), "[pool\n").unwrap();
    call(folder.path(), &arguments).assert_fails(2, &["pool.toml:1:"]);
}

#[test]
fn the_usual_file_is_taken_where_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(
        folder.path().join("config/pool.toml"),
        "[pool]\nslots = 0\n",
    )
    .unwrap();
    call(folder.path(), &["status"]).assert_fails(2, &["pool.slots: "]);
}

#[test]
fn status_tells_when_no_coordinator_answers() {
    let folder = tempfile::tempdir().unwrap();
    // A port that nobody listens on: it was ours a moment ago.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let ended = call_with(
        folder.path(),
        &["status"],
        &[("HERMES_POOL_OPERATOR_BIND", &free)],
    );
    ended.assert_fails(
        1,
        &[
            &format!("no coordinator answers on {free}"),
            "hermes-pool serve",
        ],
    );
}

/// Answers one request with this status and body, and returns what was asked.
fn answer_once(
    listener: TcpListener,
    status: &'static str,
    body: &'static str,
) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = String::new();
        let mut buffer = [0; 1024];
        while !asked.contains("\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            asked.push_str(str::from_utf8(&buffer[..count]).unwrap());
        }
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        asked
    })
}

fn status_of(
    answer: (&'static str, &'static str),
    bind_ip: &str,
    arguments: &[&str],
) -> (Ended, String) {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("operator.token");
    std::fs::write(&token, "t".repeat(64)).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = format!("{bind_ip}:{}", listener.local_addr().unwrap().port());
    let server = answer_once(listener, answer.0, answer.1);
    let variables = [
        ("HERMES_POOL_OPERATOR_BIND", &*bind),
        ("HERMES_POOL_POOL_STATE_DIR", "."),
    ];
    let ended = call_with(
        folder.path(),
        &[&["status"], arguments].concat(),
        &variables,
    );
    (ended, server.join().unwrap())
}

const SNAPSHOT: &str = r#"{"pool":{"id":"default","version":"0.1.0","slots":2,"ready":false,"draining":false,
"reasons":["the key is missing"],"started_at":1000.0,"now":1300.5,"restarts":2},
"slots":[{"ordinal":0,"state":"running","board":"lab","task":"t_1","run":"7","attempt":2,"lease_until":1343.0,
"last_seen":1298.0,"restarts":0},
{"ordinal":1,"state":"absent","board":null,"task":null,"run":null,"attempt":null,"lease_until":null,
"last_seen":null,"restarts":4}],
"boards":[{"slug":"lab","state":"read_only","reason":"schema\u001b[2J","last_pass":1299.0,"ready":5,"restarts":1}],
"deferrals":[{"scope":"lab/t_1/7","what":"settle","why":"busy","since":1200.0,"times":3,"next_try":1310.0}],
"counts":{"assigned":0,"running":1,"result":0,"lease_failed":0,"finalized":9,"stale":0},"later":"field"}"#;

#[test]
fn status_shows_slots_boards_deferrals_and_counts_to_people() {
    let (ended, asked) = status_of(("200 OK", SNAPSHOT), "127.0.0.1", &[]);
    ended.assert_done();
    assert!(asked.starts_with("GET /api/v1/pool HTTP/1.1\r\n"));
    assert!(!asked.to_lowercase().contains("authorization"));
    assert_eq!(
        ended.out,
        "\
pool default (version 0.1.0), 2 slots, up 5 min: not ready, 2 restarts
  the key is missing

SLOT  STATE    RUN        ATTEMPT  LEASE ENDS  WORKER SEEN  RESTARTS
0     running  lab/t_1/7  2        in 42 s     2 s ago      0
1     absent   -          -        -           -            4

BOARD  STATE      READY  LAST PASS  RESTARTS  REASON
lab    read_only  5      1 s ago    1         schema\\u{1b}[2J

PUT OFF    WORK    SINCE      TRIED  NEXT TRY  WHY
lab/t_1/7  settle  100 s ago  3      in 9 s    busy

assignments: 0 assigned, 1 running, 0 result, 0 lease_failed, 9 finalized, 0 stale
"
    );
}

#[test]
fn status_hands_the_document_to_machines_as_it_is() {
    let (ended, _) = status_of(("200 OK", SNAPSHOT), "127.0.0.1", &["--json"]);
    ended.assert_done();
    assert_eq!(ended.out, format!("{SNAPSHOT}\n"));
}

#[test]
fn status_shows_the_token_where_the_port_is_not_loopback() {
    let (ended, asked) = status_of(("200 OK", SNAPSHOT), "0.0.0.0", &[]);
    ended.assert_done();
    let header = format!("authorization: bearer {}\r\n", "t".repeat(64));
    assert!(asked.to_lowercase().contains(&header), "{asked}");
}

#[test]
fn status_tells_when_something_else_answers() {
    for (answer, text) in [
        (("200 OK", "<html>"), "no coordinator of this version"),
        (("404 Not Found", ""), "status 404"),
        (("401 Unauthorized", ""), "does not take the token"),
    ] {
        status_of(answer, "127.0.0.1", &[])
            .0
            .assert_fails(1, &[text]);
    }
}

#[test]
fn a_worker_that_cannot_begin_tells_why() {
    let folder = tempfile::tempdir().unwrap();
    let worker = |url: &str, key: &str| {
        let arguments = [
            "worker",
            "--ordinal",
            "0",
            "--coordinator",
            url,
            "--key-file",
            key,
            "--",
            "true",
        ];
        call(folder.path(), &arguments)
    };
    worker("https://h", "0.key").assert_fails(2, &["https://h", "http://127.0.0.1:8750"]);
    worker("http://h", "0.key").assert_fails(1, &["0.key", "No such file"]);
}

#[test]
fn a_log_has_one_line_per_record_with_its_time_in_utc() {
    let folder = tempfile::tempdir().unwrap();
    call(folder.path(), &["key", "generate", "--out", "0.key"]).assert_done();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_hermes-pool"))
        .args([
            "worker",
            "--ordinal",
            "0",
            "--coordinator",
            "http://127.0.0.1:9",
        ])
        .args(["--key-file", "0.key", "--", "true"])
        .current_dir(folder.path())
        .env_clear()
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(worker.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();

    let (time, rest) = line.split_once(' ').unwrap();
    let shape: String = time
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    assert_eq!(
        rest,
        "INFO hermes_pool::worker the worker of ordinal 0 is up\n"
    );
}

#[test]
fn check_tells_every_problem_on_a_line_and_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let check = |variables: &[(&str, &str)]| {
        call_with(
            path,
            &["check"],
            &[&[("HERMES_KANBAN_HOME", "hermes")], variables].concat(),
        )
    };
    check(&[]).assert_fails(
        1,
        &["pool.key_file: ", "key generate --out", "state/pool.key"],
    );
    check(&[("HERMES_POOL_POOL_SLOTS", "none")]).assert_fails(1, &["pool.slots: "]);

    call(path, &["key", "generate", "--out", "state/pool.key"]).assert_done();
    let ended = check(&[]);
    ended.assert_done();
    assert!(
        ended
            .out
            .starts_with("ok: configuration (built in), key, store, boards (0 in hermes)")
    );
    assert!(!path.join("state/assignments.db").exists());

    board(path, &["create", "lab"]).assert_done();
    assert!(check(&[]).out.contains("boards (1 in hermes)"));

    std::fs::create_dir(path.join("hermes/kanban/boards/old")).unwrap();
    std::fs::write(
        path.join("hermes/kanban/boards/old/kanban.db"),
        "no database at all, but some text",
    )
    .unwrap();
    std::fs::create_dir_all(path.join("hermes/profiles/codex-cli")).unwrap();
    std::fs::write(
        path.join("state/assignments.db"),
        "no database at all, but some text",
    )
    .unwrap();
    std::fs::write(path.join("state/operator.token"), "short").unwrap();
    let ended = check(&[("HERMES_POOL_BOARDS_INCLUDE", "lab,old,gone")]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    let places: Vec<&str> = ended
        .err
        .lines()
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        places,
        [
            "operator.token_file",
            "pool.state_dir",
            "boards.lanes",
            "boards.include",
            "board old"
        ],
        "{}",
        ended.err
    );
}

/// A folder that is the home of no boards yet; every call of `board` in it looks there.
fn board(folder: &Path, arguments: &[&str]) -> Ended {
    let home = folder.join("hermes").to_str().unwrap().to_owned();
    call_with(
        folder,
        &[&["board"], arguments].concat(),
        &[("HERMES_KANBAN_HOME", &home)],
    )
}

fn json_of(ended: &Ended) -> serde_json::Value {
    ended.assert_done();
    serde_json::from_str(&ended.out).unwrap()
}

#[test]
fn a_board_is_made_filled_listed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let board = |arguments: &[&str]| board(folder.path(), arguments);
    board(&["create", "lab", "--name", "The Lab"]).assert_done();
    let added = |arguments: &[&str]| {
        let ended = board(arguments);
        ended.assert_done();
        ended.out.trim_end().to_owned()
    };
    let parent = added(&[
        "add",
        "lab",
        "--title",
        "first",
        "--lane",
        "codex-cli",
        "--priority",
        "-2",
    ]);
    let child = added(&[
        "add", "lab", "--title", "second", "--body", "b", "--parent", &parent,
    ]);

    let boards = json_of(&board(&["list", "--json"]));
    assert_eq!(boards.as_array().unwrap().len(), 1);
    assert_eq!(boards[0]["slug"], "lab");
    assert_eq!(boards[0]["name"], "The Lab");
    assert_eq!(boards[0]["archived"], false);
    assert!(Path::new(boards[0]["database"].as_str().unwrap()).is_file());

    let tasks = json_of(&board(&["show", "lab", "--json"]));
    let find = |id: &str| {
        let mut tasks = tasks.as_array().unwrap().iter();
        tasks.find(|task| task["id"] == id).unwrap().clone()
    };
    let (first, second) = (find(&parent), find(&child));
    assert_eq!(
        (&first["status"], &first["lane"]),
        (&"ready".into(), &"codex-cli".into())
    );
    assert_eq!(first["priority"], -2);
    assert_eq!(second["status"], "todo");

    let task = json_of(&board(&["show", "lab", &child, "--json"]));
    assert_eq!(task["runs"], serde_json::json!([]));
    assert_eq!(task["events"][0]["kind"], "created");

    let text = board(&["show", "lab", &parent]);
    text.assert_done();
    for shown in [parent.as_str(), "first", "ready", "codex-cli", "created"] {
        assert!(text.out.contains(shown), "{shown}: {text:?}");
    }
    let list = board(&["list"]);
    list.assert_done();
    assert!(list.out.contains("The Lab"));
}

#[test]
fn boards_are_looked_for_where_the_option_or_the_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    call(path, &["board", "create", "lab", "--hermes-home", "one"]).assert_done();
    std::fs::write(path.join("pool.toml"), "[boards]\nhermes_home = \"one\"\n").unwrap();
    let listed = call(path, &["board", "list", "--json", "--config", "pool.toml"]);
    assert_eq!(json_of(&listed)[0]["slug"], "lab");
    let elsewhere = call(
        path,
        &[
            "board",
            "list",
            "--json",
            "--config",
            "pool.toml",
            "--hermes-home",
            "two",
        ],
    );
    assert_eq!(json_of(&elsewhere), serde_json::json!([]));
    assert!(!path.join("two").exists());
}

#[test]
fn what_a_board_refuses_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let board = |arguments: &[&str]| board(folder.path(), arguments);
    board(&["show", "lab"]).assert_fails(1, &["no board lab", "hermes-pool board create lab"]);
    board(&["add", "lab", "--title", "x"]).assert_fails(1, &["no board lab"]);
    assert!(!folder.path().join("hermes").exists());

    board(&["create", "lab"]).assert_done();
    board(&["create", "lab"]).assert_fails(1, &["board lab: "]);
    board(&["create", "La b"]).assert_fails(2, &["La b", "see hermes-pool board create --help"]);
    board(&["add", "lab", "--title", " "]).assert_fails(1, &["board lab: ", "title"]);
    board(&["add", "lab", "--title", "x", "--parent", "t_0"]).assert_fails(1, &["t_0"]);
    board(&["add", "lab", "--title", "x", "--lane", "Codex"]).assert_fails(2, &["Codex"]);
    board(&["add", "lab", "--title", "x", "--max-retries", "0"])
        .assert_fails(2, &["--max-retries"]);
    board(&["show", "lab", "t_0"]).assert_fails(1, &["no task t_0", "hermes-pool board show lab"]);
}
