//! What a person may write, and what they are told when it is wrong.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables
        .iter()
        .map(|(name, text)| ((*name).to_owned(), OsString::from(text)))
        .collect()
}

fn from_file(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let file = Path::new("/etc/pool/pool.toml");
    Config::parse(text, Some(file), &environment(variables))
}

fn refusal(text: &str, variables: &[(&str, &str)]) -> String {
    from_file(text, variables).unwrap_err().to_string()
}

#[test]
fn the_annotated_file_holds_the_documented_defaults() {
    let config = from_file(DEFAULT_TOML, &[]).unwrap();
    let folder = Path::new("/etc/pool");
    assert_eq!(
        config,
        Config {
            file: Some(folder.join("pool.toml")),
            pool: PoolConfig {
                id: PoolId::parse("default").unwrap(),
                slots: 3,
                lease: LeasePolicy::clamped(90, 3, 300),
                state_dir: folder.join("state"),
                key_file: folder.join("state/pool.key"),
            },
            http: HttpConfig {
                bind: "127.0.0.1:8750".parse().unwrap(),
                max_requests: 2 * 3 + 256,
                client_timeout: Duration::from_secs(15),
            },
            operator: OperatorConfig {
                bind: "127.0.0.1:8751".parse().unwrap(),
                token_file: folder.join("state/operator.token"),
            },
            boards: BoardsConfig {
                hermes_home: None,
                lanes: ["claude-cli", "codex-cli"]
                    .map(|lane| Lane::parse(lane).unwrap())
                    .into(),
                include: vec![],
                poll_interval: Duration::from_millis(250),
                failure_limit: 2,
            },
            maintenance: MaintenanceConfig {
                interval: Duration::from_secs(5),
                retention: Duration::from_secs(604_800),
            },
        }
    );
}

#[test]
fn what_a_file_leaves_out_is_taken_from_the_defaults() {
    let config = from_file("[pool]\nslots = 8\n", &[]).unwrap();
    assert_eq!(config.pool.slots, 8);
    assert_eq!(config.http.max_requests, 2 * 8 + 256);
    assert_eq!(config.boards.failure_limit, 2);
    assert_eq!(
        from_file("", &[]).unwrap(),
        from_file(DEFAULT_TOML, &[]).unwrap()
    );
}

#[test]
fn the_environment_overrides_the_file_for_every_kind_of_value() {
    let config = from_file(
        "[pool]\nslots = 8\nid = \"a\"\n[boards]\nlanes = [\"x\"]\n",
        &[
            ("HERMES_POOL_POOL_SLOTS", "5"),
            ("HERMES_POOL_POOL_ID", "b"),
            ("HERMES_POOL_POOL_STATE_DIR", "elsewhere"),
            ("HERMES_POOL_HTTP_BIND", "0.0.0.0:99"),
            ("HERMES_POOL_BOARDS_LANES", "y, z"),
            ("HERMES_POOL_BOARDS_INCLUDE", "lab"),
        ],
    )
    .unwrap();
    assert_eq!(config.pool.slots, 5);
    assert_eq!(config.pool.id.as_str(), "b");
    assert_eq!(config.pool.state_dir, Path::new("/etc/pool/elsewhere"));
    assert_eq!(
        config.operator.token_file,
        Path::new("/etc/pool/elsewhere/operator.token")
    );
    assert_eq!(config.http.bind, "0.0.0.0:99".parse().unwrap());
    assert_eq!(
        config.boards.lanes,
        ["y", "z"].map(|lane| Lane::parse(lane).unwrap())
    );
    assert_eq!(config.boards.include, [BoardSlug::parse("lab").unwrap()]);
}

#[test]
fn an_empty_variable_is_an_empty_list() {
    let text = "[boards]\ninclude = [\"lab\"]\n";
    let config = from_file(text, &[("HERMES_POOL_BOARDS_INCLUDE", "")]).unwrap();
    assert!(config.boards.include.is_empty());
}

#[test]
fn variables_of_the_worker_and_of_others_are_left_alone() {
    let names = [
        "BOARD",
        "TASK",
        "RUN",
        "ATTEMPT",
        "WORKSPACE",
        "POOLS_X",
        "ANYTHING",
    ];
    let names = names.map(|name| format!("HERMES_POOL_{name}"));
    let variables: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    assert!(from_file("", &variables).is_ok());
}

#[test]
fn lease_and_attempts_are_clamped_and_not_refused() {
    for (lease, attempts, expected) in [
        (1, 0, (60.0, 1)),
        (-5, -5, (60.0, 1)),
        (9999, 99, (600.0, 10)),
    ] {
        let text = format!("[pool]\nlease_seconds = {lease}\nmax_attempts = {attempts}\n");
        let policy = from_file(&text, &[]).unwrap().pool.lease;
        assert_eq!((policy.lease_seconds(), policy.max_attempts()), expected);
    }
}

#[test]
fn paths_count_from_the_folder_of_the_file_and_know_the_home_folder() {
    let home = [("HOME", "/home/me")];
    for (given, expected) in [
        ("/abs", "/abs"),
        ("rel/x", "/etc/pool/rel/x"),
        ("~", "/home/me"),
        ("~/.hermes", "/home/me/.hermes"),
        (" ~/x ", "/home/me/x"),
    ] {
        let text = format!("[boards]\nhermes_home = {given:?}\n");
        let config = from_file(&text, &home).unwrap();
        assert_eq!(
            config.boards.hermes_home.as_deref(),
            Some(Path::new(expected)),
            "{given:?}"
        );
    }
    assert!(refusal("[boards]\nhermes_home = \"~/x\"\n", &[]).contains("need HOME"));
    assert!(
        refusal("[boards]\nhermes_home = \"~other/x\"\n", &home)
            .starts_with("boards.hermes_home: ")
    );
}

#[test]
fn without_a_file_paths_count_from_the_current_folder() {
    let config = Config::parse(DEFAULT_TOML, None, &environment(&[])).unwrap();
    assert_eq!(
        config.pool.state_dir,
        std::env::current_dir().unwrap().join("state")
    );
}

#[test]
fn every_value_that_is_not_allowed_is_refused_with_its_key_and_what_is_allowed() {
    let whole = |from: i64, to: i64| format!("must be a whole number from {from} to {to}");
    let address = "must be an address as IP:PORT";
    let assignees = "must be a list of different assignees";
    let slugs = "must be a list of different board slugs";
    for (section, line, allowed) in [
        ("pool", "id = \"Default\"", "must be 1 to 32 of a-z"),
        ("pool", "id = \"\"", "must be 1 to 32 of a-z"),
        ("pool", "id = 7", "must be 1 to 32 of a-z"),
        ("pool", "slots = 0", &whole(1, 10_000)),
        ("pool", "slots = 10001", &whole(1, 10_000)),
        ("pool", "slots = 3.0", &whole(1, 10_000)),
        ("pool", "slots = \"3\"", &whole(1, 10_000)),
        (
            "pool",
            "lease_seconds = \"long\"",
            "must be a whole number, but is \"long\"",
        ),
        (
            "pool",
            "max_attempts = true",
            "must be a whole number, but is true",
        ),
        ("pool", "offer_timeout_seconds = 0", &whole(1, 604_800)),
        ("pool", "state_dir = \"\"", "must be a path, but is empty"),
        ("pool", "state_dir = []", "must be a path"),
        ("pool", "key_file = \" \"", "must be a path, but is empty"),
        ("http", "bind = \"localhost:8750\"", address),
        ("http", "bind = \"127.0.0.1\"", address),
        ("http", "max_requests = -1", &whole(0, 1_000_000)),
        ("http", "client_timeout_seconds = 0", &whole(1, 300)),
        ("operator", "bind = \"127.0.0.1:99999\"", address),
        (
            "operator",
            "bind = \"127.0.0.1:8750\"",
            "must differ from http.bind",
        ),
        ("operator", "token_file = 1", "must be a path"),
        ("boards", "hermes_home = false", "must be a path"),
        ("boards", "lanes = []", "must name at least one assignee"),
        ("boards", "lanes = [\"default\"]", assignees),
        ("boards", "lanes = [\"Codex\"]", assignees),
        ("boards", "lanes = [\"a\", \"a\"]", assignees),
        ("boards", "lanes = \"a\"", assignees),
        ("boards", "include = [\"a/b\"]", slugs),
        ("boards", "include = [1]", slugs),
        ("boards", "poll_millis = 9", &whole(10, 60_000)),
        ("boards", "failure_limit = 0", &whole(1, 1_000)),
        ("maintenance", "interval_seconds = 0", &whole(1, 3_600)),
        (
            "maintenance",
            "retention_seconds = 3599",
            &whole(3_600, 315_360_000),
        ),
    ] {
        let key = line.split(' ').next().unwrap();
        let told = refusal(&format!("[{section}]\n{line}\n"), &[]);
        let expected = format!("{section}.{key}: {allowed}");
        assert!(told.starts_with(&expected), "{line} is told as {told}");
        assert_eq!(told.lines().count(), 1, "{line} is told as {told}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let told = refusal(
        "surprise = 1\n[pool]\nslots = 0\nslot = 1\n[htp]\n[boards]\nlanes = []\n",
        &[
            ("HERMES_POOL_HTTP_MAX_REQUESTS", "many"),
            ("HERMES_POOL_HTTP_PORT", "1"),
        ],
    );
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        [
            "htp: unknown section; known are boards, http, maintenance, operator, pool",
            "pool.slot: unknown key; [pool] has id, key_file, lease_seconds, max_attempts, offer_timeout_seconds, \
             slots, state_dir",
            "surprise: unknown section; known are boards, http, maintenance, operator, pool",
            "HERMES_POOL_HTTP_PORT: unknown variable; [http] has bind, client_timeout_seconds, max_requests",
            "pool.slots: must be a whole number from 1 to 10000, but is 0",
            "http.max_requests: must be a whole number from 0 to 1000000, but is \"many\" in the variable \
             HERMES_POOL_HTTP_MAX_REQUESTS",
            "boards.lanes: must name at least one assignee",
        ]
    );
}

#[test]
fn a_section_that_is_no_section_is_refused() {
    assert_eq!(
        refusal("pool = 1\n", &[]),
        "pool: must be a section: write [pool] and its keys below it"
    );
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_place() {
    let told = refusal("[pool]\nslots = \n", &[]);
    assert!(told.starts_with("/etc/pool/pool.toml:2:9: "), "{told}");
    assert_eq!(told.lines().count(), 1);
}

#[test]
fn a_file_that_is_named_but_missing_is_an_error() {
    let told = Config::load(Some(Path::new("/absent/pool.toml")), &environment(&[]));
    let told = told.unwrap_err().to_string();
    assert!(told.starts_with("configuration file /absent/pool.toml cannot be read: No such file"));
}
