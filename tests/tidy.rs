//! The rules of the house, as far as a machine can see them: who may know whom, and how long anything may get.
//!
//! Each rule reads the sources as text, gathers everything that breaks it, and tells all of it at once, by file and line.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot read the sources has failed"
)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a file of the library may have.
const FILE_LINES: usize = 450;
/// Lines of code that a function outside the tests may have, from its first to its closing brace.
const FUNCTION_LINES: usize = 70;

/// Who may know whom in the library. A part that is not listed here has no business to exist.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("protocol", &[]),
    ("faults", &[]),
    ("clock", &["domain"]),
    ("config", &["domain", "protocol"]),
    ("store", &["domain", "protocol"]),
    ("board", &["domain", "protocol", "faults"]),
    ("worker", &["protocol", "clock"]),
    (
        "actors",
        &["board", "store", "domain", "protocol", "clock", "faults"],
    ),
    ("http", &["actors", "store", "domain", "protocol"]),
    (
        "cli",
        &[
            "actors", "board", "clock", "config", "domain", "faults", "http", "protocol", "store",
            "worker",
        ],
    ),
];

/// Crates that only these files may name.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("rusqlite", &["src/store/", "src/board/hermes/"]),
    ("actix_web", &["src/http/"]),
    (
        "actix",
        &["src/actors/", "src/cli/serve.rs", "src/cli/demo/mod.rs"],
    ),
    ("ureq", &["src/worker/", "src/cli/status.rs"]),
    ("clap", &["src/cli/"]),
    ("toml", &["src/config/"]),
];

/// Folders that may name only these crates, beside the standard library.
const KNOWS_ONLY: &[(&str, &[&str])] = &[
    ("src/domain/", &["thiserror"]),
    (
        "src/protocol/",
        &[
            "base16ct",
            "getrandom",
            "hmac",
            "rustix",
            "sha2",
            "thiserror",
            "uuid",
        ],
    ),
];

/// One file of the repository.
struct Source {
    /// Its path below the repository's root.
    path: String,
    text: String,
}

impl Source {
    /// Its lines by number, without comments and without its own tests, which stand last.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .take_while(|(_, line)| *line != "mod tests {")
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(index, line)| (index + 1, line))
    }

    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }

    /// The part of the library that it belongs to.
    fn part(&self) -> &str {
        let inside = self.path.strip_prefix("src/").unwrap_or_default();
        inside.split(['/', '.']).next().unwrap_or_default()
    }
}

/// Everything that breaks a rule.
#[derive(Default)]
struct Breaches(String);

impl Breaches {
    fn add(&mut self, path: &str, line: usize, what: &str) {
        writeln!(self.0, "{path}:{line}: {what}").unwrap();
    }

    #[track_caller]
    fn assert_none(&self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All Rust files below a folder, in order of their paths.
fn rust_files(folder: &str) -> Vec<Source> {
    let mut folders = vec![root().join(folder)];
    let mut paths: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    assert!(!paths.is_empty(), "{folder} holds no Rust file");
    paths
        .iter()
        .map(|path| Source {
            path: path
                .strip_prefix(root())
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned(),
            text: fs::read_to_string(path).unwrap(),
        })
        .collect()
}

/// The first segments of all paths in a line that begin with `prefix`, such as `store` in `crate::store::Record`.
fn segments_after<'a>(line: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(prefix)
        .map(move |(at, _)| word_at(line, at + prefix.len()))
}

fn word_at(line: &str, start: usize) -> &str {
    let rest = line.get(start..).unwrap_or_default();
    let end = rest.find(|c: char| !is_of_a_word(c)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

fn is_of_a_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Whether the line names a crate as the root of a path.
fn names_crate(line: &str, name: &str) -> bool {
    let path = format!("{name}::");
    line.match_indices(&path).any(|(at, _)| {
        let before = line.get(..at).unwrap_or_default();
        !before.ends_with(|c: char| is_of_a_word(c) || c == ':')
    })
}

/// The crates that the library depends on, as code spells them.
fn dependencies() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let section = manifest.split("[dependencies]").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let names = section
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.replace('-', "_"));
    names.collect()
}

#[test]
fn parts_know_only_those_that_they_stand_on() {
    let mut breaches = Breaches::default();
    for source in rust_files("src") {
        let part = source.part();
        if matches!(part, "lib" | "main") {
            continue;
        }
        let Some((_, known)) = MAY_KNOW.iter().find(|(name, _)| *name == part) else {
            breaches.add(&source.path, 1, "this part is in no rule");
            continue;
        };
        for (number, line) in source.code() {
            for named in segments_after(line, "crate::") {
                if named != part && !known.contains(&named) {
                    let what = format!("{part} must not know {named:?}");
                    breaches.add(&source.path, number, &what);
                }
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn crates_stay_where_they_belong() {
    let mut breaches = Breaches::default();
    let dependencies = dependencies();
    assert!(dependencies.iter().any(|name| name == "actix_web"));
    for source in rust_files("src") {
        for (number, line) in source.code() {
            for (name, places) in ONLY_IN {
                if names_crate(line, name) && !source.is_in(places) {
                    breaches.add(&source.path, number, &format!("{name} is not for here"));
                }
            }
            for (folder, known) in KNOWS_ONLY {
                let stranger = dependencies
                    .iter()
                    .find(|name| !known.contains(&name.as_str()) && names_crate(line, name));
                if let Some(name) = stranger.filter(|_| source.is_in(&[folder])) {
                    breaches.add(&source.path, number, &format!("{folder} knows no {name}"));
                }
            }
            if line.contains("SystemTime") && source.path != "src/clock.rs" {
                breaches.add(&source.path, number, "only the clock reads the wall");
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn the_library_knows_nothing_of_its_tests() {
    let mut breaches = Breaches::default();
    for source in rust_files("src") {
        for (index, line) in source.text.lines().enumerate() {
            if line.contains("tests/") {
                breaches.add(&source.path, index + 1, "names a file of the tests");
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn files_say_what_they_are_and_leave_nothing_undone() {
    let mut breaches = Breaches::default();
    // Put together here, so that this file may be looked at too.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("unimple", "mented!"),
        concat!("<<<<", "<<< "),
        concat!(">>>>", ">>> "),
    ];
    for source in rust_files("src").into_iter().chain(rust_files("tests")) {
        if !source.text.starts_with("//! ") {
            breaches.add(&source.path, 1, "does not begin by saying what it is");
        }
        // A module that several test binaries share cannot tell which of them leaves a part of it unused.
        let silenced = source.path.starts_with("src/") && source.text.contains("[allow(");
        if silenced {
            breaches.add(&source.path, 1, "allows a lint, where it could expect it");
        }
        for (index, line) in source.text.lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| line.contains(*mark)) {
                breaches.add(&source.path, index + 1, mark);
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn files_and_functions_can_be_taken_in_at_a_glance() {
    let mut breaches = Breaches::default();
    for source in rust_files("src") {
        let length = source.text.lines().count();
        if length > FILE_LINES {
            let what = format!("{length} lines, {FILE_LINES} are allowed");
            breaches.add(&source.path, 1, &what);
        }
        if source.path.ends_with("tests.rs") {
            continue;
        }
        let code: Vec<(usize, &str)> = source.code().collect();
        for (index, (number, line)) in code.iter().enumerate() {
            let length = function_lines(line, code.get(index + 1..).unwrap_or_default());
            if opens_fn(line) && length > FUNCTION_LINES {
                let what = format!("a function of {length} lines, {FUNCTION_LINES} are allowed");
                breaches.add(&source.path, *number, &what);
            }
        }
    }
    breaches.assert_none();
}

/// Whether a line is the first of a function.
fn opens_fn(line: &str) -> bool {
    let line = line.trim_start();
    let before = line.split("fn ").next().unwrap_or_default();
    before.len() < line.len()
        && before.split_whitespace().all(|word| {
            matches!(word, "async" | "const" | "unsafe" | "extern")
                || word.starts_with("pub")
                || word.ends_with(')')
        })
}

/// How many lines of code a function has: up to its closing brace, which stands as far to the right as its first word. One without
/// a body ends with its semicolon.
fn function_lines(first: &str, rest: &[(usize, &str)]) -> usize {
    let indent = first.len() - first.trim_start().len();
    let is_short = first.ends_with('}') || first.ends_with(';');
    if is_short {
        return 1;
    }
    let ends = |(_, line): &(usize, &str)| {
        let at_indent = line.len() - line.trim_start().len() == indent;
        at_indent && (line.trim_start().starts_with('}') || line.ends_with(';'))
    };
    rest.iter()
        .position(ends)
        .map_or(rest.len(), |index| index + 2)
}

#[test]
fn every_setting_is_explained_where_it_stands() {
    let mut breaches = Breaches::default();
    let text = read("config/pool.toml");
    let mut above = "";
    for (index, line) in text.lines().enumerate() {
        if line.contains(" = ") && !line.starts_with('#') && !above.starts_with("# ") {
            breaches.add("config/pool.toml", index + 1, "a key without a comment");
        }
        above = line;
    }
    breaches.assert_none();
}

#[test]
fn every_route_stands_in_the_readme() {
    let mut breaches = Breaches::default();
    let readme = read("README.md");
    let mut found = 0;
    for source in rust_files("src/http") {
        for (number, line) in source.code() {
            for (at, _) in line.match_indices("\"/") {
                let rest = line.get(at + 1..).unwrap_or_default();
                let route = rest.split('"').next().unwrap_or_default();
                found += 1;
                let told = [
                    format!("`{route}`"),
                    format!("`{route}?"),
                    format!(" {route}`"),
                ];
                if !told.iter().any(|told| readme.contains(told)) {
                    breaches.add(
                        &source.path,
                        number,
                        &format!("README.md is silent on {route}"),
                    );
                }
            }
        }
    }
    assert!(found >= 9, "only {found} routes were found");
    breaches.assert_none();
}

#[test]
fn every_point_of_the_test_door_is_passed_somewhere() {
    let faults = read("src/faults.rs");
    let points: BTreeSet<&str> = faults
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(" = \""))
        .map(|(name, _)| name)
        .collect();
    assert!(points.contains("IntentNoted"), "{points:?}");
    let sources = rust_files("src");
    let passed: BTreeSet<&str> = sources
        .iter()
        .filter(|source| source.path != "src/faults.rs")
        .flat_map(Source::code)
        .flat_map(|(_, line)| segments_after(line, ".pass(FaultPoint::"))
        .collect();
    assert_eq!(points, passed);
}
