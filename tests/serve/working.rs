//! The main job: tasks on a board, a coordinator, a worker.

use super::process::{Coordinator, Home, ended, until};

#[test]
fn tasks_are_done_parents_first_by_a_worker_that_reads_their_context() {
    let home = Home::new();
    let parent = home.task("the parent", &[]);
    let child = home.task("the child", &[&parent]);
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    let line = "read -r heading && echo \"$HERMES_POOL_TASK: $heading\"";
    let _worker = home.worker(1, &coordinator, line);
    home.wait_for_status(&child, "done");
    assert_eq!(home.status(&parent), "done");
    for (task, title) in [(&parent, "the parent"), (&child, "the child")] {
        let [run] = &home.runs(task)[..] else {
            panic!("one run for each task");
        };
        assert_eq!(run.outcome, "completed");
        let summary = run.summary.as_deref().unwrap();
        assert!(
            summary.starts_with(task.as_str()) && summary.contains(title),
            "{summary}"
        );
    }
    let [before, after] = [&parent, &child].map(|task| home.runs(task).remove(0));
    assert!(before.ended_at.unwrap() <= after.started_at);
    until("the store knows", || {
        (coordinator.count("finalized") == 2).then_some(())
    });
    coordinator.process.hear("event=ended");
}

#[test]
fn status_shows_the_running_coordinator() {
    let home = Home::new();
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    coordinator.process.hear("event=board_served");
    let status = |arguments: &[&str]| {
        let arguments = [&["status", "--config", "pool.toml"], arguments].concat();
        let mut command = home.command(&arguments);
        command.env("HERMES_POOL_OPERATOR_BIND", &coordinator.operators);
        ended(&mut command)
    };
    let text = status(&[]);
    assert_eq!((text.code, text.err.as_str()), (Some(0), ""));
    assert!(
        text.out.starts_with("pool default (version "),
        "{}",
        text.out
    );
    assert!(text.out.contains("3 slots") && text.out.contains(": ready"));
    assert!(text.out.contains("lab"), "{}", text.out);
    let document: serde_json::Value = serde_json::from_str(&status(&["--json"]).out).unwrap();
    assert_eq!(document["slots"].as_array().unwrap().len(), 3);
    assert_eq!(document["boards"][0]["slug"], "lab");
}

#[cfg(target_os = "linux")]
#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
    let home = Home::new();
    let mut shell = std::process::Command::new("sh");
    shell
        .args([
            "-c",
            "ulimit -Sn 64 && exec \"$0\" serve --config pool.toml",
        ])
        .arg(env!("CARGO_BIN_EXE_hermes-pool"))
        .current_dir(home.folder.path());
    let coordinator = Coordinator::start(&mut shell);
    let pid = coordinator.process.child.id();
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let mut lines = limits.lines();
    let files = lines
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let numbers: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{files}");
    assert_ne!(numbers[0], "64", "{files}");
}
