//! `demo`, as somebody who has just cloned the repository runs it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

#[cfg(target_os = "linux")]
use super::process::{processes_of, until};

/// Starts it so that its folder is made in this one.
fn demo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermes-pool"));
    command
        .arg("demo")
        .args(arguments)
        .env("TMPDIR", folder)
        .stdin(Stdio::null());
    command
}

#[test]
fn it_ends_in_under_a_minute_with_every_task_where_it_should_be_and_nothing_left() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let output = demo(folder.path(), &[]).output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60));
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{out}");
    let at = |text: &str| out.find(text).unwrap_or_else(|| panic!("{text}:\n{out}"));
    assert!(at("is killed (SIGKILL)") < at("is started again"));
    assert!(at("is started again") < at("is offered attempt 1 of \"Index the archive\" again"));
    assert!(at("\"Write the sales report\" is done") < at("\"Send the sales report\" is ready"));
    let rows = |status: &str| {
        out.lines()
            .filter(|line| line.contains(&format!("  {status}  ")))
            .count()
    };
    assert_eq!((rows("done   "), rows("blocked")), (5, 1), "{out}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    #[cfg(target_os = "linux")]
    assert_eq!(processes_of(folder.path()), [""; 0]);
}

/// A demo whose workers are at work.
fn at_work(command: &mut Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap().contains("takes"))
        .unwrap()
        .unwrap();
    child
}

#[cfg(target_os = "linux")]
#[test]
fn whatever_ends_it_its_processes_end_with_it() {
    for (signal, code) in [(Signal::INT, Some(1)), (Signal::KILL, None)] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = at_work(demo(folder.path(), &[]).stderr(Stdio::null()));
        assert!(processes_of(folder.path()).len() > 3);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        until("the processes end", || {
            processes_of(folder.path()).is_empty().then_some(())
        });
    }
}

#[test]
fn a_folder_that_is_kept_is_named_and_holds_the_board() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = at_work(demo(folder.path(), &["--keep"]).stderr(Stdio::null()));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let kept = std::fs::read_dir(folder.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert!(kept.join("hermes/kanban/boards/demo/kanban.db").exists());
}
