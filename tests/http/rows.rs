//! One hostile request and what it must get.

use crate::message::Signed;
use crate::served::Served;
use crate::wire::{Answer, Wire};

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gets {
    /// An unsigned JSON error.
    Error(u16, &'static str),
    /// A signed answer under the key of ordinal 0: the code of a refusal, or the status of an acknowledgement.
    Signed(u16, &'static str),
    /// An answer of the HTTP library itself, without a body, and the end of the connection.
    Bare(u16),
}

/// One row.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) request: Vec<u8>,
    pub(crate) gets: Gets,
    /// The client sends nothing more.
    pub(crate) finishes: bool,
}

impl Gets {
    /// `200 idle` is signed, `400 malformed` an error, `400` alone the library's.
    fn parse(text: &'static str) -> Self {
        let (status, code) = text.split_once(' ').unwrap_or((text, ""));
        match (status.parse().unwrap(), code) {
            (status, "") => Self::Bare(status),
            (status @ (200 | 409 | 422), code) => Self::Signed(status, code),
            (status, code) => Self::Error(status, code),
        }
    }
}

/// Rows from lines of `name | … | what it gets`; `make` turns what stands between into a request.
pub(crate) fn table(lines: &'static str, make: impl Fn(&[&str]) -> Vec<u8>) -> Vec<Row> {
    let line = |line: &'static str| {
        let cells: Vec<&'static str> = line.split(" | ").map(str::trim).collect();
        let (name, gets) = (cells[0], cells[cells.len() - 1]);
        row(name, make(&cells[1..cells.len() - 1]), Gets::parse(gets))
    };
    lines.trim().lines().map(line).collect()
}

pub(crate) fn row(name: &'static str, request: impl Into<Vec<u8>>, gets: Gets) -> Row {
    Row {
        name,
        request: request.into(),
        gets,
        finishes: false,
    }
}

impl Row {
    pub(crate) fn then_finishes(mut self) -> Self {
        self.finishes = true;
        self
    }
}

/// Sends every row on a connection of its own; after each, the pool serves the next good request.
pub(crate) fn assert_rows(served: &Served, rows: &[Row]) {
    let mut failures = Vec::new();
    for row in rows {
        let mut wire = Wire::open(served.workers);
        wire.send(&row.request);
        if row.finishes {
            wire.finish();
        }
        match wire.answer() {
            Ok(answer) => {
                served.assert_discreet(&answer);
                served.assert_silent(&row.request, &answer);
                let got = got(served, &answer, row.gets);
                if got != format!("{:?}", row.gets) {
                    failures.push(format!("{}: wanted {:?}, got {got}", row.name, row.gets));
                } else if matches!(row.gets, Gets::Bare(_)) && !wire.is_closed() {
                    failures.push(format!("{}: the connection stays open", row.name));
                }
            }
            Err(error) => failures.push(format!("{}: no answer: {error}", row.name)),
        }
        assert!(
            served.worker(0).poll().is_none(),
            "{}: the next good poll is served",
            row.name
        );
    }
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        rows.len(),
        failures.join("\n")
    );
}

/// The answer as the expectation would be written.
fn got(served: &Served, answer: &Answer, wanted: Gets) -> String {
    let status = answer.status;
    if answer.body.is_empty() {
        return format!("{:?}", Gets::Bare(status));
    }
    assert_eq!(
        answer.header("content-type"),
        Some("application/json"),
        "{answer:?}"
    );
    match (answer.json()["error"]["code"].as_str(), wanted) {
        (Some(code), _) => {
            assert_promised_headers(answer);
            format!("Error({status}, {code:?})")
        }
        (None, Gets::Signed(..)) => {
            let signed = Signed::open(&served.worker(0).key, answer.text());
            assert_eq!(signed.kind(), "ack");
            format!("Signed({status}, {:?})", signed.code())
        }
        (None, _) => format!("{status}: {}", answer.text()),
    }
}

fn assert_promised_headers(answer: &Answer) {
    let wanted = match answer.status {
        405 => ("allow", "POST"),
        503 => ("retry-after", "1"),
        _ => return,
    };
    assert_eq!(answer.header(wanted.0), Some(wanted.1), "{answer:?}");
}
