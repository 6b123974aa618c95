//! Plays a script: some steps by Hermes, the others by the adapter, on one clock.

use std::collections::HashMap;

use hermes_pool::board::hermes::HermesBoard;
use hermes_pool::clock::{Clock, SystemClock};
use serde_json::{Map, Value, json};

use super::answers;
use super::oracle::Oracle;

/// How long claims live where neither step nor environment says.
const DEFAULT_TTL_SECONDS: i64 = 900;

/// What the adapter can do.
const ADAPTER_OPERATIONS: [&str; 11] = [
    "ready",
    "claim",
    "heartbeat",
    "heartbeat_worker",
    "complete",
    "block",
    "reclaim",
    "comment",
    "evidence",
    "context",
    "board_list",
];

/// Who plays the steps that the adapter has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cast {
    /// Hermes alone.
    Hermes,
    /// The adapter, with Hermes around it.
    Adapter,
}

/// One play of a script.
pub(crate) struct Player {
    pub(crate) oracle: Oracle,
    cast: Cast,
    saved: HashMap<String, Value>,
    /// The script's clock; `None` while it is the real one.
    clock: Option<i64>,
    pub(crate) boards: HashMap<String, HermesBoard>,
    /// Whom Hermes claims for where a step names nobody.
    pub(crate) claimer: String,
    /// How long Hermes' claims live where a step does not say.
    pub(crate) default_ttl_seconds: i64,
}

impl Player {
    pub(crate) fn new(oracle: Oracle, cast: Cast) -> Self {
        Self {
            oracle,
            cast,
            saved: HashMap::new(),
            clock: None,
            boards: HashMap::new(),
            claimer: "oracle-host:4242".to_owned(),
            default_ttl_seconds: DEFAULT_TTL_SECONDS,
        }
    }

    /// Plays all steps and returns their answers.
    ///
    /// # Errors
    /// The step that did not go as the script says.
    pub(crate) fn play(&mut self, script: &[Value]) -> Result<Vec<Value>, String> {
        script
            .iter()
            .enumerate()
            .map(|(number, step)| {
                self.step(step)
                    .map_err(|problem| format!("step {number} {step}: {problem}"))
            })
            .collect()
    }

    /// Every board of the home, row by row.
    pub(crate) fn dump(&mut self) -> Value {
        self.oracle.dump()
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock
            .unwrap_or_else(|| SystemClock::new().now().whole_seconds())
    }

    fn step(&mut self, step: &Value) -> Result<Value, String> {
        let mut request = step.as_object().ok_or("a step is an object")?.clone();
        let name = request.remove("as");
        let expects_error = request.remove("expect_error") == Some(json!(true));
        let check = request.remove("check");
        request.remove("label");
        let request = self.substitute(&Value::Object(request))?;
        let answer = self.perform(&request)?;
        if answer["ok"] == json!(expects_error) {
            return Err(format!("answered {answer}"));
        }
        if answer["ok"] == true {
            if let Some(check) = check {
                compare_with(&self.substitute(&check)?, &answer["result"])?;
            }
            if let Some(name) = name.as_ref().and_then(Value::as_str) {
                self.saved.insert(name.to_owned(), answer["result"].clone());
            }
        }
        Ok(self.neutral(&answer))
    }

    fn perform(&mut self, request: &Value) -> Result<Value, String> {
        let op = request["op"].as_str().ok_or("a step names an operation")?;
        if self.cast == Cast::Adapter && ADAPTER_OPERATIONS.contains(&op) {
            return Ok(answers::answer(self, op, request));
        }
        let answer = self.oracle.ask(request);
        if answer["ok"] == true {
            self.follow(op, &answer["result"]);
        }
        Ok(answer)
    }

    /// Keeps what a step of the stage changes for the adapter too.
    fn follow(&mut self, op: &str, result: &Value) {
        match op {
            "clock" => self.clock = result["now"].as_i64().filter(|_| result["faked"] == true),
            "identity" => result["claimer"]
                .as_str()
                .unwrap()
                .clone_into(&mut self.claimer),
            "env" => {
                let ttl = result["HERMES_KANBAN_CLAIM_TTL_SECONDS"].as_str();
                self.default_ttl_seconds = ttl
                    .and_then(|ttl| ttl.trim().parse().ok())
                    .filter(|ttl| *ttl > 0)
                    .unwrap_or(DEFAULT_TTL_SECONDS);
            }
            _ => {}
        }
    }

    /// Puts saved results in the place of `$name` and `$name.key`.
    fn substitute(&self, value: &Value) -> Result<Value, String> {
        match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(reference) => self.look_up(reference),
                None => Ok(value.clone()),
            },
            Value::Array(items) => items.iter().map(|item| self.substitute(item)).collect(),
            Value::Object(members) => {
                let replaced: Result<Map<_, _>, String> = members
                    .iter()
                    .map(|(key, member)| Ok((key.clone(), self.substitute(member)?)))
                    .collect();
                replaced.map(Value::Object)
            }
            _ => Ok(value.clone()),
        }
    }

    fn look_up(&self, reference: &str) -> Result<Value, String> {
        let mut parts = reference.split('.').filter(|part| !part.is_empty());
        let missing = || format!("nothing was saved as {reference}");
        let saved = parts.next().and_then(|name| self.saved.get(name));
        let mut found = saved.ok_or_else(missing)?;
        for part in parts {
            found = match found {
                Value::Array(items) => part.parse::<usize>().ok().and_then(|n| items.get(n)),
                other => other.get(part),
            }
            .ok_or_else(missing)?;
        }
        Ok(found.clone())
    }

    /// The answer without the home's path, which differs between plays.
    fn neutral(&self, answer: &Value) -> Value {
        let home = self.oracle.home().to_str().expect("the path is a text");
        let text = answer.to_string().replace(home, "<HOME>");
        serde_json::from_str(&text).expect("it is still JSON")
    }
}

/// Checks a result as a script asks: an object names some of the result's members, anything else is the whole result.
fn compare_with(wanted: &Value, result: &Value) -> Result<(), String> {
    let is_as_wanted = match wanted {
        Value::Object(members) => members
            .iter()
            .all(|(key, value)| result.get(key).unwrap_or(&Value::Null) == value),
        whole => whole == result,
    };
    if is_as_wanted {
        Ok(())
    } else {
        Err(format!("wanted {wanted}, got {result}"))
    }
}
