//! Vector files: where they are, what they share, how their cases are tried.

use std::env;
use std::fs;
use std::path::PathBuf;

use hermes_pool::protocol::{Json, ProtocolError, parse_json};
use serde_json::Value;

/// The difference between what a case expects and what happened.
pub(crate) type Difference = String;

/// One vector file.
pub(crate) struct VectorFile {
    pub(crate) name: String,
    pub(crate) format: String,
    pub(crate) cases: Vec<Value>,
}

/// All vector files of the folder, in the order of their names.
pub(crate) fn files() -> Vec<VectorFile> {
    let folder = env::var_os("POOL_VECTORS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors")),
        PathBuf::from,
    );
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("POOL_VECTORS {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    paths.into_iter().map(read).collect()
}

fn read(path: PathBuf) -> VectorFile {
    let name = path.display().to_string();
    let content = fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let document: Value =
        serde_json::from_slice(&content).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (Some(format), Some(cases)) = (document["format"].as_str(), document["cases"].as_array())
    else {
        panic!("{name}: no vector file, it lacks a format or cases");
    };
    VectorFile {
        name,
        format: format.to_owned(),
        cases: cases.clone(),
    }
}

/// Tries every case of every file of one format.
pub(crate) fn replay_format(format: &str, replay: fn(&Value) -> Result<(), Difference>) {
    let mut cases = 0;
    let mut differences = Vec::new();
    for file in files().iter().filter(|file| file.format == format) {
        for case in &file.cases {
            cases += 1;
            if let Err(difference) = replay(case) {
                let name = text(case, "name");
                differences.push(format!("{}: {name}: {difference}", file.name));
            }
        }
    }
    match cases {
        0 => println!("{format}: no file of this format"),
        _ => println!("{format}: {cases} cases"),
    }
    assert!(
        differences.is_empty(),
        "{} of {cases} cases of {format} differ\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// A text field of a case.
pub(crate) fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} is not text in {case}"))
}

/// An integer field of a case.
pub(crate) fn integer(case: &Value, field: &str) -> i64 {
    case[field]
        .as_i64()
        .unwrap_or_else(|| panic!("{field} is not an integer in {case}"))
}

/// The bytes of a hexadecimal field of a case.
pub(crate) fn bytes(case: &Value, field: &str) -> Vec<u8> {
    from_hex(text(case, field))
}

/// The bytes of hexadecimal digits.
pub(crate) fn from_hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

/// Parses JSON that is given as code points. A byte order mark in front settles the encoding, so
/// that the text itself is not searched for signs of one.
pub(crate) fn parse_text(text: &str) -> Result<Json, ProtocolError> {
    parse_json(format!("\u{FEFF}{text}").as_bytes())
}

/// Whether a case has a tag.
pub(crate) fn has_tag(case: &Value, tag: &str) -> bool {
    case["tags"]
        .as_array()
        .is_some_and(|tags| tags.iter().any(|given| given == tag))
}

/// Compares two values of one member of the outcome.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    actual: T,
    expected: T,
) -> Result<(), Difference> {
    if actual == expected {
        return Ok(());
    }
    Err(format!("{what} is {actual:?}, expected {expected:?}"))
}

/// Tells what a case expects: a failure to compare with, or none.
pub(crate) fn expected_error(case: &Value) -> Option<&Value> {
    case.get("error")
}

/// Compares two texts that are given as bytes.
pub(crate) fn same_text(what: &str, actual: &[u8], expected: &[u8]) -> Result<(), Difference> {
    let (actual, expected) = (
        String::from_utf8_lossy(actual),
        String::from_utf8_lossy(expected),
    );
    same(what, actual, expected)
}

/// Compares an outcome with the failure that is expected, or hands the good outcome on.
///
/// The messages of the reference's own errors are part of the contract. What escapes from its
/// runtime has to be refused with the code that this crate's interface names instead.
pub(crate) fn good<T>(
    outcome: Result<T, ProtocolError>,
    expected: Option<&Value>,
) -> Result<Option<T>, Difference> {
    match (outcome, expected) {
        (Ok(value), None) => Ok(Some(value)),
        (Ok(_), Some(expected)) => Err(format!("it is taken, expected {expected}")),
        (Err(error), None) => Err(format!("it is refused: {error}")),
        (Err(error), Some(expected)) => {
            let code = match text(expected, "class") {
                "ProtocolError" => {
                    same("message", &*error.to_string(), text(expected, "message"))?;
                    return Ok(None);
                }
                "UnicodeEncodeError" => "invalid_message",
                "TypeError" => "not_authentic",
                "JSONDecodeError" | "RecursionError" | "ValueError" => "malformed",
                class => return Err(format!("unknown class of error {class}")),
            };
            same("code", error.code(), code)?;
            Ok(None)
        }
    }
}
