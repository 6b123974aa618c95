//! From the end of a command to the result of its run.

use crate::protocol::{Json, Object, WorkerResult, parse_json};

use super::control::Exit;
use super::output::end_of;

/// The exit status with which a command says that it met a quota (`EX_TEMPFAIL` of sysexits.h).
const RATE_LIMITED_STATUS: i32 = 75;

/// The most of the output that goes into a summary or a reason.
const LAST_LINES: usize = 20;
const LAST_LINES_BYTES: usize = 4 * 1024;

/// The result of a run whose command ended.
///
/// A last line of standard output that is a JSON object with an `outcome` is the result, whatever the exit status. Else
/// the exit status decides, and the last lines of the output go along.
pub(super) fn result_of(exit: Exit, last_line: Option<&[u8]>, output_tail: &str) -> WorkerResult {
    if let Some(claimed) = last_line.and_then(claimed_result) {
        return claimed;
    }
    let last_lines = last_lines(output_tail);
    match exit {
        Exit::Status(0) => {
            let mut metadata = Object::new();
            metadata.insert("exit_status", Json::from(0_i64));
            WorkerResult::Completed {
                summary: (!last_lines.is_empty()).then(|| last_lines.to_owned()),
                result: None,
                metadata: Some(metadata),
            }
        }
        Exit::Status(RATE_LIMITED_STATUS) => WorkerResult::RateLimited {
            reason: Some(reason(exit, last_lines)),
            retry_after_seconds: None,
        },
        Exit::Status(_) | Exit::Signal(_) => failed(reason(exit, last_lines)),
    }
}

/// The result of a run whose result does not fit into one message.
pub(super) fn oversized_result(exit: &str) -> WorkerResult {
    failed(format!(
        "{exit}; its result is not text or too large for one message of 64 KiB"
    ))
}

/// A run that failed for this reason.
pub(super) fn failed(reason: String) -> WorkerResult {
    WorkerResult::Failed {
        reason: Some(reason),
    }
}

fn claimed_result(line: &[u8]) -> Option<WorkerResult> {
    let object = parse_json(line).ok()?;
    object.get("outcome")?;
    Some(WorkerResult::parse(&object).unwrap_or_else(|error| {
        failed(format!(
            "the last line of output claims an outcome but is no valid result: {error}"
        ))
    }))
}

fn reason(exit: Exit, last_lines: &str) -> String {
    if last_lines.is_empty() {
        format!("{exit}, without any output")
    } else {
        format!("{exit}\n{last_lines}")
    }
}

fn last_lines(output_tail: &str) -> &str {
    let text = output_tail.trim();
    let start = text
        .rmatch_indices('\n')
        .nth(LAST_LINES - 1)
        .map_or(0, |(newline, _)| newline + 1);
    end_of(text.get(start..).unwrap_or_default(), LAST_LINES_BYTES).trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::canonical_json;

    fn result(exit: Exit, last_line: Option<&str>, tail: &str) -> String {
        let result = result_of(exit, last_line.map(str::as_bytes), tail);
        String::from_utf8(canonical_json(&result.to_json()).unwrap()).unwrap()
    }

    #[test]
    fn the_exit_status_decides_where_the_command_claims_nothing() {
        for (exit, expected) in [
            (
                Exit::Status(0),
                r#"{"metadata":{"exit_status":0},"outcome":"completed","summary":"two"}"#,
            ),
            (
                Exit::Status(75),
                r#"{"outcome":"rate_limited","reason":"exit status 75\ntwo"}"#,
            ),
            (
                Exit::Status(1),
                r#"{"outcome":"failed","reason":"exit status 1\ntwo"}"#,
            ),
            (
                Exit::Signal(9),
                r#"{"outcome":"failed","reason":"killed by signal 9\ntwo"}"#,
            ),
        ] {
            for line in ["two", "{}", "[\"outcome\"]", "{\"outcome\"", "\"outcome\""] {
                assert_eq!(result(exit, Some(line), " two\n"), expected, "{line}");
            }
        }
    }

    #[test]
    fn a_command_may_say_nothing() {
        assert_eq!(
            result(Exit::Status(0), None, ""),
            r#"{"metadata":{"exit_status":0},"outcome":"completed"}"#
        );
        assert_eq!(
            result(Exit::Status(2), None, "\n"),
            r#"{"outcome":"failed","reason":"exit status 2, without any output"}"#
        );
    }

    #[test]
    fn what_the_command_claims_is_the_result_whatever_its_exit_status() {
        let blocked = r#"{"block_kind":"needs_input","outcome":"blocked","reason":"which one?"}"#;
        for exit in [Exit::Status(0), Exit::Status(1), Exit::Signal(15)] {
            assert_eq!(result(exit, Some(blocked), "more"), blocked);
        }
    }

    #[test]
    fn a_claim_that_is_no_result_fails_the_run_and_says_why() {
        for (line, why) in [
            (
                r#"{"outcome":"done"}"#,
                "outcome must be one of completed, blocked, failed, rate_limited, released",
            ),
            (
                r#"{"outcome":"completed","summary":1}"#,
                "summary must be text",
            ),
            (r#"{"outcome":null}"#, "outcome is missing"),
        ] {
            let result = result(Exit::Status(0), Some(line), "");
            assert!(result.contains(r#""outcome":"failed""#), "{result}");
            assert!(result.contains(why), "{result}");
        }
    }

    #[test]
    fn the_last_lines_are_few_and_short() {
        let many: String = (0..100).map(|line| format!("line {line}\n")).collect();
        assert!(last_lines(&many).starts_with("line 80\n"));
        assert!(last_lines(&many).ends_with("line 99"));
        assert_eq!(last_lines(&"é".repeat(5_000)).len(), LAST_LINES_BYTES);
        assert_eq!(last_lines("one\ntwo"), "one\ntwo");
    }
}
