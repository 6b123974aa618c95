//! The door for scripts: the adapter leaves the same boards and gives the same answers as Hermes.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::Value;

use super::compare;
use super::differences::differences;
use super::oracle::Oracle;
use super::player::{Cast, Player};
use super::python;

#[test]
fn scripts_leave_the_same_boards_whether_hermes_or_the_adapter_plays_them() {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let folder = std::env::var_os("POOL_SCENARIOS").map_or(default, PathBuf::from);
    play_all(&scripts(&folder), python::REFERENCE);
}

/// The scripts of a folder, by name.
pub(crate) fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut scripts: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    scripts.sort();
    assert!(
        !scripts.is_empty(),
        "there are no scripts in {}",
        folder.display()
    );
    scripts
}

/// Plays scripts on a release, a few at a time, and fails with every difference there is.
pub(crate) fn play_all(scripts: &[PathBuf], release: &str) {
    if python::with_hermes(release).is_none() {
        return;
    }
    let waiting = Mutex::new(scripts.iter());
    let problems = Mutex::new(Vec::new());
    let players = std::thread::available_parallelism().map_or(2, |cores| 2 * cores.get());
    std::thread::scope(|scope| {
        for _ in 0..players {
            scope.spawn(|| {
                loop {
                    let Some(script) = waiting.lock().unwrap().next() else {
                        break;
                    };
                    for problem in play_twice(script, release) {
                        let name = script.file_name().unwrap_or_default().display();
                        problems.lock().unwrap().push(format!("{name}: {problem}"));
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(
        problems.is_empty(),
        "Hermes {release}:\n{}",
        problems.join("\n")
    );
}

/// Plays a script both ways and returns the differences.
fn play_twice(path: &Path, release: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("the script can be read");
    let script: Vec<Value> = match serde_json::from_str(&text) {
        Ok(script) => script,
        Err(error) => return vec![format!("is no list of steps: {error}")],
    };
    let mut plays = Vec::new();
    for cast in [Cast::Hermes, Cast::Adapter] {
        let home = tempfile::tempdir().expect("there is room for a home");
        let oracle = Oracle::start_release(home.path(), release).expect("Hermes was there before");
        let mut player = Player::new(oracle, cast);
        match player.play(&script) {
            Ok(answers) => plays.push((answers, player.dump())),
            Err(problem) => return vec![problem],
        }
    }
    let [(hermes, left), (adapter, right)] = plays.as_slice() else {
        unreachable!("there are two casts");
    };
    let mut found = compare::answer_differences(&script, hermes, adapter);
    differences("dump", left, right, &mut found);
    found
}
