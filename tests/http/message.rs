//! Messages as a worker writes them, or as somebody writes who wants to pass for one. Signing is done here by the protocol's
//! rules, not with the pool's own signer.

use std::collections::BTreeMap;

use hermes_pool::protocol::{Json, canonical_text, parse_json};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A code over a text under a key, which is used as the text it is.
pub(crate) fn code(key: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    hex(&mac.finalize().into_bytes())
}

/// The key of one ordinal.
pub(crate) fn ordinal_key(master: &str, ordinal: u16) -> String {
    code(
        master,
        &format!("hermes-execution-pool-v2:worker:{ordinal}"),
    )
}

/// The canonical texts of a message's fields.
fn fields_of(text: &str) -> BTreeMap<String, String> {
    let Ok(Json::Object(fields)) = parse_json(text.as_bytes()) else {
        panic!("no envelope: {text}");
    };
    let named = |(name, value): &(_, Json)| {
        let name: &hermes_pool::protocol::Text = name;
        let name = name.as_str().unwrap().to_owned();
        (name, canonical_text(value).unwrap())
    };
    fields.iter().map(named).collect()
}

/// Canonical text; empty where there is none.
fn canonical(text: &str) -> String {
    parse_json(text.as_bytes())
        .and_then(|value| canonical_text(&value))
        .unwrap_or_default()
}

/// A message whose fields are JSON texts, so that each can be anything.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    fields: BTreeMap<String, String>,
}

impl Message {
    /// A message without a run, that lives for two minutes.
    pub(crate) fn new(kind: &str, ordinal: u16, now: i64) -> Self {
        let delivery = uuid::Uuid::new_v4();
        let fields = [
            ("version", "2".to_owned()),
            ("kind", format!("\"{kind}\"")),
            ("board", "\"\"".to_owned()),
            ("task_id", "\"\"".to_owned()),
            ("run_id", "\"\"".to_owned()),
            ("worker_ordinal", ordinal.to_string()),
            ("attempt", "0".to_owned()),
            ("delivery_id", format!("\"{delivery}\"")),
            ("issued_at", now.to_string()),
            ("expires_at", (now + 120).to_string()),
            ("payload", "{}".to_owned()),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        Self {
            fields: fields.into(),
        }
    }

    /// The message with one field set to a JSON text.
    pub(crate) fn with(mut self, name: &str, text: impl ToString) -> Self {
        self.fields.insert(name.to_owned(), text.to_string());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.remove(name);
        self
    }

    /// The message with the binding of an assignment.
    pub(crate) fn of(mut self, run: &Signed) -> Self {
        for name in ["board", "task_id", "run_id", "attempt"] {
            self = self.with(name, &run.fields[name]);
        }
        self
    }

    /// The message with its digest, unless it has one, and its signature.
    pub(crate) fn sealed(mut self, key: &str) -> Self {
        if !self.fields.contains_key("payload_digest") {
            let payload = canonical(&self.fields["payload"]);
            let digest = hex(&Sha256::digest(payload.as_bytes()));
            self = self.with("payload_digest", format!("\"{digest}\""));
        }
        self.fields.remove("signature");
        let signature = code(key, &canonical(&self.text()));
        self.with("signature", format!("\"{signature}\""))
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        &self.fields[name]
    }

    /// The body of a request, ordered by name but otherwise as the fields were written.
    pub(crate) fn text(&self) -> String {
        let members = self
            .fields
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        self.text().into_bytes()
    }
}

/// An authentic answer.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub(crate) envelope: serde_json::Value,
    /// The canonical text of each field.
    pub(crate) fields: BTreeMap<String, String>,
}

impl Signed {
    /// Reads a body, which must be an envelope that this key signed.
    #[track_caller]
    pub(crate) fn open(key: &str, body: &str) -> Self {
        let fields = fields_of(body);
        let expected = Message {
            fields: fields.clone(),
        }
        .without("payload_digest")
        .sealed(key);
        for name in ["payload_digest", "signature"] {
            assert_eq!(fields[name], expected.fields[name], "{name} of {body}");
        }
        Self {
            envelope: serde_json::from_str(body).unwrap(),
            fields,
        }
    }

    pub(crate) fn kind(&self) -> &str {
        self.envelope["kind"].as_str().unwrap()
    }

    pub(crate) fn payload(&self) -> &serde_json::Value {
        &self.envelope["payload"]
    }

    /// The code of a refusal, or the status of an acknowledgement.
    pub(crate) fn code(&self) -> &str {
        let payload = self.payload();
        payload["code"]
            .as_str()
            .or(payload["status"].as_str())
            .unwrap()
    }
}
