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
pub fn code(key: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    hex(&mac.finalize().into_bytes())
}

/// The key of one ordinal.
pub fn ordinal_key(master: &str, ordinal: u16) -> String {
    code(
        master,
        &format!("hermes-execution-pool-v2:worker:{ordinal}"),
    )
}

/// Canonical text; empty where there is none.
fn canonical(text: &str) -> String {
    parse_json(text.as_bytes())
        .and_then(|value| canonical_text(&value))
        .unwrap_or_default()
}

/// A message whose fields are JSON texts, so that each can be anything.
#[derive(Clone, Debug)]
pub struct Message {
    fields: BTreeMap<String, String>,
}

impl Message {
    /// A message without a run, that lives for two minutes.
    pub fn new(kind: &str, ordinal: u16, now: i64) -> Self {
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
    pub fn with(mut self, name: &str, text: impl ToString) -> Self {
        self.fields.insert(name.to_owned(), text.to_string());
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.fields.remove(name);
        self
    }

    /// The message with the binding of an assignment.
    pub fn of(mut self, run: &Signed) -> Self {
        for name in ["board", "task_id", "run_id", "attempt"] {
            self = self.with(name, &run.envelope[name]);
        }
        self
    }

    /// The message with its digest, unless it has one, and its signature.
    pub fn sealed(mut self, key: &str) -> Self {
        if !self.fields.contains_key("payload_digest") {
            let payload = canonical(&self.fields["payload"]);
            let digest = hex(&Sha256::digest(payload.as_bytes()));
            self = self.with("payload_digest", format!("\"{digest}\""));
        }
        self.fields.remove("signature");
        let signature = code(key, &canonical(&self.text()));
        self.with("signature", format!("\"{signature}\""))
    }

    pub fn field(&self, name: &str) -> &str {
        &self.fields[name]
    }

    /// The body of a request, ordered by name but otherwise as the fields were written.
    pub fn text(&self) -> String {
        let members = self
            .fields
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    pub fn body(&self) -> Vec<u8> {
        self.text().into_bytes()
    }
}

/// An authentic answer.
#[derive(Clone, Debug)]
pub struct Signed {
    pub envelope: serde_json::Value,
}

impl Signed {
    /// Reads a body, which must be an envelope that this key signed.
    #[track_caller]
    pub fn open(key: &str, body: &str) -> Self {
        let envelope: serde_json::Value = serde_json::from_str(body).unwrap();
        let Ok(Json::Object(mut fields)) = parse_json(body.as_bytes()) else {
            panic!("no envelope: {body}");
        };
        let signature = fields.remove("signature").expect("a signature");
        let signed = canonical_text(&Json::Object(fields)).unwrap();
        assert_eq!(
            signature.as_str(),
            Some(code(key, &signed).as_str()),
            "{body}"
        );
        let payload = canonical(&envelope["payload"].to_string());
        let digest = hex(&Sha256::digest(payload.as_bytes()));
        assert_eq!(envelope["payload_digest"], digest, "{body}");
        Self { envelope }
    }

    pub fn kind(&self) -> &str {
        self.envelope["kind"].as_str().unwrap()
    }

    pub fn payload(&self) -> &serde_json::Value {
        &self.envelope["payload"]
    }

    /// The code of a refusal, or the status of an acknowledgement.
    pub fn code(&self) -> &str {
        let payload = self.payload();
        payload["code"]
            .as_str()
            .or(payload["status"].as_str())
            .unwrap()
    }
}
