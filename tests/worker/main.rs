//! The reference worker as its operator runs it: real processes, real sockets, a coordinator that does what it is told.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what fails here fails the test"
)]

mod coordinator;
mod process;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use hermes_pool::protocol::{Binding, Json, Kind, MAX_ACTIVITY_BYTES, canonical_json};
use rustix::process::{Signal, kill_process_group};

use coordinator::{Answer, Coordinator, Message, PATIENCE, assignment, binding, now};
use process::{Bench, Worker};

/// A command that stays until it is killed, and answers no signal that can be ignored.
const STAY: &str = "trap '' TERM INT HUP; echo up >&9; while :; do sleep 60; done";

/// A command that leaves a process in its group and one outside of it, both deaf and both holding all pipes open.
const STAY_WITH_FAMILY: &str = "trap '' TERM INT HUP; \
     sh -c 'while :; do sleep 60; done' & \
     setsid sh -c '(while :; do sleep 60; done) & echo up >&9' & \
     while :; do sleep 60; done";

fn json(message: &Message) -> String {
    String::from_utf8(canonical_json(&message.payload).unwrap()).unwrap()
}

#[test]
fn a_run_is_worked_on_and_reported() {
    let coordinator = Coordinator::with_run(60, Answer::friendly);
    let bench = Bench::new(&coordinator);
    let script = "cat > stdin; env > env; umask > umask; echo to stderr >&2; echo to stdout";
    let mut worker = bench.worker(&coordinator, &["--once"], script);

    let poll = coordinator.next(Kind::Poll);
    assert_eq!(poll.binding, Binding::without_run(1));
    assert_eq!(
        poll.payload.get("wait_seconds").and_then(Json::as_i64),
        Some(30)
    );
    let result = coordinator.passing_over(Kind::Result, |before| {
        assert_eq!(
            (before.kind, &before.binding),
            (Kind::Heartbeat, &binding())
        );
    });
    assert_eq!(result.binding, binding());
    assert_eq!(result.text("outcome"), "completed");
    let mut lines: Vec<_> = result.text("summary").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["to stderr", "to stdout"]);
    assert_eq!(worker.exit_status(), 0);

    let folder = bench.task_folder();
    let mode = folder.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let context = fs::read_to_string(folder.join("stdin")).unwrap();
    assert_eq!(context, "what is to be done\n");
    let environment = fs::read_to_string(folder.join("env")).unwrap();
    let mut own: Vec<_> = environment
        .lines()
        .filter(|line| line.starts_with("HERMES_POOL_"))
        .collect();
    own.sort_unstable();
    let workspace = format!("HERMES_POOL_WORKSPACE={}", folder.display());
    assert_eq!(
        own,
        [
            "HERMES_POOL_ATTEMPT=2",
            "HERMES_POOL_BOARD=lab",
            "HERMES_POOL_RUN=7",
            "HERMES_POOL_TASK=t_1a2b3c4d",
            workspace.as_str(),
        ]
    );
    assert!(!bench.outbox().exists());
}

#[test]
fn the_end_of_the_command_is_the_result() {
    for (script, result) in [
        (
            "echo went wrong; exit 3",
            r#"{"outcome":"failed","reason":"exit status 3\nwent wrong"}"#,
        ),
        (
            "exit 75",
            r#"{"outcome":"rate_limited","reason":"exit status 75, without any output"}"#,
        ),
        (
            "kill -9 $$",
            r#"{"outcome":"failed","reason":"killed by signal 9, without any output"}"#,
        ),
        (
            r#"echo words; echo '{"outcome":"blocked","block_kind":"capability","reason":"r"}'; exit 1"#,
            r#"{"block_kind":"capability","outcome":"blocked","reason":"r"}"#,
        ),
        (
            r#"printf '{"outcome":"completed","summary":"s","metadata":{"n":1}}'"#,
            r#"{"metadata":{"n":1},"outcome":"completed","summary":"s"}"#,
        ),
        (
            r#"echo '{"outcome":"perfect"}'"#,
            "{\"outcome\":\"failed\",\"reason\":\"the last line of output claims an outcome but is no valid \
             result: outcome must be one of completed, blocked, failed, rate_limited, released\"}",
        ),
        (
            r#"printf '{"outcome":"completed","result":"%080000d"}' 1"#,
            "{\"outcome\":\"failed\",\"reason\":\"exit status 0; its result is not text or too large for one \
             message of 64 KiB\"}",
        ),
        (
            "kill -9 0",
            r#"{"outcome":"failed","reason":"the guard of the command was killed"}"#,
        ),
        (
            // A script that ends its own group to clean up does not end its guard.
            "trap '' TERM; kill -TERM 0; echo cleaned up",
            r#"{"metadata":{"exit_status":0},"outcome":"completed","summary":"cleaned up"}"#,
        ),
    ] {
        let coordinator = Coordinator::with_run(60, Answer::friendly);
        let bench = Bench::new(&coordinator);
        let mut worker = bench.worker(&coordinator, &["--once"], script);
        assert_eq!(json(&coordinator.next(Kind::Result)), result, "{script}");
        assert_eq!(worker.exit_status(), 0, "{script}");
    }
}

#[test]
fn a_command_that_cannot_be_started_fails_its_run() {
    let program = Arc::new(OnceLock::<PathBuf>::new());
    let mut run = Some(assignment(60));
    let vanishing = Arc::clone(&program);
    // The program is there when the worker starts, and is gone when the worker has a run.
    let coordinator = Coordinator::start(move |message| match (message.kind, run.take()) {
        (Kind::Poll, Some(run)) => {
            fs::remove_file(vanishing.get().unwrap()).unwrap();
            run
        }
        _ => Answer::friendly(message),
    });
    let bench = Bench::new(&coordinator);
    let path = program.get_or_init(|| bench.path("program"));
    fs::copy("/bin/sh", path).unwrap();
    let command = [path.to_str().unwrap()];
    let mut command = bench.command(&coordinator, &["--once"], &command);
    let mut worker = Worker(command.spawn().unwrap());
    let reason = coordinator.next(Kind::Result).text("reason");
    assert!(
        reason.starts_with("the worker could not start its command: "),
        "{reason}"
    );
    assert!(reason.contains("No such file"), "{reason}");
    assert_eq!(worker.exit_status(), 0);
    let log = bench.log();
    let warning = log.lines().find(|line| line.contains("WARN")).unwrap();
    assert!(warning.contains(&reason), "{log}");
}

#[test]
fn a_worker_whose_command_is_mistyped_ends_before_it_asks_for_a_run() {
    let coordinator = Coordinator::start(|message| panic!("nothing is asked: {message:?}"));
    let bench = Bench::new(&coordinator);
    fs::write(bench.path("draft.sh"), "#!/bin/sh\n").unwrap();
    let draft = bench.path("draft.sh");
    for (program, reason) in [
        ("./typo.sh", "No such file"),
        ("typo", "no folder of PATH has such a program"),
        ("/", "is no file"),
        (draft.to_str().unwrap(), "chmod +x"),
    ] {
        let mut command = bench.command(&coordinator, &[], &[program]);
        assert_eq!(Worker(command.spawn().unwrap()).exit_status(), 2);
        let log = bench.log();
        let told = log.lines().last().unwrap();
        let says = format!("the command {program} cannot be run: ");
        assert!(told.contains(&says) && told.contains(reason), "{log}");
    }
}

#[test]
fn any_amount_of_output_is_taken_and_little_of_it_sent() {
    let coordinator = Coordinator::with_run(3, Answer::friendly);
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let gate = bench.gate();
    let script = life.script(&format!(
        "head -c 30000000 /dev/zero | tr '\\0' x; printf '\\n%020000d\\nthe end\\n' 5; echo written >&9; {}",
        gate.wait()
    ));
    let _worker = bench.worker(&coordinator, &["--once"], &script);
    life.expect("written");
    // What was written is read at once, but perhaps not before the next heartbeat.
    let activity = (0..5)
        .map(|_| coordinator.next(Kind::Heartbeat).text("activity"))
        .find(|activity| activity.ends_with("the end\n"));
    let activity = activity.expect("the output is shown");
    assert_eq!(activity.len(), MAX_ACTIVITY_BYTES);
    gate.open();
    let result = coordinator.next(Kind::Result);
    assert_eq!(result.text("outcome"), "completed");
    assert!(result.text("summary").ends_with("the end"));
    assert!(json(&result).len() < 10_000);
}

#[test]
fn what_a_command_leaves_behind_neither_holds_up_its_result_nor_outlives_it() {
    let coordinator = Coordinator::with_run(60, Answer::friendly);
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let gate = bench.gate();
    let script = life.script(&format!(
        "trap '' TERM; sh -c 'while :; do sleep 60; done' & \
         setsid sh -c 'echo up >&9; while :; do sleep 60; done' & \
         {}; echo done",
        gate.wait()
    ));
    let mut worker = bench.worker(&coordinator, &["--once"], &script);
    life.expect("up");
    gate.open();
    let result = coordinator.next(Kind::Result);
    assert_eq!(result.text("summary"), "done");
    assert!(
        life.ends_within(Duration::from_secs(1)),
        "something is left"
    );
    assert_eq!(worker.exit_status(), 0);
}

#[test]
fn a_refused_heartbeat_stops_the_whole_group_and_nothing_is_reported() {
    for code in ["run_superseded", "stale_attempt", "lease_expired"] {
        let refuse = Arc::new(AtomicBool::new(false));
        let refused = Arc::clone(&refuse);
        let coordinator = Coordinator::with_run(2, move |message| match message.kind {
            Kind::Heartbeat if refused.load(Ordering::SeqCst) => Answer::rejected(code),
            _ => Answer::friendly(message),
        });
        let bench = Bench::new(&coordinator);
        let life = bench.life();
        let _worker = bench.worker(&coordinator, &[], &life.script(STAY_WITH_FAMILY));
        life.expect("up");
        refuse.store(true, Ordering::SeqCst);
        assert!(life.ends_within(Duration::from_secs(3)), "{code}");
        coordinator.rest();
        let after = coordinator.passing_over(Kind::Poll, |other| {
            assert_ne!(other.kind, Kind::Result, "{code}");
        });
        assert_eq!(after.binding, Binding::without_run(1));
    }
}

#[test]
fn heartbeats_that_are_not_answered_stop_the_group_when_the_lease_is_over() {
    for silence in [
        Answer::Silence,
        Answer::Forged(Box::new(Answer::alive())),
        Answer::Misdirected(Box::new(Answer::alive())),
        Answer::Unsigned("500 Oh\r\nServer: proxy", "<html>no</html>".to_owned()),
    ] {
        let coordinator = Coordinator::with_run(2, move |message| match message.kind {
            Kind::Heartbeat => silence.clone(),
            _ => Answer::friendly(message),
        });
        let bench = Bench::new(&coordinator);
        let life = bench.life();
        let _worker = bench.worker(&coordinator, &[], &life.script(STAY_WITH_FAMILY));
        coordinator.next(Kind::Poll);
        life.expect("up");
        let polled = Instant::now();
        coordinator.passing_over(Kind::Poll, |other| assert_eq!(other.kind, Kind::Heartbeat));
        assert!(polled.elapsed() < Duration::from_secs(3));
        assert!(
            life.ends_within(Duration::ZERO),
            "it polls only when all is gone"
        );
    }
}

#[test]
fn answered_heartbeats_keep_a_command_alive_for_many_leases() {
    let beats = Arc::new(AtomicUsize::new(0));
    let beaten = Arc::clone(&beats);
    let coordinator = Coordinator::with_run(2, move |message| {
        // Every third is lost, every fourth is answered by a forger who wants the command stopped.
        match message.kind {
            Kind::Heartbeat => match beaten.fetch_add(1, Ordering::SeqCst) {
                count if count % 3 == 2 => Answer::Silence,
                count if count % 4 == 3 => {
                    Answer::Forged(Box::new(Answer::rejected("stale_attempt")))
                }
                _ => Answer::alive(),
            },
            _ => Answer::friendly(message),
        }
    });
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let _worker = bench.worker(&coordinator, &[], &life.script(STAY));
    life.expect("up");
    while beats.load(Ordering::SeqCst) < 12 {
        coordinator.next(Kind::Heartbeat);
    }
    assert!(!life.ends_within(Duration::ZERO));
}

#[test]
fn a_worker_that_is_killed_leaves_nothing_behind() {
    let coordinator = Coordinator::with_run(60, Answer::friendly);
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let mut worker = bench.worker(&coordinator, &[], &life.script(STAY_WITH_FAMILY));
    life.expect("up");
    worker.kill();
    assert!(life.ends_within(Duration::from_secs(1)));
}

#[test]
fn a_frozen_worker_does_not_keep_its_command_past_the_lease() {
    let coordinator = Coordinator::with_run(2, Answer::friendly);
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let worker = bench.worker(&coordinator, &[], &life.script(STAY_WITH_FAMILY));
    life.expect("up");
    coordinator.next(Kind::Heartbeat);
    worker.signal(Signal::STOP);
    assert!(life.ends_within(Duration::from_secs(3)));
    assert!(worker.is_frozen());
    coordinator.rest();
    worker.signal(Signal::CONT);
    coordinator.passing_over(Kind::Poll, |other| assert_ne!(other.kind, Kind::Result));
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_was_frozen_with_its_guard_and_command_kills_the_command_before_anything_else() {
    let lease = Duration::from_secs(2);
    let coordinator = Coordinator::with_run(lease.as_secs(), Answer::friendly);
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let script = "trap '' TERM INT HUP; echo up >&9; while :; do echo works >&9; done";
    let worker = bench.worker(&coordinator, &[], &life.script(script));
    life.expect("up");
    let guard = worker.guard();
    worker.signal(Signal::STOP);
    kill_process_group(guard, Signal::STOP).unwrap();
    // Whatever was granted before the freeze is over.
    assert!(!life.ends_within(lease + Duration::from_millis(200)));
    coordinator.rest();

    // The worker wakes alone: nothing but it can end the command, and it waits for its guard for a while.
    worker.signal(Signal::CONT);
    assert!(life.ends_within(PATIENCE));
    coordinator.passing_over(Kind::Poll, |other| panic!("it says {other:?}"));
}

#[test]
fn a_command_is_started_anew_only_when_the_one_before_is_gone() {
    let coordinator = Coordinator::start(|message| match message.kind {
        Kind::Poll => assignment(60),
        _ => Answer::friendly(message),
    });
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let first_script = life.script(&format!("echo $$ > pid; {STAY}"));
    let mut first = bench.worker(&coordinator, &[], &first_script);
    life.expect("up");
    first.kill();
    let second_script = "if kill -0 $(cat pid) 2> error; then echo alive; else echo gone; fi";
    let mut second = bench.worker(&coordinator, &["--once"], second_script);
    let summary = coordinator.next(Kind::Result).text("summary");
    assert_eq!(summary, "gone");
    assert_eq!(second.exit_status(), 0);
}

#[test]
fn an_ordinal_has_one_worker_per_workspace() {
    let coordinator = Coordinator::start(|_| Answer::idle());
    let bench = Bench::new(&coordinator);
    let first = bench.worker(&coordinator, &[], "true");
    coordinator.next(Kind::Poll);
    let mut second = bench.worker(&coordinator, &[], "true");
    assert_eq!(second.exit_status(), 1);
    let told = format!(
        "served by another worker in {}",
        bench.path("workspace").display()
    );
    let pid = format!("(pid {})", first.pid().as_raw_pid());
    assert!(
        bench.log().contains(&told) && bench.log().contains(&pid),
        "{}",
        bench.log()
    );
}

#[test]
fn an_assignment_that_comes_late_is_confirmed_before_its_command_starts() {
    let coordinator = Coordinator::start(|message| match message.kind {
        Kind::Poll => {
            // The lease is two seconds long, and almost over when the worker learns of it.
            thread::sleep(Duration::from_millis(1_700));
            assignment(2)
        }
        Kind::Heartbeat => Answer::rejected("stale_attempt"),
        _ => Answer::friendly(message),
    });
    let bench = Bench::new(&coordinator);
    let mut worker = bench.worker(&coordinator, &["--once"], "touch started");
    coordinator.next(Kind::Heartbeat);
    assert_eq!(worker.exit_status(), 0);
    assert!(!bench.task_folder().join("started").exists());
    assert!(coordinator.rest().is_empty(), "nothing is reported");
}

#[test]
fn a_result_that_was_not_acknowledged_is_delivered_by_the_next_worker() {
    let coordinator = Coordinator::with_run(60, |message| match message.kind {
        Kind::Result => Answer::Silence,
        _ => Answer::friendly(message),
    });
    let bench = Bench::new(&coordinator);
    let mut worker = bench.worker(&coordinator, &[], "echo once >> runs; echo finished");
    let lost = coordinator.next(Kind::Result);
    worker.kill();
    assert!(bench.outbox().exists());
    let mode = bench.outbox().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let coordinator = coordinator.stop()(Answer::friendly);
    let mut worker = bench.worker(&coordinator, &["--once"], "echo once >> runs");
    let delivered = coordinator.passing_over(Kind::Result, |before| {
        panic!("{:?} came before the result", before.kind);
    });
    assert_eq!(
        (&delivered.binding, json(&delivered)),
        (&lost.binding, json(&lost))
    );
    assert_eq!(worker.exit_status(), 0);
    assert!(!bench.outbox().exists());
    let runs = fs::read_to_string(bench.task_folder().join("runs")).unwrap();
    assert_eq!(runs, "once\n");
}

#[test]
fn a_result_that_is_refused_is_dropped_but_an_unsigned_refusal_is_not_believed() {
    let results = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&results);
    let coordinator = Coordinator::with_run(60, move |message| match message.kind {
        Kind::Result => match count.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::Unsigned(
                "409 Conflict",
                r#"{"error":{"code":"stale_attempt","message":"m"}}"#.to_owned(),
            ),
            1 => Answer::Forged(Box::new(Answer::rejected("stale_attempt"))),
            2 => Answer::Unsigned("504 Gateway Timeout", "<html>later</html>".to_owned()),
            3 => Answer::Unsigned("503 Busy\r\nRetry-After: 1", "{}".to_owned()),
            _ => Answer::rejected("stale_attempt"),
        },
        _ => Answer::friendly(message),
    });
    let bench = Bench::new(&coordinator);
    let mut worker = bench.worker(&coordinator, &["--once"], "true");
    for _ in 0..4 {
        coordinator.next(Kind::Result);
    }
    let told_to_wait = Instant::now();
    coordinator.next(Kind::Result);
    assert!(told_to_wait.elapsed() >= Duration::from_millis(900));
    assert_eq!(worker.exit_status(), 0);
    assert!(!bench.outbox().exists());
}

#[test]
fn a_coordinator_that_restarts_is_waited_for() {
    let coordinator = Coordinator::with_run(60, Answer::friendly);
    let bench = Bench::new(&coordinator);
    let gate = bench.gate();
    let script = format!("touch started; {}", gate.wait());
    let mut worker = bench.worker(&coordinator, &["--once"], &script);
    coordinator.next(Kind::Heartbeat);
    let start_again = coordinator.stop();
    gate.open();
    bench.wait_for_log("result: no answer from the coordinator");
    let coordinator = start_again(Answer::friendly);
    assert_eq!(coordinator.next(Kind::Result).text("outcome"), "completed");
    assert_eq!(worker.exit_status(), 0);
}

#[test]
fn forged_replies_start_nothing() {
    let polls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&polls);
    let coordinator = Coordinator::start(move |message| match message.kind {
        Kind::Poll => match count.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::Forged(Box::new(assignment(60))),
            1 => Answer::Misdirected(Box::new(assignment(60))),
            2 => {
                let Answer::Assignment(mut binding, payload) = assignment(60) else {
                    unreachable!()
                };
                binding.worker_ordinal = 0;
                Answer::Assignment(binding, payload)
            }
            _ => Answer::idle(),
        },
        _ => Answer::friendly(message),
    });
    let bench = Bench::new(&coordinator);
    let _worker = bench.worker(&coordinator, &[], "touch started");
    for _ in 0..5 {
        let message = coordinator.passing_over(Kind::Poll, |other| panic!("{:?}", other.kind));
        assert_eq!(message.binding, Binding::without_run(1));
    }
    assert!(!bench.task_folder().exists());
}

#[test]
fn a_request_that_is_never_answered_is_made_again() {
    let results = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&results);
    let coordinator = Coordinator::with_run(60, move |message| match message.kind {
        Kind::Result if count.fetch_add(1, Ordering::SeqCst) == 0 => Answer::Silence,
        _ => Answer::friendly(message),
    });
    let bench = Bench::new(&coordinator);
    let mut worker = bench.worker(&coordinator, &["--once"], "true");
    // The first falls silent until the worker hangs up.
    let first = coordinator.next(Kind::Result);
    let second = coordinator.next(Kind::Result);
    assert_eq!(json(&first), json(&second));
    assert_eq!(worker.exit_status(), 0);
}

#[test]
fn a_worker_that_is_told_to_stop_gives_its_run_back() {
    let coordinator = Coordinator::with_run(60, Answer::friendly);
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let mut worker = bench.worker(&coordinator, &[], &life.script(STAY_WITH_FAMILY));
    life.expect("up");
    worker.signal(Signal::TERM);
    let result = coordinator.next(Kind::Result);
    assert_eq!(
        json(&result),
        r#"{"outcome":"released","reason":"the worker was told to stop"}"#
    );
    assert!(
        life.ends_within(Duration::ZERO),
        "it is given back before it is stopped"
    );
    assert_eq!(worker.exit_status(), 0);
    assert!(!bench.outbox().exists());
}

#[test]
fn a_worker_that_is_told_to_stop_does_not_wait_for_a_coordinator_that_is_gone() {
    let coordinator = Coordinator::with_run(60, |message| match message.kind {
        Kind::Result | Kind::Poll => Answer::Silence,
        _ => Answer::friendly(message),
    });
    let bench = Bench::new(&coordinator);
    let life = bench.life();
    let mut worker = bench.worker(&coordinator, &[], &life.script(STAY));
    life.expect("up");
    let told = Instant::now();
    worker.signal(Signal::TERM);
    assert_eq!(worker.exit_status(), 0);
    assert!(told.elapsed() < Duration::from_secs(8));
    // And in a long poll it has nothing to wait for.
    let mut worker = bench.worker(&coordinator, &[], "true");
    coordinator.rest();
    coordinator.next(Kind::Poll);
    let told = Instant::now();
    worker.signal(Signal::INT);
    assert_eq!(worker.exit_status(), 0);
    assert!(told.elapsed() < Duration::from_secs(2));
}

#[test]
fn clocks_that_differ_are_told_to_the_operator() {
    let theirs = now() + 3_600;
    let coordinator = Coordinator::start(move |_| {
        let message = format!(
            r#"{{"error":{{"code":"outside_window","message":"m","server_time":{theirs}}}}}"#
        );
        Answer::Unsigned("401 Unauthorized", message)
    });
    let bench = Bench::new(&coordinator);
    let _worker = bench.worker(&coordinator, &[], "true");
    coordinator.next(Kind::Poll);
    coordinator.next(Kind::Poll);
    let log = bench.log();
    assert!(
        log.contains(&format!("its clock shows {theirs}, ours ")),
        "{log}"
    );
    assert!(log.contains("synchronise the clocks"), "{log}");
}

#[test]
fn no_secret_of_the_worker_reaches_command_result_or_log() {
    let coordinator = Coordinator::with_run(60, Answer::friendly);
    let bench = Bench::new(&coordinator);
    let canary = "canary-5f1d2c";
    let script = "env > seen; echo GIVEN_TO_THE_COMMAND=$GIVEN_TO_THE_COMMAND; \
         cat /proc/self/environ /proc/self/cmdline /proc/$PPID/environ /proc/$PPID/cmdline >> seen";
    let mut command = bench.command(&coordinator, &["--once"], &["/bin/sh", "-c", script]);
    command
        .env("HERMES_POOL_OPERATOR_TOKEN", canary)
        .env("HERMES_POOL_POOL_KEY_FILE", canary)
        .env("RUST_LOG", "trace")
        .env("GIVEN_TO_THE_COMMAND", "yes");
    let mut worker = Worker(command.spawn().unwrap());
    let mut texts = Vec::new();
    let result = coordinator.passing_over(Kind::Result, |message| texts.push(json(message)));
    assert_eq!(result.text("summary"), "GIVEN_TO_THE_COMMAND=yes");
    assert_eq!(worker.exit_status(), 0);
    texts.push(json(&result));
    let seen = fs::read(bench.task_folder().join("seen")).unwrap();
    texts.push(String::from_utf8_lossy(&seen).into_owned());
    let log = bench.log();
    assert!(!log.contains("what is to be done"), "no payload in the log");
    texts.push(log);
    let key = fs::read_to_string(bench.path("worker.key")).unwrap();
    for text in texts {
        assert!(
            !text.contains(canary) && !text.contains(key.trim()),
            "{text}"
        );
    }
}
